"""A plan for people: at most 100 columns, plain lines where the output is no terminal."""

from __future__ import annotations

import shlex
import textwrap
from itertools import groupby
from typing import Protocol

from rich.console import Console

from farm.plan import BoardPlan, Estimate, Plan
from farm.report.calibration import WIDE_BAND
from farm.report.figures import format_time, one_line
from farm.units import format_duration, format_percent, format_rate, format_size

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
        _expected(made, board, line)
    if made.findings:
        line("")
        line("Doubts before the run", heading=True)
        for finding in made.findings:
            line(f"  {finding.lint.code}: {finding.lint.message}; {finding.lint.remedy}")
            if finding.workloads:
                line(f"    in {_several(finding.workloads)}")
    line("")
    time = format_duration(made.seconds)
    if made.looks > 1:
        least = format_duration(made.least_seconds)
        line(
            f"{made.looks} looks: after {made.least_boots} boots per variant, and after each block up to {made.boots}, a "
            "board on which every workload is settled stops"
        )
        time = f"{least}, if every board is settled at the first look, to {time}"
    line(f"About {time} in all; nothing was touched", heading=True)


def _several(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _board(one: BoardPlan, line: _Line) -> None:
    board, least = one.board, one.least
    size = f"{len(one.boots)} boots, {one.trials} trials, about {format_duration(one.seconds)}"
    if least is not None:
        size = (
            f"{len(least.boots)} to {len(one.boots)} boots, {least.trials} to {one.trials} trials, about "
            f"{format_duration(least.seconds)} to {format_duration(one.seconds)}"
        )
    line(f"{board.name}: {size}; disk {board.disk}", heading=True)
    if one.shares_with:
        line(
            f"  shares the blocks with {_several(one.shares_with)}, its equals: such as these, whoever comes first"
        )
    for block, boots in groupby(one.boots, key=lambda boot: boot.block):
        line(f"  block {block}: " + " ".join(boot.variant for boot in boots), hanging=9)
    if one.flashed_bytes:
        flashes = "1 flash" if one.flashes == 1 else f"{one.flashes} flashes"
        settled = (
            "" if least is None else f" ({format_size(least.flashed_bytes)} if settled at the first look)"
        )
        line(
            f"  flashed: at most {format_size(one.flashed_bytes)} in {flashes} to {board.flash_device} "
            f"by {board.flash_method}{settled}"
        )
    elif board.flash_device:
        line(
            f"  flashed: images of unknown size, which are not there yet, to {board.flash_device} by {board.flash_method}"
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
    if least is not None and one.written:
        total = sum(entry.bytes for entry in least.written)
        line(
            f"  settled at the first look: {'at most ' if bounded else ''}{format_size(total)} written in all"
        )
    if bounded:
        line(f"  (runs bound by time were counted at {format_rate(board.write_rate)})")


def _expected(made: Plan, one: BoardPlan, line: _Line) -> None:
    """Noise and boots needed by A/A runs, or how to come by them."""
    by_run: dict[tuple[str, float, str], list[Estimate]] = {}
    for estimate in one.estimates:
        by_run.setdefault((estimate.run, estimate.started, estimate.card), []).append(estimate)
    if not by_run:
        line(
            "  noise: unknown, so it is not known how many boots are needed; farm run --aa CAMPAIGN measures it"
        )
        return
    for (run, started, card), estimates in by_run.items():
        line(
            f"  noise by A/A run {one_line(run)} of {format_time(started)[:16]} UTC, card {one_line(card) or 'unknown'}:"
        )
        for found in estimates:
            spread = f"boots spread by {format_percent(found.spread)} %"
            band = f"band {100 * found.band:.3g} %" + (" (measured)" if found.measured else "")
            line(
                f"    {found.workload}: {spread}, {band}; boots per variant needed: "
                f"{_needed(found.boots_for_change)} for a change of {200 * found.band:.3g} %, "
                f"{_needed(found.boots_for_same)} for `same`"
            )
    wide = [found.workload for found in one.estimates if found.measured and found.band > WIDE_BAND]
    if wide:
        line(
            f"  noisy: the measured band of {_several(tuple(wide))} is wider than {100 * WIDE_BAND:.0f} %, so that "
            "`same` will say little; find out what disturbs the board"
        )
    needed = max(
        (found.boots_for_change for found in one.estimates if found.boots_for_change is not None), default=0
    )
    if needed > made.boots:
        line(
            f"  boots: {made.boots} are fewer than the {needed} per variant that find twice the band with 80 % power"
        )
    uncalibrated = [
        name for name, _ in made.commands if name not in {found.workload for found in one.estimates}
    ]
    if uncalibrated:
        line(f"  noise unknown: {_several(tuple(uncalibrated))}")


def _needed(boots: int | None) -> str:
    return "more than 1000" if boots is None else str(boots)
