"""The kernel's lock on an open file: a process that died holds none."""

from __future__ import annotations

import fcntl
from typing import IO


def taken(file: IO[str] | int) -> bool:
    """Take the lock for this process alone, without waiting; whether it could be had."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
