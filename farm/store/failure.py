"""What SQLite and the file system raise, as one sentence: path, what was not done, why, and the remedy."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.errors import FarmError, StoreError, said_of_system

_SMALLEST = 64 * 1024
"""Bytes that SQLite wants beside a database that is only read: its index of the WAL is 32 KiB."""
_UNIQUE = {
    "run.id": "this id is taken",
    "boot.run_id": "it is committed already",
    "trial.boot_id": "it has the same repetition of a workload twice",
    "sample.trial_id": "a trial has the same metric and direction twice",
}


@contextmanager
def sentences(path: Path, what: str) -> Iterator[None]:
    """Raise StoreError for what goes wrong inside; `what` says what then was not done."""
    try:
        yield
    except FarmError:
        raise
    except (sqlite3.Error, OSError, OverflowError, json.JSONDecodeError) as error:
        raise StoreError(f"{path}: {what}: {_why(error, path)}") from error


def _why(error: Exception, path: Path) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"the file is damaged (a cell holds no JSON: {error}); restore a copy"
    if isinstance(error, OSError):
        return said_of_system(error)
    code = getattr(error, "sqlite_errorcode", None)
    match None if code is None else code & 0xFF:  # the low byte is SQLite's primary result code
        case sqlite3.SQLITE_FULL:
            return "the disk is full; free some space and go on with `farm run --resume`"
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN if _full(path):  # no room for the files beside it
            return "the disk is full; free some space"
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return f"{error}; look whether it is a file on a sound disk, in a directory that may be written"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "another process keeps it locked; wait for that one, or see with `fuser` which it is"
        case sqlite3.SQLITE_NOTADB:
            return "this is not an SQLite database; name another file"
        case sqlite3.SQLITE_CORRUPT:
            return f"the file is damaged ({error}); restore a copy, or try `sqlite3 FILE .recover`"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "it may only be read; make the file and its directory writable"
        case sqlite3.SQLITE_CONSTRAINT:
            return _constraint(str(error))
    return str(error)


def _full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _SMALLEST
    except OSError:
        return False


def _constraint(message: str) -> str:
    if "FOREIGN KEY" in message:
        return "its run was never begun"
    for column, why in _UNIQUE.items():
        if f"UNIQUE constraint failed: {column}" in message:
            return why
    return message
