"""Ctrl-C ends farm with one line and exit code 130 at any time."""

from __future__ import annotations

import os
import signal

EXIT_CODE = 130
SENTENCE = "farm: interrupted"


def at_once() -> None:
    """From now on Ctrl-C ends the process where it stands: for imports and exit, when there is nothing to tidy up."""

    def ring(signum: int, frame: object) -> None:
        os.write(2, f"{SENTENCE}\n".encode())
        os._exit(EXIT_CODE)

    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):  # else it was pressed, and said, or is not for us
        signal.signal(signal.SIGINT, ring)


def in_order() -> None:
    """From now on the first Ctrl-C raises KeyboardInterrupt; further ones do not cut short what tidies up behind it."""

    def ring(signum: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):  # `nohup farm run &` in a script is not to be ended by it
        signal.signal(signal.SIGINT, ring)
