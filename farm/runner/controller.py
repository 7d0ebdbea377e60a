"""One run of a campaign: a worker per board, every boot committed as it comes, nothing lost by any death."""

from __future__ import annotations

import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from farm import __version__
from farm.board.bundle import Bundle
from farm.campaign import Campaign
from farm.errors import BoardError, UserError
from farm.fleet import health
from farm.fleet.crew import Crew
from farm.fleet.env import BoardEnv
from farm.memory import give_back
from farm.report.calibration import measured_bands, newest
from farm.runner import forks
from farm.runner.looks import Looks
from farm.runner.messages import BoardOver, BootDone, Checked, Doing, Given, Joined, Message, Ready
from farm.runner.planning import plan_run
from farm.runner.sharing import Pool
from farm.runner.task import Task, make_bundle
from farm.schedule import PlannedBoot, by_block, schedule
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.records import RunRecord, RunStatus, new_run_id
from farm.workload import command as command_for

_OFF_S = 10.0  # what a process may take beside the power switch itself
_LOSSES = 3  # how often a board is taken anew in one run
_LOOK_EVERY_S = 5.0  # for boards that came free
_LOOK_COSTS = 20.0  # at most a twentieth of the time goes into looking


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
    process: forks.Process
    pipe: Connection
    patience: float
    heard: float
    env: BoardEnv
    over: BoardOver | None = None
    next: _Worker | None = None
    waits: bool = False  # for a block of another board, which says nothing against it


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
    crew: Crew | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run a campaign on its boards, or go on with the run `resume`, and return how it ended.

    With `check` every board has to pass its health check first. A board that gives up goes on record as unwell.
    A board behind a coordinator whose serial line broke is taken anew, a few times. `crew` says which boards share
    blocks, takes back a board that is out, and brings boards that come free; without it each board runs every block.
    `settings` of a new run are put beside those that every run has, see RunRecord.
    Every boot is committed before its board goes on. Raises UserError for images that are missing or wrong and StoreError
    where results cannot be kept; boards that give up are part of the outcome.
    """
    of = _Run(campaign, store, home, seed, tell, resume, check, crew)
    for board in boards:
        of.add(board)
    if resume is None:
        store.begin_run(_record(of.id, campaign, boards, seed, crew, settings or {}))
    else:
        of.note_boards()
    workers: list[_Worker] = []
    status: RunStatus = "interrupted"
    try:
        for worker in of.start([board.name for board in boards]):
            workers.append(worker)
        _serve(workers, store, tell, of)
        left_over = any(not pool.over for pool in of.pools.values())
        every = all(one.over and one.over.exit_code for one in workers)
        status = "failed" if every and left_over else "done"
    finally:
        _end(workers)
        store.finish_run(of.id, status)
    gave_up = {one.board: one.over.reason for one in workers if one.over and one.over.exit_code}
    code = max((one.over.exit_code for one in workers if one.over), default=0)
    return Outcome(of.id, status, gave_up, code)


class _Run:
    """What the boards of a run are given: their blocks, by pools of equal boards, and processes that run them."""

    def __init__(
        self,
        campaign: Campaign,
        store: Store,
        home: Path,
        seed: int,
        tell: Callable[[Message], None],
        resume: str | None,
        check: bool,
        crew: Crew | None,
    ) -> None:
        self.campaign, self.store, self.home, self.seed, self.tell = campaign, store, home, seed, tell
        self.id, self.check, self.crew = resume or new_run_id(campaign.name), check, crew
        self.planned = schedule(tuple(campaign.variants), campaign.boots, seed)
        self.boards: dict[str, BoardEnv] = {}
        self.pools: dict[str, Pool] = {}
        self.losses: dict[str, int] = {}
        self.next_look = time.monotonic() + _LOOK_EVERY_S if crew else math.inf
        self._bundles: dict[str, dict[str, Bundle]] = {}
        self._looks = Looks(store, self.id, campaign, self.planned, tell)
        self._on_record = _Record(store, self.id, self.planned) if resume else None

    def add(self, board: BoardEnv) -> None:
        """Have a board take part. Raises UserError where its images are missing or wrong."""
        self._bundles[board.name] = {
            name: make_bundle(board, self.campaign, one, self.home / "bundles")
            for name, one in self.campaign.variants.items()
        }
        self.boards[board.name] = board
        self.losses[board.name] = 0
        group = self.crew.group(board.name) if self.crew else board.name
        if group not in self.pools:
            members = self.crew.members(group) if self.crew else (board.name,)
            self.pools[group] = self._pool(members)
        self.pools[group].join(board.name)

    def note_boards(self, bands: Mapping[str, Any] | None = None) -> None:
        """Put the boards that take part now into the run's record, with the measured bands of those that joined."""
        settings = dict(self.store.run(self.id).settings)
        if bands and any(bands.values()):
            settings["measured_bands"] = {**bands, **settings.get("measured_bands", {})}
        shares = {**settings.get("shares", {}), **(self.crew.shares if self.crew else {})}
        self.store.set_settings(
            self.id, {**settings, **of_boards(self.boards.values(), settings), "shares": shares}
        )

    def _pool(self, members: Sequence[str]) -> Pool:
        blocks = dict.fromkeys(boot.block for boot in self.planned)
        if self._on_record is None:
            return Pool(blocks)
        return self._on_record.pool(blocks, members)

    def pool(self, board: str) -> Pool:
        """The blocks that this board takes part in."""
        return self.pools[self.crew.group(board) if self.crew else board]

    def start(self, names: Iterable[str], *, regain: bool = False) -> Iterator[_Worker]:
        """A process for each of these boards, which will ask for its blocks."""
        with forks.server() as fork:
            for name in names:
                task = self._task(name, regain=regain)
                process = fork("work", task)
                yield _Worker(
                    name, process, process.pipe, patience(task), time.monotonic(), self.boards[name]
                )

    def off(self, name: str) -> bool:
        """Switch a board off whose process is gone; whether that was done."""
        task = self._task(name)
        with forks.server() as fork:
            process = fork("switch_off", task)
        process.join(2 * task.board.farm.deadlines.power + _OFF_S)
        if process.is_alive():
            process.kill()
            process.join(5)
        return process.exitcode == 0

    def _task(self, name: str, *, regain: bool = False) -> Task:
        last = self.store.health.last_good(name)
        return Task(
            self.id,
            self.boards[name],
            self.campaign,
            self.home / "logs" / self.id,
            self._bundles[name],
            {key: value for key, value in os.environ.items() if key.startswith(("LG_", "FARM_"))},
            self.check and not regain,
            last.facts if last else None,
            regain,
        )

    def again(self, over: BoardOver) -> _Worker | None:
        """Another process for a board that was lost, where that helps."""
        self.losses[over.board] += 1
        if not over.lost or self.losses[over.board] > _LOSSES:
            return None
        self.tell(Doing(over.board, "lost", "takes the board anew"))
        (worker,) = self.start([over.board], regain=True)
        return worker

    def give(self, ready: Ready) -> Given:
        """The next block for a board that wants one, with those of its boots that have no good or void record yet."""
        pool = self.pool(ready.board)
        if ready.through is not None:
            pool.done(ready.board)
        if self._looks.settled(ready.board):
            if pool.live == {ready.board}:  # nobody else is at work here, and nobody has to come for the rest
                pool.left.clear()
            return Given()
        while (block := pool.take(ready.board)) is not None:
            boots = [boot for boot in self.planned if boot.block == block]
            todo, tried = _left(self.store, self.id, ready.board, boots)
            if todo:
                return Given(block, tuple(todo), tuple(tried))
            pool.done(ready.board)
        return Given(waits=not pool.over)

    def out(self, over: BoardOver) -> None:
        """A board is out: its block is for others, and so is the board itself."""
        self.pool(over.board).drop(over.board)
        if self.crew is not None:
            self.crew.leave(over.board, unwell=bool(over.exit_code))

    def arrivals(self) -> list[_Worker]:
        """Processes of boards that came free, now and then, where they can be of use."""
        if self.crew is None or time.monotonic() < self.next_look:
            return []
        began = time.monotonic()
        useful = {group for group, pool in self.pools.items() if pool.welcomes()}
        found: list[_Worker] = []
        for board in self.crew.arrivals(useful) if useful else ():
            try:
                plan_run(self.campaign, [board], self.seed)
                bands = measured_bands(self.campaign, newest(self.store, self.campaign, [board.name]))
                self.add(board)
            except UserError as problem:
                self.tell(BoardOver(board.name, str(problem), problem.exit_code))
                self.crew.leave(board.name, unwell=True)
                continue
            self.note_boards(bands)
            self.tell(Joined(board.name))
            found += self.start([board.name])
        # boards at work wait while this looks: a coordinator that is slow to answer is asked less often
        self.next_look = time.monotonic() + max(_LOOK_EVERY_S, _LOOK_COSTS * (time.monotonic() - began))
        return found


