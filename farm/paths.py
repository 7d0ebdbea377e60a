"""Where farm keeps what it makes: results below `home()`, rebuildable images below `cache()`."""

from __future__ import annotations

import os
from pathlib import Path

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""What a board, a campaign or a variant may be called, since it names places in paths, logs, reports and points."""


def stamp(path: Path) -> tuple[int, int, int]:
    """Inode, size and time of a file: what changes when it is written or replaced. Raises OSError."""
    there = path.stat()
    return there.st_ino, there.st_size, there.st_mtime_ns


def home() -> Path:
    """Directory of database, logs and lab state: `FARM_HOME`, else `.farm` in the current directory."""
    return Path(os.environ.get("FARM_HOME") or ".farm").absolute()


def database(directory: Path) -> Path:
    """The results of the home `directory`."""
    return directory / "farm.db"


def cache() -> Path:
    """Directory of what can be built again: `FARM_CACHE`, else `farm` in the XDG cache directory."""
    if named := os.environ.get("FARM_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "farm"
