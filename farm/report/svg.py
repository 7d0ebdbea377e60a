"""Plots as SVG text: boots as dots, boots in order, latency percentiles. Each variant has a colour and a shape of its own.

Colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which people with any kind of colour vision
tell apart; the shapes say the same without colour. Everything is drawn 360 units wide, so that it fits a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from farm.report.figures import format_value, one_line

Floats = NDArray[np.float64]

WIDTH = 360
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SHAPES = (
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",  # disc
    "m-3-3h6v6h-6z",  # square
    "m0-4.2l4 7h-8z",  # triangle
    "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",  # diamond
    "m-4-3h8l-4 7z",  # triangle upside down
    "m-1.2-4h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8v-2.4h2.8z",  # plus
    "m-4-1.3h8v2.6h-8z",  # dash
)
_GREY, _INK = "#767676", "#1b1b1b"
_MANY = 60
"""Boots of one board beyond which plots show summaries instead of dots."""


@dataclass(frozen=True)
class Lane:
    """One variant's boots: values in the metric's unit, and their places in the order of the run."""

    variant: str
    style: int
    values: Floats
    places: Floats


@dataclass(frozen=True)
class Interval:
    """The 95 % interval of a candidate's change, as values beside the baseline's median."""

    style: int
    low: float
    middle: float
    high: float


def marker(style: int) -> Markup:
    """A variant's sign for legends."""
    return Markup(
        '<svg class="m" viewBox="-6 -6 12 12" width="12" height="12" aria-hidden="true">{}</svg>'
    ).format(_marks([(0.0, 0.0)], style))


def dots(metric: str, lanes: Sequence[Lane], intervals: Sequence[Interval], label: str) -> Markup:
    """A lane per variant with a dot per boot, a bar at the median, and the interval of the change as a line."""
    shown = [value for lane in lanes for value in lane.values]
    shown += [value for one in intervals for value in (one.low, one.high) if _sane(value, shown)]
    if not shown:
        return Markup("")
    x = _scale(min(shown), max(shown), 8.0, WIDTH - 8.0)
    parts, top = [], 4.0
    for lane in lanes:
        middle = top + 26
        parts.append(
            _text(8, top + 10, f"{one_line(lane.variant, 40)}: {_n(len(lane.values))}", _colour(lane.style))
        )
        parts.append(_line(8, middle + 14, WIDTH - 8, middle + 14, "#dddddd"))
        if len(lane.values) > _MANY:
            parts.append(_box(lane, x, middle))
        elif len(lane.values):
            parts.append(_marks(_stacked([x(value) for value in lane.values], middle), lane.style))
        if len(lane.values):
            at = x(float(np.median(lane.values)))
            parts.append(_line(at, middle - 12, at, middle + 12, _INK, 2))
        for one in intervals:
            if one.style == lane.style:
                parts.append(_whisker(x, one, middle + 9))
        top += 44
    return _plot(top + 20, [*parts, *_axis(metric, shown, x, top)], label)


def order(metric: str, lanes: Sequence[Lane], lost: Sequence[float], label: str) -> Markup:
    """Values by the place of the boot in the run, so that a drift can be seen; crosses below are boots without value."""
    values = [value for lane in lanes for value in lane.values]
    places = [place for lane in lanes for place in lane.places] + list(lost)
    if not values:
        return Markup("")
    bottom = 116.0
    y = _scale(min(values), max(values), bottom - 8, 16.0)
    x = _scale(min(places), max(places), 76.0, WIDTH - 14.0)
    parts = [_line(8, bottom, WIDTH - 8, bottom, _GREY)]
    for value in _ends(values):
        parts.append(_line(66, y(value), WIDTH - 8, y(value), "#dddddd"))
        parts.append(_text(8, y(value) + 4, format_value(metric, value), _GREY))
    many = len(values) > _MANY
    for lane in lanes:
        points = list(zip(lane.places.tolist(), lane.values.tolist(), strict=True))
        points = _binned(points) if many else points
        parts.append(_marks([(x(place), y(value)) for place, value in points], lane.style))
    parts += [_cross(x(place), bottom) for place in lost[:200]]
    parts.append(_text(66, bottom + 13, f"boot {min(places):.0f}", _GREY))
    parts.append(_text(WIDTH - 8, bottom + 13, f"boot {max(places):.0f}", _GREY, "end"))
    if many:
        parts.append(_text((WIDTH + 58) / 2, bottom + 13, "medians of neighbouring boots", _GREY, "middle"))
    return _plot(bottom + 18, parts, label)


