"""One run of a campaign: a worker per board, every boot committed as it comes, nothing lost by any death."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from farm import __version__
from farm.campaign import Campaign
from farm.errors import BoardError
from farm.fleet.env import BoardEnv
from farm.runner import worker
from farm.runner.boot import Task, make_bundle
from farm.runner.messages import BoardOver, BootDone, Checked, Doing, Message
from farm.schedule import PlannedBoot, schedule
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.records import RunRecord, RunStatus
from farm.workload import command as command_for

_LOSSES = 3  # how often a board is taken anew in one run


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
    process: ForkServerProcess
    pipe: Connection
    patience: float
    heard: float
    over: BoardOver | None = None
    next: _Worker | None = None


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
    check: bool = False,
) -> Outcome:
    """Run a campaign on its boards, or go on with the run `resume`, and return how it ended.

    With `check` every board has to pass its health check first. A board that gives up goes on record as unwell.
    A board behind a coordinator whose serial line broke is taken anew, a few times.
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
    by_name = {board.name: board for board in boards}
    losses = dict.fromkeys(by_name, 0)

    def start(name: str, *, check: bool = False, regain: bool = False) -> _Worker:
        todo, tried = _left(store, run_id, name, planned)
        last = store.health.last_good(name)
        task = Task(
            run_id,
            by_name[name],
            campaign,
            home / "logs" / run_id,
            bundles[name],
            {key: value for key, value in os.environ.items() if key.startswith(("LG_", "FARM_"))},
            check,
            last.facts if last else None,
            regain,
        )
        return _start(task, todo, tried)

    def again(over: BoardOver) -> _Worker | None:
        losses[over.board] += 1
        if not over.lost or losses[over.board] > _LOSSES:
            return None
        tell(Doing(over.board, -1, "lost", "takes the board anew"))
        return start(over.board, regain=True)

    workers: list[_Worker] = []
    status: RunStatus = "interrupted"
    try:
        workers += [start(name, check=check) for name in by_name]
        _serve(workers, store, tell, again)
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
    context = multiprocessing.get_context("forkserver")
    # One import of labgrid for all boards. The server is started by exec and opens no gRPC channel, so its children may.
    context.set_forkserver_preload(["farm.runner.worker"])
    ours, theirs = context.Pipe()
    process = context.Process(
        target=worker.main, args=(theirs, task, boots, tried), name=f"farm-{task.board.name}", daemon=True
    )
    process.start()
    theirs.close()
    return _Worker(task.board.name, process, ours, patience(task), time.monotonic())


def patience(task: Task) -> float:
    """Seconds without a message after which a board's process is taken for hung.

    Between two messages lies at most one step with its retries (flash: fetch, write and read back of each part), or
    one trial; both have deadlines of their own in the worker, so this is for a worker that keeps none any more.
    """
    limits = task.board.farm.deadlines
    if limits.silence is not None:
        return limits.silence
    step = max(limits.power, limits.bootloader, limits.flash, limits.boot, limits.facts)
    commands = [command_for(one, "/dev/null") for one in task.campaign.workloads]
    trial = max((one.timeout_s + one.prepare_timeout_s for one in commands), default=0.0)
    return 300 + 12 * step + 2 * trial


def _serve(
    workers: list[_Worker],
    store: Store,
    tell: Callable[[Message], None],
    again: Callable[[BoardOver], _Worker | None],
) -> None:
    """Take messages until every worker is over; one that dies or hangs costs its board only.

    `again` starts another worker in the place of one that is over, where that helps.
    """
    while live := {one.pipe: one for one in workers if one.over is None}:
        next_due = min(one.heard + one.patience for one in live.values())
        for pipe in wait(list(live), timeout=max(0.0, next_due - time.monotonic())):
            assert isinstance(pipe, Connection)
            one = live[pipe]
            _hear(one, store, tell, again)
            if one.next is not None:
                workers[workers.index(one)] = one.next
                one.process.join(20)
                one.pipe.close()
        for one in workers:
            if one.over is None and time.monotonic() > one.heard + one.patience:
                one.process.kill()
                _give_up(one, f"its process said nothing for {one.patience:.0f} s and was killed", tell)


def _hear(
    one: _Worker,
    store: Store,
    tell: Callable[[Message], None],
    again: Callable[[BoardOver], _Worker | None],
) -> None:
    try:
        message: Message = one.pipe.recv()
    except (EOFError, OSError):
        one.process.join(5)
        _give_up(one, f"its process died (exit {one.process.exitcode})", tell)
        return
    one.heard = time.monotonic()
    if isinstance(message, BootDone):
        store.commit_boot(message.record)
    elif isinstance(message, Checked):
        store.health.add(message.record)
    elif isinstance(message, BoardOver):
        one.over = message
        if message.lost and (following := again(message)) is not None:
            one.next = following
            return
        if message.exit_code == BoardError.exit_code and not message.checked:
            store.health.add(HealthRecord(message.board, time.time(), False, message.reason, "run"))
    tell(message)
    if isinstance(message, (BootDone, Checked)):
        try:
            one.pipe.send("committed")
        except OSError:  # it died in the meantime, which the next read tells
            return


def _give_up(one: _Worker, reason: str, tell: Callable[[Message], None]) -> None:
    # not on record against the board: it was our own process that failed
    one.over = BoardOver(one.board, reason, BoardError.exit_code)
    tell(one.over)


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
