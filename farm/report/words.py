"""Phrases that every report uses in the same way: counts, changes, intervals, warnings, what does not count."""

from __future__ import annotations

from collections.abc import Iterable

from farm.report.compare_view import CompareTable, Note, Row, Side
from farm.report.doubts import Doubt
from farm.report.figures import NONE, format_ratio, one_line

IMPORTED = "Imported results: number and order of the boots are unknown, and nothing is proven."


def metric_name(metric: str) -> str:
    """A metric as people call it."""
    if metric == "bw_bytes":
        return "bandwidth"
    if metric.startswith("lat_") and metric.endswith("_ns"):
        return f"latency {metric[4:-3]}"
    return metric


def count(table: CompareTable, sides: Iterable[Side]) -> str:
    """n of each side; unknown for imported results, with how many figures were posted."""
    known = "/".join(str(side.boots) for side in sides)
    return f"? ({known} posted)" if table.imported else known


def change(row: Row) -> str:
    """The ratio candidate / baseline: the verdict's estimate where there is one, else that of the medians."""
    estimate = getattr(row.verdict, "ratio", None)
    return format_ratio(row.ratio if estimate is None else estimate)


def interval(row: Row) -> str:
    """The simultaneous 95 % interval of the ratio."""
    low, high = getattr(row.verdict, "low", None), getattr(row.verdict, "high", None)
    if low is None or high is None:
        return NONE
    return f"{low:.3f} .. {high:.3f}" if high < 100 else f"{low:.3g} .. {high:.3g}"


def word(row: Row) -> str:
    """The verdict, and whether it is unstable."""
    if row.verdict is None:
        return NONE
    return row.verdict.verdict + (" (unstable)" if row.verdict.unstable else "")


def doubt_text(doubt: Doubt) -> str:
    """A warning in one line with where it holds."""
    boards = ", ".join(doubt.boards[:4]) + (", ..." if len(doubt.boards) > 4 else "")
    names = ", ".join(doubt.workloads[:4]) + (
        f" and {len(doubt.workloads) - 4} more" if len(doubt.workloads) > 4 else ""
    )
    where = " of ".join(part for part in (names, boards) if part)
    if doubt.message.startswith(names) or doubt.code.endswith(("-bus", "-limit", "spread")):
        where = boards
    remedy = f"; {doubt.remedy}" if doubt.remedy else ""
    return f"{doubt.code}: {doubt.message}{remedy}" + (f" ({where})" if where else "")


def note_text(note: Note) -> str:
    """What does not count and why, in one line without control signs."""
    places = ", ".join(
        f"{index}" + (f" (attempt {attempt})" if attempt else "") for index, attempt in note.boots[:6]
    )
    places += ", ..." if len(note.boots) > 6 else ""
    boots = f"boot{'s' if len(note.boots) > 1 else ''} {places} of {note.variant} on {note.board}"
    if note.scope == "boot":
        what = boots
    else:
        names = ", ".join(note.workloads[:4]) + (", ..." if len(note.workloads) > 4 else "")
        count = f"{len(note.trials)} trials" if len(note.trials) > 1 else "1 trial"
        what = f"{count} of {names} in {boots} (farm show {note.trials[0]})"
    return one_line(f"{note.status}: {what}: {note.reason or 'no reason is on record'}", 600)
