"""Power that is verified: labgrid's drivers wait for ever for a dead switch and never read back."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from farm.errors import BoardError

T = TypeVar("T")


class _Late(Exception):
    pass


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt blocking calls after `seconds`; signals reach only the main thread, so elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    # again and again: a call that swallows the first exception meets the next one
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _call(what: str, action: Callable[[], T], deadline_s: float) -> T:
    try:
        with _alarm(deadline_s):
            return action()
    except _Late:
        raise BoardError(f"the power switch did not answer within {deadline_s:.0f} s", step=what) from None
    except NotImplementedError:
        raise
    except Exception as problem:  # backends raise whatever their library raises
        raise BoardError(f"the power switch failed: {_said(problem)}", step=what) from problem


def _said(problem: BaseException) -> str:
    """A library's error as people can use it: what the system said in the end, and no password of a switch's address."""
    last = problem
    while (before := last.__cause__ or last.__context__) is not None:
        last = before
    if isinstance(last, OSError) and last is not problem and last.strerror:
        return last.strerror
    return re.sub(r"//[^/@\s]*@", "//...@", str(problem))


def switch(power: Any, on: bool, deadline_s: float) -> None:
    """Switch a board's power and read it back where the switch can say. Raises BoardError."""
    what = "power on" if on else "power off"
    _call(what, power.on if on else power.off, deadline_s)
    end = time.monotonic() + deadline_s
    while True:
        try:
            state = _call(what, power.get, deadline_s)
        except NotImplementedError:
            return  # pdudaemon and others cannot say
        if bool(state) == on:
            return
        if time.monotonic() >= end:
            raise BoardError(
                f"the power switch still says {'off' if on else 'on'} after {deadline_s:.0f} s", step=what
            )
        time.sleep(0.1)
