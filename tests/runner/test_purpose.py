"""What `farm run` does around its runs, with boards' part played by stored boots: order, settings, exit codes, what is told."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from farm.campaign import Campaign, as_run, load_campaign
from farm.errors import BoardError, UserError
from farm.influx.line import unpack
from farm.influx.points import boot_lines
from farm.ports import free_port
from farm.report import text
from farm.report.nights import nightly
from farm.report.study import study
from farm.runner import session
from farm.runner.controller import Outcome
from farm.runner.purpose import Purpose, commits
from farm.store.db import Store
from tests.report.stored import CAMPAIGN, put


class Played:
    """Stands in for the boards: each run that is asked for is put into the store with the ratios that come next."""

    def __init__(self, ratios: Sequence[Mapping[str, float] | BoardError]) -> None:
        self.ratios = list(ratios)
        self.asked: list[tuple[Campaign, list[str], int | None, str | None, Mapping[str, Any]]] = []

    def measure(
        self,
        of: session._Session,
        campaign: Campaign,
        asked: Sequence[str],
        count: int | None,
        seed: int | None,
        resume: str | None,
        settings: Mapping[str, Any],
    ) -> Outcome:
        self.asked.append((as_run(campaign, settings), list(asked), seed, resume, settings))
        ratio = self.ratios.pop(0)
        if isinstance(ratio, BoardError):
            raise ratio
        done = as_run(campaign, settings)
        with Store.open(of.database, create=True) as store:
            name = f"run{len(store.runs()) + 1}"
            others = {key: value for key, value in settings.items() if key not in ("variants", "workloads")}
            put(
                store, name, ratio=ratio, seed=seed or 1, boards=tuple(asked), text=campaign.source_text,
                variants=tuple(done.variants), workloads=tuple(one.name for one in done.workloads),  # type: ignore[arg-type]
                started=1.8e9 + len(store.runs()), **others,
            )  # fmt: skip
        return Outcome(name, "done", {}, 0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_HOME", str(tmp_path))
    monkeypatch.setattr(session, "check_boards", lambda campaign: None)
    for name in ("INFLUXDB_V2_URL", "INFLUXDB_V2_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "c.yaml").write_text(CAMPAIGN.replace("boards: [b]", "boards: [b, c]"))
    return tmp_path


def go(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratios: Sequence[Mapping[str, float] | BoardError],
    resume: str | None = None,
    **purpose: Any,
) -> tuple[int, str, Played]:
    played, out = Played(ratios), io.StringIO()
    monkeypatch.setattr(session._Session, "measure", lambda of, *given: played.measure(of, *given))
    code = session.run_campaign(
        home / "c.yaml", boards=None, seed=7, resume=resume, start=False, out=Console(file=out, width=100),
        err=Console(file=out, width=100), purpose=Purpose(**purpose),
    )  # fmt: skip
    return code, " ".join(out.getvalue().split()), played


def sent(home: Path) -> str:
    """All verdicts that wait for InfluxDB."""
    with Store.open(home / "farm.db") as store:
        bodies = [row.body for row in store.outbox.waiting() if row.kind == "verdict" and row.body]
        return "\n".join(line for body in bodies for line in unpack(body))


def test_slower_is_told_at_once_where_no_confirmation_is_wanted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said, played = go(home, monkeypatch, [{"one": 0.9}])
    assert (code, len(played.asked)) == (0, 1) and "▼ Slower" in said and "exit code" not in said
    code, said, _ = go(home, monkeypatch, [{"one": 0.9}], fail_on=frozenset({"slower"}))
    # on both boards: bandwidth and the tail of latencies
    assert code == 1 and said.endswith("exit code 1, as --fail-on asks: 4 slower")
    code, said, _ = go(home, monkeypatch, [{"one": 1.1}], fail_on=frozenset({"slower", "unstable"}))
    assert code == 0 and "exit code" not in said


def test_what_is_slower_is_measured_again_and_told_where_it_holds(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said, played = go(
        home, monkeypatch, [{"one": 0.9, "two": 1.1}, {"one": 0.9}], confirm=True, branch="next",
        commits={"cand": "1a2b3c"}, fail_on=frozenset({"slower"}),
    )  # fmt: skip
    (first, asked, seed, _, settings), (again, boards, fresh, resume, confirming) = played.asked
    assert (asked, seed, settings) == (
        ["b", "c"],
        7,
        {"confirm": True, "branch": "next", "commits": {"cand": "1a2b3c"}},
    )
    assert ([one.name for one in first.workloads], [one.name for one in again.workloads]) == (
        ["one", "two"],
        ["one"],
    )
    assert (boards, fresh, resume) == (["b", "c"], 8, None), "another order of boots"
    assert confirming["confirms"] == "run1" and confirming["branch"] == "next" and "confirm" not in confirming
    assert "slower, so measured again with fresh boots: one on b, c" in said
    assert code == 1 and "Confirmed with fresh boots in run run2" in said
    assert "run: run1 (done) run: run2 (done)" in said
    slower = [line for line in sent(home).split("\n") if "score=-1" in line]
    assert len(slower) == 4 and all('run="run1"' in line for line in slower), (
        "one point a verdict, of the first run"
    )


def test_what_does_not_hold_is_told_to_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, _ = go(
        home, monkeypatch, [{"one": 0.9}, {"one": 1.0}], confirm=True, fail_on=frozenset({"slower"})
    )
    assert code == 0 and "▼" not in said and "not confirmed with fresh boots in run run2" in said
    assert "score=-1" not in sent(home) and 'verdict="slower"' not in sent(home)


def test_nothing_slower_is_nothing_to_confirm(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, played = go(home, monkeypatch, [{"one": 1.1}], confirm=True)
    assert (code, len(played.asked)) == (0, 1)


def test_a_board_that_is_busy_then_leaves_it_open_and_the_run_can_go_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BoardError("is busy: farm run other", board="b")
    code, said, _ = go(home, monkeypatch, [{"one": 0.9}, busy], confirm=True, fail_on=frozenset({"slower"}))
    assert code == 3 and "what is slower was not measured again" in said
    assert "Inconclusive until it is measured again" in said and "score=-1" not in sent(home)
    played = Played([{"one": 0.9}])
    on_resume = [Outcome("run1", "done", {}, 0)]
    monkeypatch.setattr(
        session._Session,
        "measure",
        lambda of, *given: on_resume.pop() if on_resume else played.measure(of, *given),
    )
    out = io.StringIO()
    code = session.run_campaign(
        home / "c.yaml", boards=None, seed=None, resume="run1", start=False, out=Console(file=out, width=100),
        err=Console(file=out, width=100), purpose=Purpose(fail_on=frozenset({"slower"})),
    )  # fmt: skip
    assert (
        code == 1
        and played.asked[0][1] == ["b", "c"]
        and "Confirmed with fresh boots" in " ".join(out.getvalue().split())
    )


def test_a_run_goes_on_with_the_boards_that_it_was_begun_with(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (home / "c.yaml").read_text()
    with Store.open(home / "farm.db", create=True) as store:
        put(store, "begun", boards=("d",), text=text, asked=["board=evb"], count=1)
    seen: list[tuple[list[str], int | None]] = []

    def measure(
        of: session._Session, campaign: Campaign, asked: list[str], count: int | None, *given: Any
    ) -> Outcome:
        seen.append((asked, count))
        return Outcome("begun", "done", {}, 0)

    monkeypatch.setattr(session._Session, "measure", measure)
    for boards in (None, ["e"]):
        session.run_campaign(
            home / "c.yaml", boards=boards, seed=None, resume="begun", start=False,
            out=Console(file=io.StringIO()), err=Console(file=io.StringIO()),
        )  # fmt: skip
    assert seen == [(["board=evb"], 1), (["e"], None)]


def test_what_influxdb_did_not_take_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFLUXDB_V2_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("INFLUXDB_V2_BUCKET", "farm")
    with Store.open(home / "farm.db", create=True) as store:
        put(store, "r")
    err = io.StringIO()
    with session._exported(home / "farm.db", Console(file=err, width=100)):
        pass
    assert "`farm push` sends them later" in err.getvalue()


def test_an_aa_run_calls_no_regression(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, played = go(home, monkeypatch, [{"one": 0.9}], aa=True, fail_on=frozenset({"slower"}))
    campaign, _, _, _, settings = played.asked[0]
    assert (list(campaign.variants), settings) == (["base", "base-again"], {"aa": True})
    assert code == 0 and "False alarm, since both names are the same variant" in said and sent(home) == ""


def test_what_does_not_fit_is_refused_before_any_board(home: Path) -> None:
    campaign = load_campaign(home / "c.yaml")
    for purpose, said in (
        (Purpose(aa=True, confirm=True), "--aa expects no difference"),
        (Purpose(branch="a b"), "--branch 'a b' is no name of a branch"),
        (
            Purpose(commits={"new": "1a2b"}),
            "--commit names 'new', which is no variant; the campaign has base, cand",
        ),
    ):
        with pytest.raises(UserError, match=said):
            purpose.settings(campaign)
    assert Purpose(aa=True, commits={"base": "1a", "cand": "2b"}).settings(campaign) == {
        "aa": True,
        "commits": {"base": "1a", "base-again": "1a"},
    }
    with pytest.raises(UserError, match="run r is no A/A run"):
        Purpose(aa=True).on_resume({}, "r")
    with pytest.raises(UserError, match="has its branch and commits on record"):
        Purpose(branch="next").on_resume({}, "r")
    assert Purpose(confirm=True).on_resume({"looks": 2}, "r") == {"looks": 2, "confirm": True}


def test_commits_are_variants_with_a_name() -> None:
    assert commits(["new=1a2b3c", "old=v6.17-rc1"]) == {"new": "1a2b3c", "old": "v6.17-rc1"}
    for words, said in (
        (["new"], "is not VARIANT=SHA"),
        (["=1a"], "is not VARIANT=SHA"),
        (["new=\x1b[2J"], "is not VARIANT=SHA"),
        (["new=1a", "new=2b"], "names 'new' twice"),
    ):
        with pytest.raises(UserError, match=said):
            commits(words)


def test_branch_and_commits_reach_trend_points_and_mail(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(home, monkeypatch, [{}], branch="next", commits={"base": "0ld", "cand": "1a2b3c"})
    with Store.open(home / "farm.db") as store:
        found = study(store, "latest")
        mail = " ".join(text.mail(found).split())
        assert "commit of base: 0ld" in mail and "commit of cand: 1a2b3c" in mail and "branch next)" in mail
        series = nightly(store, branch="next")
        assert {(one.key.branch, one.key.variant, one.nights[0].commit) for one in series} == {
            ("next", "base", "0ld"),
            ("next", "cand", "1a2b3c"),
        }
        assert nightly(store, branch="stable") == ()
        boot = store.boots("run1")[0]
        lines = list(boot_lines(store.run("run1"), boot, store.trials("run1", boot_id=boot.id)))
    assert all("branch=next" in line for line in lines)
    commit = {"base": "0ld", "cand": "1a2b3c"}[boot.variant]
    assert f'commit="{commit}"' in lines[0]
    assert "branch=next" in sent(home)
