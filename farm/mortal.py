"""Processes that do not outlive the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with(parent: int) -> Callable[[], None]:
    """What a child of the process `parent` does so that it cannot outlive it, for example between fork and exec
    (preexec_fn)."""
    prctl = _prctl()  # loaded before the fork

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the request was made
            os._exit(1)

    return arm


def adopt(orphans: bool) -> None:
    """Whether a descendant of this process whose parent ends becomes a child of this process, and not of init."""
    _prctl()(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


def _prctl() -> Callable[..., int]:
    prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    return prctl
