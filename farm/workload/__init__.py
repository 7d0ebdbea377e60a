"""One module per tool: a cell of the matrix becomes a command line."""

from __future__ import annotations

from farm.workload import dd, fio
from farm.workload.command import Command
from farm.workload.model import FioWorkload, Workload


def command(w: Workload, target_path: str) -> Command:
    """The trial of `w` on the device or file `target_path` of the board, whatever its tool."""
    return fio.command(w, target_path) if isinstance(w, FioWorkload) else dd.command(w, target_path)
