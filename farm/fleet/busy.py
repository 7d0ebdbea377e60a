"""Who of this machine uses a board right now. The lock is the kernel's, so no process that died holds one."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from farm.errors import BoardError
from farm.fleet.env import BoardEnv
from farm.lock import taken
from farm.paths import cache

_LOOK_S = 0.2


def _file(board: BoardEnv, home: Path) -> Path:
    # a virtual board belongs to the home of its lab, a real one to the machine
    folder = (home if board.farm.virtual is not None else cache()) / "locks"
    return folder / f"board-{re.sub(r'[^A-Za-z0-9._-]', '_', board.name)}.lock"


@contextmanager
def hold(boards: Iterable[BoardEnv], home: Path, what: str) -> Iterator[None]:
    """Hold these boards as the only process of this machine; `what` is told to others. Raises BoardError with who does."""
    with ExitStack() as held:
        for board in boards:
            path = _file(board, home)
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = held.enter_context(path.open("a+"))
            if not _locked(stream):
                raise BoardError(f"is busy: {_said(stream.name)}", board=board.name)
            stream.truncate(0)
            stream.write(f"{what}, pid {os.getpid()}")
            stream.flush()
        yield


def _locked(stream: IO[str]) -> bool:
    """Whether the lock could be had; who only looks whether a board is free holds it for a moment."""
    end = time.monotonic() + _LOOK_S
    while not (had := taken(stream)) and time.monotonic() <= end:
        time.sleep(0.01)
    return had


def _said(path: str) -> str:
    return Path(path).read_text(errors="replace")[:200].strip() or "another process of farm uses it"


def holder(board: BoardEnv, home: Path) -> str:
    """Who uses a board, or nothing."""
    path = _file(board, home)
    try:
        with path.open("r") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return ""
    except BlockingIOError:
        return _said(str(path))
    return ""
