"""The process that drives one board; labgrid's step stack and place manager allow one board per process."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from multiprocessing.connection import Connection

from farm.board.strategy import FarmStrategy
from farm.errors import BoardError, FarmError
from farm.fleet import places
from farm.memory import give_back
from farm.runner import checkup
from farm.runner.alone import at_work
from farm.runner.boot import BootRunner
from farm.runner.messages import BoardOver, BootDone, Checked, Doing, Given, Message, Ready
from farm.runner.task import Task
from farm.schedule import PlannedBoot
from farm.store.health import HealthRecord
from farm.store.records import RECOVERY


class LeftOut(BoardError):
    """The board takes no further part, and a Checked has told already how it is."""


class _Lost(Exception):
    """The way to a board behind a coordinator broke."""


class _Stopped(BaseException):
    """The controller asked this worker to stop: nothing that went wrong on a board, which a boot would put on record."""


def main(pipe: Connection, task: Task) -> None:
    """Run the boots of one board, block by block as the controller gives them, and report everything through `pipe`.

    The board is off when this returns, unless the process is killed.
    """
    os.environ.update(task.environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)

    over = BoardOver(task.board.name)
    try:
        _run(task, pipe)
    except (_Stopped, EOFError, BrokenPipeError):
        over = BoardOver(task.board.name, "stopped", 0)
    except _Lost as problem:
        over = BoardOver(task.board.name, str(problem), BoardError.exit_code, lost=True)
    except FarmError as problem:
        over = BoardOver(
            task.board.name, str(problem), problem.exit_code, checked=isinstance(problem, LeftOut)
        )
    except Exception as problem:  # a bug of ours must cost one board, and say where it is
        logging.disable(logging.NOTSET)
        logging.exception("worker of %s", task.board.name)
        over = BoardOver(task.board.name, f"internal error: {type(problem).__name__}: {problem}", 3)
    with contextlib.suppress(BrokenPipeError):
        pipe.send(over)


def _run(task: Task, pipe: Connection) -> None:
    def stop(signum: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Stopped

    if task.regain and task.board.place is not None:
        pipe.send(Doing(task.board.name, "lost", "takes the board anew"))
        places.regain(os.environ["LG_COORDINATOR"], task.board.place)
    strategy = checkup.open_strategy(task.board)
    signal.signal(signal.SIGTERM, stop)
    try:
        if task.check:
            _check(task, strategy, pipe)

        def tell(message: Message) -> None:
            pipe.send(message)
            if isinstance(message, Doing):  # the next step takes time, and needs nothing of the last one's
                give_back()

        runner = BootRunner(task, strategy, tell)
        through: int | None = None
        while (given := _next(pipe, task, strategy, through)).boots:
            for planned, tried in zip(given.boots, given.tried, strict=True):
                _boot(pipe, task, runner, planned, tried)
                give_back()
            through = given.block
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(FarmError):
            strategy.recover()
        strategy.target.cleanup()


def _next(pipe: Connection, task: Task, strategy: FarmStrategy, through: int | None) -> Given:
    pipe.send(Ready(task.board.name, through))
    given: Given = pipe.recv()
    if given.waits:
        strategy.recover()
        pipe.send(Doing(task.board.name, "idle", "waits for a block that comes free"))
        given = pipe.recv()
    return given


def _boot(pipe: Connection, task: Task, runner: BootRunner, planned: PlannedBoot, tried: int) -> None:
    """One boot, tried again while the board's budget of power cycles lasts.

    Behind the last try the golden image says whose fault it is: a kernel that does not boot says nothing against the
    board, and either way the rest of the run would only be more of it. Raises LeftOut.
    """
    block = task.board.farm

    def waiting() -> None:
        pipe.send(Doing(task.board.name, planned.variant, f"waits for {block.measure_alone}"))

    for attempt in range(tried, tried + block.power_cycles):
        with at_work(block.measure_alone, block.at_once, waiting):
            record = runner.run(planned, attempt)
            pipe.send(BootDone(record))
            pipe.recv()  # the boot is committed; only then may the next one begin
            if block.at_once is not None:
                with contextlib.suppress(FarmError):  # the next boot begins with it, and says so
                    runner.strategy.recover()  # what boards share is not to be used by one that waits
        if record.status != "failed":
            return
        for event in record.events:
            if event["kind"] == RECOVERY:  # without power control there is nothing that could be tried again
                tail = tuple(event["tail"])[-10:]
                raise BoardError(
                    record.reason, board=record.board, step=RECOVERY, tail=tail, log=record.log_path
                )
        if task.board.target == "remote" and any(event["kind"] == "console" for event in record.events):
            raise _Lost(record.reason)
    failed = (
        f"boot {planned.index + 1} of {planned.variant} failed {task.board.farm.power_cycles} times, "
        f"the last: {record.reason}"
    )
    well = _checked(task, runner.strategy, pipe)
    if well.ok:
        raise LeftOut(
            f"{failed}; the board is well with its golden image, so look at the variant",
            board=task.board.name,
        )
    raise LeftOut(f"{failed}; its check failed too: {well.reason}", board=task.board.name)


def _check(task: Task, strategy: FarmStrategy, pipe: Connection) -> None:
    record = _checked(task, strategy, pipe)
    if not record.ok:
        # its record is the check's; a second one would count the failure twice
        raise LeftOut(f"left out, because it failed its check: {record.reason}", board=task.board.name)


def _checked(task: Task, strategy: FarmStrategy, pipe: Connection) -> HealthRecord:
    """How the board is with its golden image, which the controller has stored by now."""
    board = task.board
    record = checkup.examine(
        board,
        strategy,
        task.logs / board.name / "check.log",
        task.last,
        lambda step: pipe.send(Doing(board.name, "check", step.name)),
    )
    pipe.send(Checked(record))
    pipe.recv()
    return record


def switch_off(task: Task) -> None:
    """Switch a board off whose own process is gone; ends with an exit code, 0 where the switch says that it is off."""
    os.environ.update(task.environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    try:
        strategy = checkup.open_strategy(task.board)
        strategy.recover()
        strategy.target.cleanup()
    except FarmError as problem:
        sys.exit(problem.exit_code)
