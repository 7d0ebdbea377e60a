"""What a reader has to know about a run beside its verdicts: spread, drift, outliers, a board that changed meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farm.analysis.student import t_tail

Floats = NDArray[np.float64]

SPREAD = 0.10
"""Coefficient of variation between boots beyond which a workload is flagged."""
DRIFT = 0.01
"""A trend has to be this improbable by chance, over all workloads together, and move the values by DRIFT_SIZE."""
DRIFT_SIZE = 0.02
OUTLIER = 0.05
"""An outlier has to be this improbable among all boots, variants and workloads of the table together ..."""
OUTLIER_SIZE = 0.05
"""... and be off by this: a series that is steady to 0.1 % has no outliers of 0.5 %."""
_STEADIEST = 0.001  # least spread that the others are believed to have, in logs
MOVED_TEMPERATURE = 10.0
"""Degrees between the coolest and the warmest boot."""
MOVED_FREQUENCY = 0.05
"""Relative change of the CPU's frequency."""

Code = Literal["spread", "drift", "outlier", "temperature", "frequency", "fio-version", "mode"]


@dataclass(frozen=True)
class Flag:
    """One finding; `workload`, `variant` and `boot` (row of the table) where it is about one, else None."""

    code: Code
    message: str
    workload: str | None = None
    variant: str | None = None
    boot: int | None = None


def value_flags(
    values: ArrayLike, starts: ArrayLike, variants: Sequence[str], workloads: Sequence[str]
) -> tuple[Flag, ...]:
    """Spread, drift and outliers of one board's boots x workloads table (as `compare` takes it)."""
    table = np.array(values, dtype=np.float64).reshape(len(variants), len(workloads))
    table[~(np.isfinite(table) & (table > 0))] = np.nan
    times = np.asarray(starts, dtype=np.float64)
    names = np.asarray(variants, dtype=object)
    found: list[Flag] = []
    for column, workload in enumerate(workloads):
        for variant in dict.fromkeys(variants):
            rows = np.flatnonzero((names == variant) & np.isfinite(table[:, column]))
            found += _spread(table[rows, column], workload, variant)
            found += _outliers(table[rows, column], rows, workload, variant, table.size)
        found += _drift(table[:, column], times, names, workload, len(workloads))
    return tuple(found)


def _spread(measured: Floats, workload: str, variant: str) -> list[Flag]:
    if len(measured) < 2:
        return []
    share = float(measured.std(ddof=1) / measured.mean())
    if share <= SPREAD:
        return []
    message = (
        f"{workload}, {variant}: {100 * share:.3g} % spread between boots, more than {100 * SPREAD:.0f} %"
    )
    return [Flag("spread", message, workload, variant)]


def _outliers(
    measured: Floats, rows: NDArray[np.intp], workload: str, variant: str, family: int
) -> list[Flag]:
    """Boots that the variant's other boots make improbable (t of the one left out, Bonferroni over `family` boots)."""
    n = len(measured)
    if n < 4:
        return []
    y = np.log(measured)
    apart = y - y.mean()
    off = apart * n / (n - 1)  # from the mean of the others
    others = np.sqrt(np.maximum(float(apart @ apart) - apart * off, 0.0) / (n - 2))
    t = np.abs(off) / (np.maximum(others, _STEADIEST) * math.sqrt(1 + 1 / (n - 1)))
    rare = (np.abs(off) > math.log1p(OUTLIER_SIZE)) & (2 * t_tail(t, n - 2) * family < OUTLIER)
    found = []
    for i in np.flatnonzero(rare):
        size = 100 * math.expm1(min(float(off[i]), 700.0))
        message = f"{workload}, {variant}: one boot is {size:+.3g} % off the mean of the others"
        found.append(Flag("outlier", message, workload, variant, int(rows[i])))
    return found


