"""Processes that hang, die or lose their board cost that board only; the processes are real, the boards are not there."""

from __future__ import annotations

import math
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from farm.fleet import boards as fleet
from farm.runner import controller
from farm.runner.messages import BoardOver, BootDone, Checked, Doing, Given, Message, Ready
from farm.runner.sharing import Pool
from farm.schedule import PlannedBoot
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.records import BootRecord, RunRecord


def boots(pipe: Connection, board: str) -> None:
    for index in range(2):
        pipe.send(Doing(board, "only", "boot"))
        pipe.send(BootDone(BootRecord("r", board, index, 0, "only", 0, "ok", "", index, index + 0.5)))
        assert pipe.recv() == "committed"
    pipe.send(BoardOver(board))


def hangs(pipe: Connection, board: str) -> None:
    pipe.send(Doing(board, "only", "boot"))
    time.sleep(60)


def dies(pipe: Connection, board: str) -> None:
    os._exit(7)


def unwell(pipe: Connection, board: str) -> None:
    pipe.send(Checked(HealthRecord(board, 1.0, False, "disk: no card")))
    assert pipe.recv() == "committed"
    pipe.send(BoardOver(board, "left out", 3, checked=True))


def gives_up(pipe: Connection, board: str) -> None:
    pipe.send(BoardOver(board, "no prompt", 3))


def loses(pipe: Connection, board: str) -> None:
    pipe.send(BoardOver(board, "the serial line is gone", 3, lost=True))


def shares(pipe: Connection, board: str, *, dies: bool = False) -> None:
    """Takes blocks as long as it is given some; with `dies` its first boot is its last."""
    through = None
    while True:
        pipe.send(Ready(board, through))
        given = pipe.recv()
        if given.waits:
            given = pipe.recv()
        if not given.boots:
            return pipe.send(BoardOver(board))
        for boot in given.boots:
            time.sleep(0.3)
            record = BootRecord(
                "r", board, boot.index, boot.block, "only", 0, "ok", "", boot.index, boot.index + 0.5
            )
            pipe.send(BootDone(record))
            assert pipe.recv() == "committed"
            if dies:
                os._exit(7)
        through = given.block


def shares_and_dies(pipe: Connection, board: str) -> None:
    shares(pipe, board, dies=True)


def start(board: str, patience: float = 30.0) -> controller._Worker:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    target = {"back": boots, "first": shares, "second": shares_and_dies, "third": shares}.get(
        board
    ) or globals()[board]
    process = context.Process(target=target, args=(theirs, board), daemon=True)
    process.start()
    theirs.close()
    (env,) = fleet.load(["virt-rk3568"], Path("no-home"))
    named = env.model_copy(update={"name": board})
    return controller._Worker(board, process, ours, patience, time.monotonic(), named)


class Blocks:
    """What `_serve` asks for: blocks of two boots from one pool, another process for a board that was lost, newcomers."""

    def __init__(self, blocks: int = 0, boards=(), *, again=lambda over: None, newcomers=()) -> None:
        self.pool, self.again, self.newcomers = Pool(range(blocks)), again, list(newcomers)
        self.next_look, self.switched_off = math.inf, []
        for board in boards:
            self.pool.join(board)

    def give(self, ready: Ready) -> Given:
        self.pool.join(ready.board)
        if ready.through is not None:
            self.pool.done(ready.board)
        block = self.pool.take(ready.board)
        if block is None:
            return Given(waits=not self.pool.over)
        boots = tuple(PlannedBoot(2 * block + one, block, "only") for one in range(2))
        return Given(block, boots, (0, 0))

    def out(self, over: BoardOver) -> None:
        self.pool.drop(over.board)

    def off(self, name: str) -> bool:
        self.switched_off.append(name)
        return name != "dies"

    def arrivals(self) -> list[controller._Worker]:
        came, self.newcomers = self.newcomers, []
        return came