class Supply(Protocol):
    """Where blocks and boards come from, as `_serve` sees it."""

    next_look: float

    def again(self, over: BoardOver) -> _Worker | None: ...

    def give(self, ready: Ready) -> Given: ...

    def out(self, over: BoardOver) -> None: ...

    def arrivals(self) -> list[_Worker]: ...

    def off(self, name: str) -> bool: ...


class _Record:
    """What a run that goes on has of each block already."""

    def __init__(self, store: Store, run_id: str, planned: Sequence[PlannedBoot]) -> None:
        self.boots = by_block(planned)
        self.through: dict[tuple[str, int], set[int]] = {}
        for record in store.boots(run_id):
            if record.status != "failed":
                self.through.setdefault((record.board, record.block), set()).add(record.index)

    def pool(self, blocks: Iterable[int], members: Sequence[str]) -> Pool:
        """The blocks that none of these boards has whole."""
        whole = {
            block: board
            for (board, block), indexes in self.through.items()
            if board in members and indexes >= self.boots[block]
        }
        begun = {block: board for (board, block) in self.through if board in members and block not in whole}
        return Pool([one for one in blocks if one not in whole], begun=begun, had=Counter(whole.values()))


def of_boards(boards: Iterable[BoardEnv], before: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's settings say of its boards, with those that the settings `before` have."""
    boards = list(boards)
    return {
        "boards": list(dict.fromkeys([*before.get("boards", ()), *(board.name for board in boards)])),
        "socs": {**before.get("socs", {}), **{board.name: board.farm.soc for board in boards}},
        "synthetic": {
            **before.get("synthetic", {}),
            **{board.name: board.farm.synthetic for board in boards if board.farm.synthetic},
        },
    }


def _record(
    run_id: str,
    campaign: Campaign,
    boards: Sequence[BoardEnv],
    seed: int,
    crew: Crew | None,
    settings: Mapping[str, Any],
) -> RunRecord:
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
            "boots": campaign.boots,
            "least_boots": campaign.least_boots,
            "looks": campaign.looks,
            "trials": campaign.trials,
            "band": campaign.band,
            "source": str(campaign.source),
            **of_boards(boards, {}),
            "shares": dict(crew.shares) if crew else {},
            **settings,
        },
    )


