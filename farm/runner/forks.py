"""The process that workers are forked from, started early so that both processes import at the same time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farm.runner.task import Task


def start() -> None:
    """Start the fork server in the background, unless it runs; it ends with this process."""
    context()
    with deaf():
        forkserver.ensure_running()


def context() -> ForkServerContext:
    """What workers are started by."""
    made = multiprocessing.get_context("forkserver")
    # One import of labgrid for all boards. The server is started by exec and opens no gRPC channel, so its children may.
    made.set_forkserver_preload(["farm.runner.preload"])
    return made


def begin(target: Callable[..., None], args: tuple[object, ...], name: str) -> ForkServerProcess:
    """A process for a board, forked from that server: `work` or `switch_off`."""
    process = context().Process(target=target, args=args, name=f"farm-{name}", daemon=True)
    with deaf():
        process.start()
    return process


def work(pipe: Connection, task: Task) -> None:
    """Run a board's boots; see `worker`, which only the fork server and its children import, since labgrid is in it."""
    from farm.runner import worker

    worker.main(pipe, task)


def switch_off(task: Task) -> None:
    """Switch a board off, see `worker`."""
    from farm.runner import worker

    worker.switch_off(task)


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started meanwhile do not hear Ctrl-C.

    At a terminal it reaches the whole group, and the server and its children before they can ignore it; this process
    hears of it as soon as the mask is lifted.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