def serve(tmp_path: Path, workers: list[controller._Worker], of: Blocks | None = None) -> list[Message]:
    told: list[Message] = []
    with Store.open(tmp_path / "farm.db", create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
        try:
            controller._serve(workers, store, told.append, of or Blocks())
        finally:
            controller._end(workers)
    return told


def rows(tmp_path: Path, query: str) -> list[tuple]:
    with sqlite3.connect(tmp_path / "farm.db") as db:
        return db.execute(query).fetchall()


def test_one_that_hangs_and_one_that_dies_cost_their_own_boards(tmp_path: Path) -> None:
    began = time.monotonic()
    workers = [start("hangs", 3.0), start("dies"), start("boots")]
    blocks = Blocks()
    told = serve(tmp_path, workers, blocks)
    assert time.monotonic() - began < 20
    over = {message.board: message for message in told if isinstance(message, BoardOver)}
    assert over["hangs"].reason == (
        "its process said nothing for 3 s and was killed; its board is switched off"
    )
    assert over["dies"].reason == "its process died (exit 7); its board could not be switched off"
    assert sorted(blocks.switched_off) == ["dies", "hangs"]
    assert (over["hangs"].exit_code, over["dies"].exit_code, over["boots"].exit_code) == (3, 3, 0)
    assert not any(one.process.is_alive() for one in workers)
    assert rows(tmp_path, "SELECT board, status, count(*) FROM boot GROUP BY board, status") == [
        ("boots", "ok", 2)
    ]
    assert rows(tmp_path, "SELECT count(*) FROM health") == [(0,)], "no board is to blame"


def test_a_run_that_ends_gives_each_power_switch_the_time_that_it_may_take(tmp_path: Path) -> None:
    class Deaf:
        def __init__(self) -> None:
            self.waited: list[float] = []

        def is_alive(self) -> bool:
            return True

        def terminate(self) -> None: ...

        def kill(self) -> None: ...

        def join(self, timeout: float) -> None:
            self.waited.append(timeout)

    (env,) = fleet.load(["virt-rk3568"], tmp_path)
    deadlines = env.farm.deadlines.model_copy(update={"power": 40.0})
    slow = env.model_copy(update={"farm": env.farm.model_copy(update={"deadlines": deadlines})})
    ours, theirs = multiprocessing.Pipe()
    process = Deaf()
    controller._end([controller._Worker("b", process, ours, 1.0, 0.0, slow)])
    theirs.close()
    assert 80 < process.waited[0] <= 90, "off is asked for twice, and more than 80 s are left"


def test_a_board_that_gives_up_goes_on_record_once_however_it_was_found_out(tmp_path: Path) -> None:
    serve(tmp_path, [start("unwell"), start("gives_up")])
    assert rows(tmp_path, "SELECT board, origin, ok, reason FROM health ORDER BY board") == [
        ("gives_up", "run", 0, "no prompt"),
        ("unwell", "check", 0, "disk: no card"),
    ]


def test_a_lost_board_goes_on_in_another_process(tmp_path: Path) -> None:
    workers = [start("loses")]
    told = serve(tmp_path, workers, Blocks(again=lambda over: start("back") if over.lost else None))
    assert [one.board for one in workers] == ["back"]
    assert rows(tmp_path, "SELECT count(*) FROM boot WHERE status = 'ok'") == [(2,)]
    assert [message for message in told if isinstance(message, BoardOver)] == [BoardOver("back")]
    assert rows(tmp_path, "SELECT count(*) FROM health") == [(0,)]


def test_a_block_of_a_board_that_dies_is_done_whole_by_an_equal_one_that_had_waited(tmp_path: Path) -> None:
    blocks = Blocks(2, ("first", "second"))
    told = serve(tmp_path, [start("first"), start("second")], blocks)
    assert blocks.pool.over
    # what the second measured is kept, and the first has both blocks whole
    counts = rows(
        tmp_path, "SELECT board, block, count(*) FROM boot GROUP BY board, block ORDER BY board, block"
    )
    assert counts[:2] == [("first", 0, 2), ("first", 1, 2)]
    assert [(board, boots) for board, _, boots in counts[2:]] == [("second", 1)]
    assert {one.board: one.exit_code for one in told if isinstance(one, BoardOver)} == {
        "first": 0,
        "second": 3,
    }


def test_a_board_that_comes_free_takes_whole_blocks_of_a_run_that_goes_on(tmp_path: Path) -> None:
    workers = [start("first")]
    serve(tmp_path, workers, Blocks(4, ("first", "third"), newcomers=[start("third")]))
    assert [one.board for one in workers] == ["first", "third"]
    assert rows(
        tmp_path, "SELECT board, count(*), count(DISTINCT block) FROM boot GROUP BY board ORDER BY board"
    ) == [
        ("first", 4, 2),
        ("third", 4, 2),
    ]


def test_a_controller_is_imported_without_what_only_workers_and_verdicts_need() -> None:
    """Where many boards are at work, each of these is memory that only one process is to have."""
    heavy = ("labgrid", "grpc", "numpy", "scipy", "matplotlib")
    asked = f"import sys, farm.runner.session; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
