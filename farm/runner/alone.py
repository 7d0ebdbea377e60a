"""Boards that would disturb each other run their trials in turn; everything else goes side by side."""

from __future__ import annotations

import fcntl
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from farm.paths import cache

_SAY_EVERY_S = 5.0


@contextmanager
def alone(name: str | None, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold what is called `name` (a host CPU, a supply, a hub) as the only board of all runs of this user.

    The lock is the kernel's, so a worker that dies gives it back. Nothing is held where `name` is None. `waiting` is
    called now and then while somebody else holds it: who waits is not taken for hung.
    """
    if name is None:
        yield
        return
    folder = cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.lock").open("w") as held:
        said = 0.0
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - said >= _SAY_EVERY_S:
                    waiting()
                    said = time.monotonic()
                time.sleep(0.1)
        yield
