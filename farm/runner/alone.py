"""Boards that would disturb each other run their trials in turn; everything else goes side by side."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager

from farm.paths import cache


@contextmanager
def alone(name: str | None) -> Iterator[None]:
    """Hold what is called `name` (a host CPU, a supply, a hub) as the only board of all runs of this user.

    The lock is the kernel's, so a worker that dies gives it back. Nothing is held where `name` is None.
    """
    if name is None:
        yield
        return
    folder = cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
