"""Stop when settled, with stored boots: when a board stops, that it says so, and that a crash changes nothing."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from farm.campaign import Campaign, load_campaign
from farm.report import html, terminal, text
from farm.report.study import as_dict, study
from farm.runner import controller
from farm.runner.looks import Looks
from farm.runner.messages import Message, Ready, Settled
from farm.schedule import PlannedBoot, schedule
from farm.store.db import Store
from farm.store.records import RunRecord
from tests.report.stored import CAMPAIGN, boot, trials

TEXT = CAMPAIGN.replace("boots: 6", "boots: {min: 6, max: 12}")
SEED = 4
PLANNED = schedule(("base", "cand"), 12, SEED)


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    (tmp_path / "c.yaml").write_text(TEXT)
    return load_campaign(tmp_path / "c.yaml")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "farm.db", create=True) as opened:
        settings = {
            "baseline": "base", "variants": ["base", "cand"], "workloads": ["one", "two"], "boots": 12,
            "least_boots": 6, "looks": 4, "band": 0.03, "trials": 1,
        }  # fmt: skip
        opened.begin_run(RunRecord("r", "nightly", TEXT, SEED, 1.8e9, settings=settings))
        yield opened


class Bench:
    """One board's boots, put into the store as they end; the candidate's `one` is a tenth faster."""

    def __init__(self, store: Store, campaign: Campaign, noise: float, board: str = "b") -> None:
        self.store, self.noise, self.board = store, noise, board
        self.told: list[Message] = []
        self.looks = Looks(store, "r", campaign, PLANNED, self.told.append)
        self.rng = np.random.default_rng(1)

    def do(self, planned: PlannedBoot, status: str = "ok") -> None:
        ratio = 1.1 if planned.variant == "cand" else 1.0
        values = {
            "one": 1e8 * ratio * np.exp(self.rng.normal(0, self.noise)),
            "two": 1e8 * np.exp(self.rng.normal(0, self.noise)),
        }
        made = boot(
            "r",
            self.board,
            planned.index,
            planned.variant,
            status,
            block=planned.block,
            trials=trials(values),
        )  # type: ignore[arg-type]
        tried = [
            one.attempt + 1
            for one in self.store.boots("r")
            if (one.board, one.index) == (self.board, planned.index)
        ]
        self.store.commit_boot(dataclasses.replace(made, attempt=max(tried, default=0)))

    def settled(self) -> bool:
        return self.looks.settled(self.board)

    def run(self, blocks: range) -> list[bool]:
        """The blocks one after the other, and what each look said."""
        said = []
        for block in blocks:
            for planned in PLANNED:
                if planned.block == block:
                    self.do(planned)
            said.append(self.settled())
        return said


def test_a_quiet_board_stops_at_the_first_look_and_not_before(store: Store, campaign: Campaign) -> None:
    bench = Bench(store, campaign, 0.002)
    assert bench.run(range(3)) == [False, False, True]
    assert bench.told == [Settled("b", 6, 12)]
    assert store.run("r").settings["settled"] == {"b": 6}
    assert bench.settled() and len(bench.told) == 1, "asked again, as when a run goes on"


def test_a_noisy_board_goes_on_to_the_end_and_is_not_marked(store: Store, campaign: Campaign) -> None:
    bench = Bench(store, campaign, 0.05)
    assert bench.run(range(6)) == [False] * 6
    assert "settled" not in store.run("r").settings and not bench.told
    assert all(
        "stopped-early" not in verdict.flags for verdict in study(store, "r").judged[0].verdicts.values()
    )


def test_a_board_stops_by_itself(store: Store, campaign: Campaign) -> None:
    quiet, noisy = Bench(store, campaign, 0.002), Bench(store, campaign, 0.05, "c")
    noisy.run(range(3))
    quiet.run(range(3))
    assert (quiet.settled(), noisy.settled()) == (True, False)
    assert store.run("r").settings["settled"] == {"b": 6}


def test_within_a_block_and_with_a_torn_boot_nobody_looks(store: Store, campaign: Campaign) -> None:
    bench = Bench(store, campaign, 0.002)
    for planned in PLANNED[:12]:
        bench.do(planned, "failed" if planned.index == 5 else "ok")
    assert not bench.settled(), "boot 5 is missing"
    bench.do(PLANNED[12])
    bench.do(PLANNED[5])  # the run went on
    assert not bench.settled(), "block 3 has begun"
    for planned in PLANNED[13:16]:
        bench.do(planned)
    assert bench.settled() and bench.told == [Settled("b", 8, 12)]


def test_killed_before_the_look_was_written_it_is_made_again_with_the_same_answer(
    store: Store, campaign: Campaign
) -> None:
    bench = Bench(store, campaign, 0.002)
    bench.run(range(2))
    for planned in PLANNED[8:12]:
        bench.do(planned)
    again = Bench(store, campaign, 0.002)
    assert again.settled() and again.told == [Settled("b", 6, 12)]


def test_fixed_boots_are_never_looked_at(store: Store, tmp_path: Path) -> None:
    (tmp_path / "fixed.yaml").write_text(CAMPAIGN)
    bench = Bench(store, load_campaign(tmp_path / "fixed.yaml"), 0.0001)
    assert bench.run(range(3)) == [False] * 3


def test_effects_of_a_board_that_stopped_are_marked_in_every_output(store: Store, campaign: Campaign) -> None:
    Bench(store, campaign, 0.002).run(range(3))
    found = study(store, "r")
    one, two = found.table.blocks[0].rows
    assert (one.verdict.verdict, two.verdict.verdict) == ("faster", "same")
    assert "the board stopped early, so that this effect is biased outward" in one.verdict.reason
    assert {"stopped-early", "several-looks"} <= set(one.verdict.flags)
    # 5 % / 4 looks = 1.25 % to either side
    assert "the 97.5 % interval" in two.verdict.reason
    out = io.StringIO()
    terminal.print_study(found, Console(file=out, width=100))
    outputs = [out.getvalue(), text.mail(found), text.markdown(found), html.page(found, {})]
    for said in outputs:
        plain = " ".join(said.split())
        assert "b stopped early, after 6 of at most 12 boots per variant" in plain
        assert "this effect is biased outward" in plain
    assert "4 looks, fixed in advance" in " ".join(outputs[1].split())
    data = as_dict(found)
    assert (data["looks"], data["settled"]) == (4, {"b": 6})
    assert "stopped-early" in data["blocks"][0]["rows"][0]["verdict"]["flags"]


@pytest.mark.parametrize(("noise", "goes_on"), [(0.002, False), (0.05, True)])
def test_a_settled_board_is_given_no_further_block(
    store: Store, campaign: Campaign, tmp_path: Path, noise: float, goes_on: bool
) -> None:
    bench = Bench(store, campaign, noise)
    for planned in PLANNED[:12]:
        bench.do(planned)
    of = controller._Run(campaign, store, tmp_path, SEED, bench.told.append, "r", False, None)
    of.pools["b"] = of._pool(("b",))
    of.pools["b"].join("b")
    given = of.give(Ready("b"))
    assert [boot.index for boot in given.boots] == ([12, 13, 14, 15] if goes_on else [])
    assert not given.waits and of.pools["b"].over is not goes_on, "nobody has to come for the other blocks"
