"""A plan for people: at most 100 columns, plain lines where the output is no terminal."""

from __future__ import annotations

import shlex
import textwrap
from itertools import groupby
from typing import Protocol

from rich.console import Console

from farm.plan import BoardPlan, Plan
from farm.units import format_duration, format_rate, format_size

_WIDTH = 100


class _Line(Protocol):
    def __call__(self, text: str, hanging: int = 4, *, heading: bool = False) -> None: ...


def render_plan(made: Plan, console: Console) -> None:
    """Print the plan to `console`."""
    width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH

    def line(text: str, hanging: int = 4, *, heading: bool = False) -> None:
        style = "bold" if heading and console.is_terminal else None
        wrapped = textwrap.wrap(
            text,
            width,
            subsequent_indent=" " * (len(text) - len(text.lstrip()) + hanging),
            break_on_hyphens=False,
        )
        for part in wrapped or [""]:
            console.print(part, style=style, markup=False, highlight=False, soft_wrap=True)

    line(
        f"{made.campaign}: {', '.join(made.variants)} (baseline {made.baseline}), seed {made.seed}",
        heading=True,
    )
    if made.description:
        line(" ".join(made.description.split()), hanging=0)
    line("")
    line(f"Workloads: {len(made.commands)}; trials of each in every boot: {made.trials}", heading=True)
    for name, words in made.commands:
        line(f"  {name}: {shlex.join(words)}")
    line("  RAW and FILE stand for the scratch device, or file on it, that the board's env allows", hanging=2)
    for board in made.boards:
        line("")
        _board(board, line)
    if made.findings:
        line("")
        line("Doubts before the run", heading=True)
        for finding in made.findings:
            line(f"  {finding.lint.code}: {finding.lint.message}; {finding.lint.remedy}")
            if finding.workloads:
                line(f"    in {_several(finding.workloads)}")
    line("")
    line(
        f"About {format_duration(made.seconds)} in all; nothing was touched",
        heading=True,
    )


def _several(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _board(one: BoardPlan, line: _Line) -> None:
    board = one.board
    line(
        f"{board.name}: {len(one.boots)} boots, {one.trials} trials, about {format_duration(one.seconds)}; "
        f"disk {board.disk}",
        heading=True,
    )
    for block, boots in groupby(one.boots, key=lambda boot: boot.block):
        line(f"  block {block}: " + " ".join(boot.variant for boot in boots), hanging=9)
    if one.flashed_bytes:
        flashes = "1 flash" if one.flashes == 1 else f"{one.flashes} flashes"
        line(
            f"  flashed: at most {format_size(one.flashed_bytes)} in {flashes} to {board.flash_device} "
            f"by {board.flash_method}"
        )
    else:
        line(f"  flashed: nothing stays on the board ({board.flash_method})")
    if not one.written:
        line("  written: nothing; every workload reads")
    bounded = False
    for entry in one.written:
        bounded = bounded or entry.at_most
        most = "at most " if entry.at_most else ""
        line(f"  written: {most}{format_size(entry.bytes)} to {entry.device} by {entry.purpose}")
    devices = {entry.device for entry in one.written}
    for device in sorted(devices) if len(one.written) > len(devices) else ():
        total = sum(entry.bytes for entry in one.written if entry.device == device)
        line(f"  in all: {'at most ' if bounded else ''}{format_size(total)} to {device}")
    if bounded:
        line(f"  (runs bound by time were counted at {format_rate(board.write_rate)})")