def _left(
    store: Store, run_id: str, board: str, planned: Sequence[PlannedBoot]
) -> tuple[list[PlannedBoot], list[int]]:
    """The boots that have no good or void record yet, and how often each was tried."""
    tried: dict[int, int] = {}
    through = set()
    for boot in store.boots(run_id, board=board):
        tried[boot.index] = max(tried.get(boot.index, 0), boot.attempt + 1)
        if boot.status != "failed":
            through.add(boot.index)
    todo = [one for one in planned if one.index not in through]
    return todo, [tried.get(one.index, 0) for one in todo]


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


def _serve(workers: list[_Worker], store: Store, tell: Callable[[Message], None], of: Supply) -> None:
    """Take messages until every worker is over; one that dies or hangs costs its board only."""
    while live := {one.pipe: one for one in workers if one.over is None}:
        due = [one.heard + one.patience for one in live.values() if not one.waits]
        for pipe in wait(list(live), timeout=max(0.0, min((*due, of.next_look)) - time.monotonic())):
            assert isinstance(pipe, Connection)
            one = live[pipe]
            _hear(one, store, tell, of)
            if one.next is not None:
                workers[workers.index(one)] = one.next
                one.process.join(20)
                one.pipe.close()
        for one in workers:
            if one.over is None and not one.waits and time.monotonic() > one.heard + one.patience:
                one.process.kill()
                one.process.join(5)
                _give_up(one, f"its process said nothing for {one.patience:.0f} s and was killed", tell, of)
        for one in workers:
            if one.waits and one.over is None:
                _answer(one, of.give(Ready(one.board)))
        workers += of.arrivals()


def _answer(one: _Worker, given: Given) -> None:
    """Give a board its block; one that waits already is told again only when there is something to do, or nothing more."""
    if given.waits and one.waits:
        return
    one.waits, one.heard = given.waits, time.monotonic()
    with suppress(OSError):  # it died in the meantime, which the next read tells
        one.pipe.send(given)


def _hear(one: _Worker, store: Store, tell: Callable[[Message], None], of: Supply) -> None:
    try:
        message: Message = one.pipe.recv()
    except (EOFError, OSError):
        one.process.join(5)
        _give_up(one, f"its process died (exit {one.process.exitcode})", tell, of)
        return
    one.heard = time.monotonic()
    if isinstance(message, Ready):
        _answer(one, of.give(message))
        return
    if isinstance(message, BootDone):
        store.commit_boot(message.record)
    elif isinstance(message, Checked):
        health.note(store, one.env, message.record)
    elif isinstance(message, BoardOver):
        one.over = message
        if message.lost and (following := of.again(message)) is not None:
            one.next = following
            return
        if message.exit_code == BoardError.exit_code and not message.checked:
            health.note(
                store, one.env, HealthRecord(message.board, time.time(), False, message.reason, "run")
            )
        of.out(message)
    tell(message)
    if isinstance(message, (BootDone, Checked)):
        try:
            one.pipe.send("committed")
        except OSError:  # it died in the meantime, which the next read tells
            return
        give_back()


def _give_up(one: _Worker, reason: str, tell: Callable[[Message], None], of: Supply) -> None:
    # not on record against the board: it was our own process that failed
    power = "its board is switched off" if of.off(one.board) else "its board could not be switched off"
    reason = f"{reason}; {power}"
    one.over = BoardOver(one.board, reason, BoardError.exit_code)
    of.out(one.over)
    tell(one.over)


def _end(workers: list[_Worker]) -> None:
    """Stop what still runs: SIGTERM lets a worker switch its board off, SIGKILL follows if it does not."""
    for one in workers:
        if one.process.is_alive() and one.over is None:
            one.process.terminate()
    switching = max((2 * one.env.farm.deadlines.power for one in workers), default=0.0)
    deadline = time.monotonic() + switching + _OFF_S
    for one in workers:
        one.process.join(max(0.0, deadline - time.monotonic()))
        if one.process.is_alive():
            one.process.kill()
            one.process.join(5)
        one.pipe.close()