def _drift(
    column: Floats, times: Floats, names: NDArray[np.object_], workload: str, family: int
) -> list[Flag]:
    """A linear trend of the logs over the session beside the variants' own levels, Bonferroni over the workloads."""
    rows = np.flatnonzero(np.isfinite(column) & np.isfinite(times))
    levels = list(dict.fromkeys(names[rows]))
    df = len(rows) - len(levels) - 1
    if df < 2:
        return []
    y, t = np.log(column[rows]), times[rows].copy()
    for level in levels:
        of_it = names[rows] == level
        y[of_it] -= y[of_it].mean()
        t[of_it] -= t[of_it].mean()
    length = float(t @ t)
    if length <= 0:
        return []
    slope = float(t @ y) / length
    left = y - slope * t
    # A series without any noise drifts by whatever it drifts: the size decides then.
    deviation = max(math.sqrt(float(left @ left) / df), 1e-9)
    p = 2 * float(t_tail(abs(slope) * math.sqrt(length) / deviation, df)) * family
    change = math.expm1(min(slope * float(np.ptp(times[rows])), 700.0))
    if p >= DRIFT or abs(change) < DRIFT_SIZE:
        return []
    return [Flag("drift", f"{workload}: a trend of {100 * change:+.3g} % over the session", workload)]


def fact_flags(facts: Sequence[Mapping[str, object]], variants: Sequence[str]) -> tuple[Flag, ...]:
    """What moved between the boots of one board, from each boot's facts.

    Read are `temperature_c`, `cpu_khz`, `fio_version`, `ios.timing`, `ios.width_bits` and the clock in Hz
    (`ios.actual_clock_hz`, else `ios.clock_hz`); boots that lack one say nothing about it.
    """
    found = []
    if (range_ := _range(facts, "temperature_c")) and range_[1] - range_[0] > MOVED_TEMPERATURE:
        found.append(
            Flag("temperature", f"the temperature moved from {range_[0]:.0f} to {range_[1]:.0f} degrees C")
        )
    if (range_ := _range(facts, "cpu_khz")) and range_[1] > range_[0] * (1 + MOVED_FREQUENCY):
        message = f"the CPU's frequency moved from {range_[0] / 1000:.0f} to {range_[1] / 1000:.0f} MHz"
        found.append(Flag("frequency", message))
    versions = _by_value(facts, variants, lambda one: one.get("fio_version"))
    if len(versions) > 1:
        found.append(Flag("fio-version", f"different fio versions: {_said(versions)}"))
    modes = _by_value(facts, variants, _mode)
    if len(modes) > 1:
        found.append(Flag("mode", f"the bus was not the same in all boots: {_said(modes)}"))
    return tuple(found)


def _range(facts: Sequence[Mapping[str, object]], name: str) -> tuple[float, float] | None:
    known = [float(value) for one in facts if isinstance(value := one.get(name), (int, float))]
    return (min(known), max(known)) if known else None


def _mode(facts: Mapping[str, object]) -> str | None:
    timing, width = facts.get("ios.timing"), facts.get("ios.width_bits")
    clock = facts.get("ios.actual_clock_hz") or facts.get("ios.clock_hz")
    parts = [str(timing)] if timing else []
    parts += [f"{width} bit"] if width else []
    parts += [f"{clock / 1e6:.4g} MHz"] if isinstance(clock, (int, float)) else []
    return " ".join(parts) or None


def _by_value(
    facts: Sequence[Mapping[str, object]],
    variants: Sequence[str],
    read: Callable[[Mapping[str, object]], object],
) -> dict[str, list[str]]:
    """Which variants had a boot with which value, values as they first appear."""
    found: dict[str, list[str]] = {}
    for one, variant in zip(facts, variants, strict=True):
        value = read(one)
        if value is not None and variant not in (having := found.setdefault(str(value), [])):
            having.append(variant)
    return found


def _said(by_value: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{value} ({', '.join(having)})" for value, having in by_value.items())
