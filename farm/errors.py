"""Everything that farm can complain about, as one small tree; a command exits with the code of its error."""

from __future__ import annotations

import errno
from pathlib import Path


class FarmError(Exception):
    """Base of all errors that are shown to people as sentences, never as a traceback."""

    exit_code = 1


class UserError(FarmError):
    """The user's input is wrong: one sentence with file, line and key, and what would be right."""

    exit_code = 2

    def __init__(
        self, message: str, *, file: Path | str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        self.message, self.file, self.line, self.key = message, file, line, key
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + (f"{key}: " if key else "") + message)


class BoardError(FarmError):
    """The hardware or the lab failed: board, step, reason, the last console lines and the full log's path."""

    exit_code = 3

    def __init__(
        self,
        reason: str,
        *,
        board: str = "",
        step: str = "",
        tail: tuple[str, ...] = (),
        log: Path | str | None = None,
    ) -> None:
        self.reason, self.board, self.step, self.tail, self.log = reason, board, step, tail, log
        head = ": ".join(part for part in (board, step, reason) if part)
        lines = [head, *(f"    | {line}" for line in tail)]
        if log:
            lines.append(f"    full console log: {log}")
        super().__init__("\n".join(lines))


class StoreError(FarmError):
    """The record of truth cannot be read or written."""

    exit_code = 4


_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EACCES: "make it accessible, or set FARM_HOME to another directory",
    errno.EPERM: "make it accessible, or set FARM_HOME to another directory",
    errno.EROFS: "make it writable, or set FARM_HOME to another directory",
    errno.ENOTDIR: "set FARM_HOME to a directory",
    errno.EEXIST: "set FARM_HOME to a directory",
}


def said_of_system(problem: OSError) -> str:
    """What the system refused, in one sentence: file if there is one, what, and the remedy where one is known."""
    where = f"{problem.filename}: " if problem.filename else ""
    remedy = _REMEDIES.get(problem.errno or 0)
    return where + (problem.strerror or str(problem)) + (f"; {remedy}" if remedy else "")
