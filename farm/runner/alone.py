"""Boards that would disturb each other run their trials in turn; everything else goes side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from farm.lock import taken
from farm.paths import cache

_SAY_EVERY_S = 5.0
_GIVE_WAY_S = 0.5  # before a board asks for another boot, so that one that waited is next


@contextmanager
def at_work(name: str | None, most: int | None, waiting: Callable[[], None]) -> Iterator[None]:
    """Be one of at most `most` boards of all runs of this user that share `name` and are at work.

    What they share may bear a trial beside one boot, but not beside two. Nothing is held where either is None.
    """
    if name is None or most is None:
        yield
        return
    time.sleep(_GIVE_WAY_S)
    with _held([f"{name}.{number}" for number in range(most)], waiting):
        yield


@contextmanager
def alone(name: str | None, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold what is called `name` (a host CPU, a supply, a hub) as the only board of all runs of this user.

    The lock is the kernel's, so a worker that dies gives it back. Nothing is held where `name` is None. `waiting` is
    called now and then while somebody else holds it: who waits is not taken for hung.
    """
    if name is None:
        yield
        return
    with _held([name], waiting):
        yield


@contextmanager
def _held(names: Sequence[str], waiting: Callable[[], None]) -> Iterator[None]:
    """Hold one of these."""
    folder = cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"alone-{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.lock").open("w"))
            for name in names
        ]
        said = 0.0
        while not any(map(taken, files)):
            if time.monotonic() - said >= _SAY_EVERY_S:
                waiting()
                said = time.monotonic()
            time.sleep(0.1)
        yield
