"""`farm trend` for people: every change with the runs and kernels on both sides, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from farm.analysis.trend import MIN_NIGHTS, Change, Drift, Key, Night, Trend
from farm.report.figures import format_time, format_value, one_line

WIDTH = 100
_SIGNS = {"faster": "^", "slower": "v"}


def print_trends(trends: Sequence[Trend], out: Console) -> None:
    """Changes, drifts, and how many series had none; at most 100 columns, no character of foreign text obeyed."""
    for text in lines(trends):
        out.print(text, markup=False, highlight=False, soft_wrap=True)


def lines(trends: Sequence[Trend]) -> Iterator[str]:
    """What `farm trend` says, line by line, in ASCII where the names are."""
    changes = [change for trend in trends for change in trend.changes]
    drifts = [trend.drift for trend in trends if trend.drift]
    for change in sorted(changes, key=_badness):
        yield from _change(change)
        yield ""
    for drift in sorted(drifts, key=_badness):
        yield from _drift(drift)
        yield ""
    yield from _summary(trends, len(changes), len(drifts))


def sentence(change: Change) -> str:
    """A change in one sentence, as Grafana shows it at its mark."""
    return (
        f"{one_line(change.key.workload, 40)} on {one_line(change.key.board, 30)}: {_size(change)}"
        f" since {_place(change.after, 60)}, before it {_place(change.before, 60)}"
    )


def _badness(found: Change | Drift) -> float:
    ratio = found.ratio if found.key.higher_is_better else 1 / found.ratio
    return ratio if found.verdict == "slower" else 2 + 1 / ratio


def _name(key: Key) -> str:
    direction = key.direction if key.direction and key.direction not in key.workload else ""
    words = [key.board, key.workload, direction, key.metric, "of", key.variant]
    return one_line(" ".join(word for word in words if word), WIDTH - 2)


def _where(key: Key) -> str:
    words = [
        f"{label} {value}"
        for label, value in (("campaign", key.campaign), ("branch", key.branch), ("card", key.card))
        if value
    ]
    return "  " + one_line(", ".join(words), WIDTH - 2)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _size(change: Change) -> str:
    return f"{change.verdict} {_percent(change.ratio)} ({_percent(change.low)} to {_percent(change.high)})"


def _place(night: Night, limit: int) -> str:
    kernel = f"{night.kernel} {night.commit}".strip()
    return one_line(f"{night.run} ({kernel})" if kernel else night.run, limit)


def _change(change: Change) -> Iterator[str]:
    key = change.key
    yield f"{_SIGNS[change.verdict]} {_name(key)}"
    yield _where(key)
    levels = (
        f"{format_value(key.metric, change.value_before)} -> {format_value(key.metric, change.value_after)}"
    )
    yield f"  {_size(change)}, p {change.p:.2g}; medians {levels}"
    for label, night, count in (
        ("last before", change.before, change.n_before),
        ("first after", change.after, change.n_after),
    ):
        yield f"  {label}: {_place(night, 60)}, {format_time(night.time)[:16]}, {count} nights"


def _drift(drift: Drift) -> Iterator[str]:
    yield f"{_SIGNS[drift.verdict]} {_name(drift.key)}"
    yield _where(drift.key)
    yield (
        f"  drifts without a step: {drift.verdict} {_percent(drift.ratio)} over {drift.nights} nights,"
        f" p {drift.p:.2g}"
    )
    yield f"  from {_place(drift.first, 80)}"
    yield f"  to   {_place(drift.last, 80)}"


def _summary(trends: Iterable[Trend], changes: int, drifts: int) -> Iterator[str]:
    nights = [len(trend.series.nights) for trend in trends]
    if not nights:
        yield "There are no nightly runs yet: a trend needs runs of one campaign that are done."
        return
    short = sum(count < 2 * MIN_NIGHTS for count in nights)
    quiet = sum(not trend.changes and trend.drift is None for trend in trends) - short
    yield f"{len(nights)} series of up to {max(nights)} nights: {changes} changes, {drifts} drifts; {quiet} series steady."
    if short:
        yield f"{short} series have fewer than {2 * MIN_NIGHTS} nights, too few to see any change."
