"""The table of `farm boards`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console

from farm.fleet.inventory import BoardRow


def print_boards(rows: Sequence[BoardRow], out: Console) -> None:
    """One line per board, and the reason below where it is not free. Board text has lost its control characters."""
    widths = [max(len(row.name) for row in rows) if rows else 5, 11, 26, 12]
    head = ("board", "state", "card", "life time", "last good boot")
    _line(head, widths, out)
    for row in rows:
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(row.last_good)) if row.last_good else "never"
        _line((row.name, row.state, row.card or "unknown", row.life or "unknown", when), widths, out)
        if row.why:
            out.print(f"  {_plain(row.why)}", markup=False, soft_wrap=True)
    if not rows:
        out.print("no boards; envs/ has no env files here")


def _line(cells: Sequence[str], widths: Sequence[int], out: Console) -> None:
    padded = [_plain(cell).ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True)]
    out.print("  ".join(padded).rstrip(), markup=False, soft_wrap=True)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
