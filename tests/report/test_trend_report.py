"""`farm trend` from a real store: series, nights, names, and text that no terminal obeys."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from farm.analysis.trend import trends
from farm.influx.changes import change_line
from farm.influx.line import unpack
from farm.report.nights import nightly
from farm.report.trend import lines, print_trends
from farm.runner.trends import find
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

T0 = 1_767_400_000.0


def fill(store: Store, nights: int, *, slower_from: int, board: str = "evb-a", card: str = "DG4016") -> None:
    """Runs of two boots of three trials; the second boot of night 3 is void, its values absurd."""
    rng = np.random.default_rng(11)
    for night in range(nights):
        run, start = f"2026-{night:03d}", T0 + 86_400 * night
        level = 50e6 * (0.9 if night >= slower_from else 1) * float(np.exp(rng.normal(0, 0.005)))
        settings = {"baseline": "next", "branch": "linux-next", "commits": {"next": f"abc{night:04d}"}}
        store.begin_run(RunRecord(run, "nightly", "", 1, start, settings=settings))
        for boot in range(2):
            bad = night == 3 and boot == 1
            trials = tuple(
                TrialRecord("seqread", rep, "ok", "", "dd", start + rep, 1.0,
                            (SampleRecord("read", "bw_bytes", 1.0 if bad else level * (1 + rep / 1000)),))
                for rep in range(3)
            )  # fmt: skip
            store.commit_boot(
                BootRecord(run, board, boot, 0, "next", 0, "void" if bad else "ok", "other kernel" if bad else "",
                           start + boot, start + boot + 50,
                           facts={"banner": f"Linux version 6.12.{night}-arm64 (x@y) #1", "card.name": card}, trials=trials)
            )  # fmt: skip
        store.finish_run(run, "done", ended=start + 500)


def test_a_night_is_the_median_of_its_good_boots(store: Store) -> None:
    fill(store, 6, slower_from=99)
    store.begin_run(RunRecord("unfinished", "nightly", "", 1, T0 + 1e7, settings={"branch": "linux-next"}))
    (series,) = nightly(store)
    assert (series.key.board, series.key.card, series.key.branch) == ("evb-a", "DG4016", "linux-next")
    assert (series.key.workload, series.key.direction, series.key.variant) == ("seqread", "read", "next")
    assert [night.run for night in series.nights] == [f"2026-{n:03d}" for n in range(6)]
    assert min(night.value for night in series.nights) > 40e6
    assert (series.nights[5].kernel, series.nights[5].commit) == ("6.12.5-arm64", "abc0005")


def test_another_card_is_another_series(store: Store) -> None:
    fill(store, 8, slower_from=99)
    fill_other = Store.open(store.path)
    with fill_other as other:
        for night in range(8, 12):
            start = T0 + 86_400 * night
            other.begin_run(
                RunRecord(f"2026-{night:03d}", "nightly", "", 1, start, settings={"branch": "linux-next"})
            )
            trial = TrialRecord(
                "seqread", 0, "ok", "", "dd", start, 1.0, (SampleRecord("read", "bw_bytes", 9e6),)
            )
            other.commit_boot(
                BootRecord(f"2026-{night:03d}", "evb-a", 0, 0, "next", 0, "ok", "", start, start + 9,
                           facts={"card.name": "NEW"}, trials=(trial,))
            )  # fmt: skip
            other.finish_run(f"2026-{night:03d}", "done")
    found = trends(nightly(store))
    assert sorted((one.series.key.card, len(one.series.nights)) for one in found) == [
        ("DG4016", 8),
        ("NEW", 4),
    ]
    assert all(not one.changes for one in found)


def test_filters(store: Store) -> None:
    fill(store, 3, slower_from=99)
    assert len(nightly(store, campaign="nightly", branch="linux-next", board="evb-a")) == 1
    for wrong in ({"campaign": "x"}, {"branch": "mainline"}, {"board": "evb-b"}, {"metric": "iops"}):
        assert nightly(store, **wrong) == ()


def test_the_report_names_runs_kernels_and_sizes(store: Store) -> None:
    fill(store, 24, slower_from=16)
    out = io.StringIO()
    print_trends(trends(nightly(store)), Console(file=out, width=100))
    said = out.getvalue()
    assert "v evb-a seqread bw_bytes of next" in said
    assert "slower -10." in said or "slower -9." in said
    assert "last before: 2026-015 (6.12.15-arm64 abc0015)" in said
    assert "first after: 2026-016 (6.12.16-arm64 abc0016)" in said
    assert "1 series of up to 24 nights: 1 changes, 0 drifts; 0 series steady." in said
    assert max(map(len, said.splitlines())) <= 100


def test_text_of_boards_is_not_obeyed(store: Store) -> None:
    fill(store, 24, slower_from=12, board="evil\x1b[2J" + "b" * 300, card="c\x07\u202e" * 99)
    text = "\n".join(lines(trends(nightly(store))))
    assert "evil^[[2J" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert max(map(len, text.splitlines())) <= 100


def test_nothing_yet(store: Store) -> None:
    assert list(lines(())) == [
        "There are no nightly runs yet: a trend needs runs of one campaign that are done."
    ]
    fill(store, 4, slower_from=99)
    assert (
        list(lines(trends(nightly(store))))[-1]
        == "1 series have fewer than 6 nights, too few to see any change."
    )


def test_the_point_of_a_change(store: Store) -> None:
    fill(store, 24, slower_from=16)
    (found,) = trends(nightly(store))
    line = change_line(found.changes[0], soc="RK3568")
    head, _, rest = line.partition(" ")
    assert head == (
        "changepoint,board=evb-a,branch=linux-next,campaign=nightly,card=DG4016,direction=read,metric=bw_bytes,"
        "soc=RK3568,variant=next,workload=seqread"
    )
    assert 'run_before="2026-015"' in rest
    assert 'commit_after="abc0016"' in rest
    assert 'text="seqread on evb-a: slower -' in rest
    assert rest.endswith(f" {round((T0 + 86_400 * 16) * 1000)}")


def test_a_change_point_names_the_soc_of_the_run_behind_it(store: Store) -> None:
    fill(store, 24, slower_from=16)
    run = store.run("2026-016")
    store.set_settings(run.id, {**run.settings, "socs": {"evb-a": "RK3568"}})
    assert find(store)[0].changes
    (body,) = [row.body for row in store.outbox.waiting() if row.kind == "changepoint" and row.body]
    assert [",soc=RK3568," in line for line in unpack(body)] == [True]
