"""One run of a campaign: a worker per board, every boot committed as it comes, nothing lost by any death."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from farm import __version__
from farm.campaign import Campaign
from farm.fleet.env import BoardEnv
from farm.runner import worker
from farm.runner.boot import Task, make_bundle
from farm.runner.messages import BoardOver, BootDone, Message
from farm.schedule import PlannedBoot, schedule
from farm.store.db import Store
from farm.store.records import RunRecord, RunStatus


@dataclass(frozen=True)
class Outcome:
    """How a run ended: per board the reason why it gave up, if it did, and the exit code that follows."""

    run_id: str
    status: RunStatus
    gave_up: Mapping[str, str]
    exit_code: int


@dataclass
class _Worker:
    board: str
    process: SpawnProcess
    pipe: Connection
    over: BoardOver | None = None


def new_run_id(campaign: str) -> str:
    """A name for a run that sorts by time and reads well: `20261130-182233-readahead`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{campaign}"


def run(
    campaign: Campaign,
    boards: Sequence[BoardEnv],
    store: Store,
    home: Path,
    *,
    seed: int,
    tell: Callable[[Message], None],
    resume: str | None = None,
) -> Outcome:
    """Run a campaign on its boards, or go on with the run `resume`, and return how it ended.

    Every boot is committed before its board goes on. Raises UserError for images that are missing or wrong and StoreError
    where results cannot be kept; boards that give up are part of the outcome.
    """
    work = home / "bundles"
    bundles = {
        board.name: {name: make_bundle(board, campaign, one, work) for name, one in campaign.variants.items()}
        for board in boards
    }
    planned = schedule(tuple(campaign.variants), campaign.boots, seed)
    run_id = resume or new_run_id(campaign.name)
    if resume is None:
        store.begin_run(_record(run_id, campaign, boards, seed))
    workers = []
    status: RunStatus = "interrupted"
    try:
        for board in boards:
            todo, tried = _left(store, run_id, board.name, planned)
            task = Task(run_id, board, campaign, home / "logs" / run_id, bundles[board.name])
            workers.append(_start(task, todo, tried))
        _serve(workers, store, tell)
        status = "failed" if all(one.over and one.over.exit_code for one in workers) else "done"
    finally:
        _end(workers)
        store.finish_run(run_id, status)
    gave_up = {one.board: one.over.reason for one in workers if one.over and one.over.exit_code}
    code = max((one.over.exit_code for one in workers if one.over), default=0)
    return Outcome(run_id, status, gave_up, code)


def _record(run_id: str, campaign: Campaign, boards: Sequence[BoardEnv], seed: int) -> RunRecord:
    return RunRecord(
        id=run_id,
        campaign=campaign.name,
        campaign_text=campaign.source_text,
        seed=seed,
        started=time.time(),
        host=socket.gethostname(),
        version=__version__,
        settings={
            "baseline": campaign.baseline,
            "variants": list(campaign.variants),
            "workloads": [one.name for one in campaign.workloads],
            "boards": [board.name for board in boards],
            "boots": campaign.boots,
            "trials": campaign.trials,
            "band": campaign.band,
            "source": str(campaign.source),
            "socs": {board.name: board.farm.soc for board in boards},
            "synthetic": {board.name: board.farm.synthetic for board in boards if board.farm.synthetic},
        },
    )


def _left(
    store: Store, run_id: str, board: str, planned: Sequence[PlannedBoot]
) -> tuple[list[PlannedBoot], list[int]]:
    """The boots that have no good or void record yet, and how often each was tried."""
    tried: dict[int, int] = {}
    through = set()
    for boot in store.boots(run_id):
        if boot.board == board:
            tried[boot.index] = max(tried.get(boot.index, 0), boot.attempt + 1)
            if boot.status != "failed":
                through.add(boot.index)
    todo = [one for one in planned if one.index not in through]
    return todo, [tried.get(one.index, 0) for one in todo]


def _start(task: Task, boots: list[PlannedBoot], tried: list[int]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=worker.main, args=(theirs, task, boots, tried), name=f"farm-{task.board.name}", daemon=True
    )
    process.start()
    theirs.close()
    return _Worker(task.board.name, process, ours)


def _serve(workers: list[_Worker], store: Store, tell: Callable[[Message], None]) -> None:
    """Take messages until every worker is over; a worker that dies without a word costs its board only."""
    while live := {one.pipe: one for one in workers if one.over is None}:
        for pipe in wait(list(live)):
            assert isinstance(pipe, Connection)
            one = live[pipe]
            try:
                message: Message = pipe.recv()
            except (EOFError, OSError):
                one.process.join(5)
                one.over = BoardOver(one.board, f"its worker died (exit {one.process.exitcode})", 3)
                tell(one.over)
                continue
            if isinstance(message, BootDone):
                store.commit_boot(message.record)
                tell(message)
                pipe.send("committed")
                continue
            if isinstance(message, BoardOver):
                one.over = message
            tell(message)


def _end(workers: list[_Worker]) -> None:
    """Stop what still runs: SIGTERM lets a worker switch its board off, SIGKILL follows if it does not."""
    for one in workers:
        if one.process.is_alive() and one.over is None:
            one.process.terminate()
    for one in workers:
        one.process.join(20)
        if one.process.is_alive():
            one.process.kill()
            one.process.join(5)
        one.pipe.close()
