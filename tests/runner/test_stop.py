"""A boot in this process without a board: a stop, and what a void boot puts on record."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.board.console import Watch
from farm.campaign import load_campaign
from farm.fleet import boards
from farm.runner import worker
from farm.runner.boot import BootRunner
from farm.runner.messages import Message
from farm.runner.task import Task
from farm.schedule import PlannedBoot
from tests.lab import BOARD, ROOT


class Stopped:
    """A strategy in whose first step the controller's SIGTERM arrives."""

    def __init__(self) -> None:
        self.watched = SimpleNamespace(watch=Watch())
        self.asked: list[str] = []

    def transition(self, state: str) -> None:
        self.asked.append(state)
        raise worker._Stopped

    def recover(self) -> None:
        self.asked.append("recover")


def test_a_stop_is_no_failure_of_the_boot_that_it_interrupts(tmp_path: Path) -> None:
    (board,) = boards.load([BOARD], tmp_path)
    campaign = load_campaign(ROOT / "envs" / "campaigns" / "readahead.yaml")
    told: list[Message] = []
    strategy = Stopped()
    task = Task("r", board, campaign, tmp_path, dict.fromkeys(campaign.variants))
    with pytest.raises(worker._Stopped):
        BootRunner(task, strategy, told.append).run(PlannedBoot(0, 0, "ra128"), 0)
    assert strategy.asked == ["off"], "switching off is the worker's, once"


def test_what_was_not_measured_is_on_record_for_a_board_without_a_place_for_files_too(tmp_path: Path) -> None:
    (board,) = boards.load(["mt7988-bpi-r4"], tmp_path)
    assert board.farm.scratch.files is None
    campaign = load_campaign(ROOT / "envs" / "campaigns" / "readahead.yaml")
    task = Task("r", board, campaign, tmp_path, dict.fromkeys(campaign.variants))
    _, commands = BootRunner(task, Stopped(), print)._jobs({})
    assert [(workload.name, rep) for workload, rep, _ in commands] == [("dd-read-64k", 0), ("randread-4k", 0)]
    assert all("RAW" in command.run for _, _, command in commands)
