"""Processes for boards, each a fork of a server that has everything imported and is there only while it forks.

So what is imported is in memory once for all boards and costs none of them time. The first server is a fork of the
controller and shares with it what both need; multiprocessing's would be another interpreter, with a tracker beside it, and
both would stay. A process that was forked becomes the controller's own child (PR_SET_CHILD_SUBREAPER of prctl(2)): the
controller waits for it, and the kernel kills it when the controller dies.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Literal, NoReturn

from farm.errors import FarmError
from farm.memory import give_back, return_large
from farm.mortal import adopt, die_with

if TYPE_CHECKING:
    from farm.runner.task import Task

Job = Literal["work", "switch_off"]
Fork = Callable[[Job, "Task"], "Process"]
_first: tuple[int, socket.socket] | None = None


def start() -> None:
    """Fork the first server, which imports beside this process.

    To be called when everything is imported that both need and nothing is open yet: no database, thread or channel of gRPC
    survives a fork.
    """
    global _first
    return_large()
    give_back()
    # the collector writes its marks beside the objects, and a page that is written to is shared no more
    gc.freeze()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, _deaf():
        controller = os.getpid()
        if (pid := os.fork()) == 0:
            ours.close()
            die_with(controller)()
            _end_after(partial(_serve, theirs, controller))
    _first = pid, ours


@contextmanager
def server() -> Iterator[Fork]:
    """What starts processes: `work` runs a board's boots, `switch_off` is for a board whose own process is gone.

    Raises FarmError where there is no process to be had.
    """
    global _first
    (pid, control), _first = _first or _another(), None
    adopt(True)
    try:
        with control:
            yield lambda job, task: _fork(control, job, task)
    finally:
        os.waitpid(pid, 0)
        adopt(False)


def _another() -> tuple[int, socket.socket]:
    """A server that shares nothing with this process, which may have anything open by now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"from farm.runner import forks; forks.main({theirs.fileno()}, {os.getpid()})"
    with theirs, _deaf():
        theirs.set_inheritable(True)
        return os.posix_spawn(sys.executable, [sys.executable, "-P", "-c", code], os.environ), ours


class Process:
    """A process for a board, and the messages to and from it."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self.pid, self.pipe = pid, pipe
        self.exitcode: int | None = None
        """Negative for a signal; None while it runs."""
        self._pidfd = os.pidfd_open(pid)

    def join(self, timeout: float) -> None:
        """Wait for its end, so many seconds at most."""
        if self.exitcode is None and select.select([self._pidfd], [], [], timeout)[0]:
            self.exitcode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._pidfd)

    def is_alive(self) -> bool:
        """Whether it runs."""
        self.join(0)
        return self.exitcode is None

    def terminate(self) -> None:
        """Ask it to switch its board off and end."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it where it stands."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)


def _fork(control: socket.socket, job: Job, task: Task) -> Process:
    pipe, theirs = Pipe()
    try:
        with theirs:
            socket.send_fds(control, [job.encode()], [theirs.fileno()])
        pipe.send(task)
        return Process(pipe.recv(), pipe)
    except (OSError, EOFError):  # it could not fork, or died
        raise FarmError(
            f"no process can be started for {task.board.name}; is there memory, and room below `ulimit -u`?"
        ) from None


def main(number: int, controller: int) -> None:
    """Be the server of a process that gave this one a socket."""
    _end_after(partial(_serve, socket.socket(fileno=number), controller))


def _serve(control: socket.socket, controller: int) -> None:
    """Fork what is asked for, until nothing more is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import farm.runner.preload  # noqa: F401
    from farm.runner import worker

    while True:
        said, fds, _, _ = socket.recv_fds(control, 32, 1)
        if not said:
            return
        with Connection(fds[0]) as pipe:
            task = pipe.recv()
            run = partial(worker.main, pipe) if said == b"work" else worker.switch_off
            # two forks: a process whose parent ends is adopted by the controller
            if (parent := os.fork()) == 0:
                control.close()
                _end_after(partial(_fork_and_end, pipe, controller, partial(run, task)))
            os.waitpid(parent, 0)


def _fork_and_end(pipe: Connection, controller: int, run: Callable[[], None]) -> None:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.001)
        die_with(controller)()
        pipe.send(os.getpid())
        _end_after(run)


def _end_after(job: Callable[[], None]) -> NoReturn:
    """End this process behind a job as a program ends, but tidy up nothing of the process that it was forked from."""
    code = 1
    try:
        job()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started meanwhile do not hear Ctrl-C.

    At a terminal it reaches the whole group, and the server before it can ignore it; this process hears of it as soon as the
    mask is lifted.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