def percentiles(rows: Mapping[str, Sequence[tuple[int, float]]], label: str) -> Markup:
    """A lane per percentile with each variant's median over boots, nanoseconds on a logarithmic axis."""
    values = [value for points in rows.values() for _, value in points if value > 0]
    if not values:
        return Markup("")
    x = _scale(math.log(min(values)), math.log(max(values)), 58.0, WIDTH - 10.0)
    parts, top = [], 12.0
    for name, points in rows.items():
        parts.append(_text(8, top + 4, name, _INK))
        parts.append(_line(58, top, WIDTH - 8, top, "#dddddd"))
        for style, value in points:
            if value > 0:
                parts.append(_marks([(x(math.log(value)), top)], style))
        top += 18
    ends = _ends(values)
    for value, anchor, at in zip(ends, ("start", "end"), (58.0, WIDTH - 8.0), strict=False):
        parts.append(_text(at, top + 8, format_value("lat_ns", value), _GREY, anchor))
    return _plot(top + 14, parts, label)


def _sane(value: float, shown: Sequence[float]) -> bool:
    """Whether an end of an interval can be drawn without pressing the dots together."""
    return bool(shown) and math.isfinite(value) and min(shown) / 3 <= value <= max(shown) * 3


def _scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    if high <= low:
        return lambda _: (first + last) / 2
    return lambda value: first + (min(max(value, low), high) - low) / (high - low) * (last - first)


def _stacked(xs: Iterable[float], middle: float) -> list[tuple[float, float]]:
    """Dots side by side where they would lie upon each other."""
    used: dict[int, int] = {}
    points = []
    for x in xs:
        column = round(x / 7)
        count = used[column] = used.get(column, 0) + 1
        step = count // 2 * (1 if count % 2 else -1)
        points.append((x, middle + max(-10, min(10, 4 * step))))
    return points


def _binned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    parts = np.array_split(np.array(sorted(points)), min(30, len(points)))
    return [(float(part[:, 0].mean()), float(np.median(part[:, 1]))) for part in parts if len(part)]


def _box(lane: Lane, x: Callable[[float], float], middle: float) -> Markup:
    low, q1, q3, high = (x(float(value)) for value in np.quantile(lane.values, (0.05, 0.25, 0.75, 0.95)))
    colour = _colour(lane.style)
    return _line(low, middle, high, middle, colour, 1.5) + Markup(
        '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="14" fill="none" stroke="{}" stroke-width="1.5"/>'
    ).format(q1, middle - 7, max(q3 - q1, 1), colour)


def _whisker(x: Callable[[float], float], one: Interval, y: float) -> Markup:
    low, middle, high = (x(value) for value in (one.low, one.middle, one.high))
    ends = _line(low, y - 3, low, y + 3, _INK) + _line(high, y - 3, high, y + 3, _INK)
    return _line(low, y, high, y, _INK) + ends + _line(middle, y - 3, middle, y + 3, _INK, 2)


def _axis(metric: str, shown: Sequence[float], x: Callable[[float], float], top: float) -> list[Markup]:
    anchors = ("start", "end")
    return [
        _text(8 if anchor == "start" else WIDTH - 8, top + 12, format_value(metric, value), _GREY, anchor)
        for value, anchor in zip(_ends(shown), anchors, strict=False)
    ]


def _ends(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)] if max(values) > min(values) else [min(values)]


def _n(count: int) -> str:
    return "no boot" if count == 0 else "1 boot" if count == 1 else f"{count} boots"


def _colour(style: int) -> str:
    return COLOURS[style % len(COLOURS)]


def _marks(points: Iterable[tuple[float, float]], style: int) -> Markup:
    shape = _SHAPES[style % len(_SHAPES)]
    path = "".join(f"M{x:.1f} {y:.1f}{shape}" for x, y in points)
    return Markup('<path d="{}" fill="{}" fill-opacity=".75"/>').format(path, _colour(style))


def _cross(x: float, y: float) -> Markup:
    return Markup('<path d="M{:.1f} {:.1f}m-3-3l6 6m0-6l-6 6" stroke="{}" fill="none"/>').format(x, y, _INK)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> Markup:
    return Markup(
        '<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}" stroke="{}" stroke-width="{}" fill="none"/>'
    ).format(x1, y1, x2, y2, colour, width)


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" fill="{}" text-anchor="{}">{}</text>').format(
        x, y, colour, anchor, text
    )


def _plot(height: float, parts: Iterable[Markup], label: str) -> Markup:
    body = Markup("").join(parts)
    return Markup('<svg class="p" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, escape(one_line(label, 200)), body
    )
