"""Ctrl-C ends farm with one line and exit code 130 at any time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

EXIT_CODE = 130
SENTENCE = "farm: interrupted"


def at_once() -> None:
    """From now on Ctrl-C ends the process where it stands: for imports and exit, when there is nothing to tidy up."""

    def ring(signum: int, frame: FrameType | None) -> None:
        os.write(2, f"{SENTENCE}\n".encode())
        os._exit(EXIT_CODE)

    _on_interrupt(ring)


def in_order() -> None:
    """From now on the first Ctrl-C raises KeyboardInterrupt; further ones do not cut short what tidies up behind it."""

    def ring(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    _on_interrupt(ring)


def forget() -> None:
    """Let the process end with its own exit code, once KeyboardInterrupt was caught.

    Where that passed through code that is compiled at run time, as dataclasses and typing do, Python notes it, and ends
    a program run by `python -m` by SIGINT whatever its exit code. The next such code takes the note back
    (run_eval_code_obj() in CPython's pythonrun.c).
    """
    exec("")  # noqa: S102 - nothing is run


def _on_interrupt(ring: Callable[[int, FrameType | None], None]) -> None:
    # where it is ignored, it was pressed already, or is not for us: a script's `nohup farm run &`
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, ring)
