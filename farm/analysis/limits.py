"""What the card's bus can carry, from debugfs `ios`, and which share of it a bandwidth is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from farm.units import format_percent

_BOTH_EDGES = ("DDR52", "DDR50", "HS400")
"""In the kernel's names of timings (drivers/mmc/core/debugfs.c): `mmc DDR52`, `mmc HS400`, `mmc HS400 enhanced
strobe` and SD's `sd uhs DDR50` move data on both edges of the clock. `mmc HS200` and `sd uhs SDR104` do not."""

LOW_SHARE = 0.15


@dataclass(frozen=True)
class BusShare:
    """A bandwidth (bytes/second) as a share of the bus limit (bytes/second), and the flag that this deserves."""

    bandwidth: float
    limit: float
    share: float
    flag: Literal["above-bus-limit", "below-15-percent-of-bus"] | None
    reason: str | None


def bus_limit(clock_hz: float | None, width_bits: int | None, timing: str | None) -> float | None:
    """Bytes/second of clock x width / 8, doubled for timings that use both edges.

    `clock_hz` is the actual clock where the driver tells it, `timing` as `ios` prints it (`mmc HS200`). None when
    any of them is unknown or zero: a limit that is half guessed is worse than none.
    """
    if not clock_hz or not width_bits or not timing or clock_hz < 0 or width_bits < 0:
        return None
    edges = 2 if any(name in timing.upper().replace(" ", "") for name in _BOTH_EDGES) else 1
    return clock_hz * width_bits / 8 * edges


def bus_share(bandwidth: float, limit: float | None) -> BusShare | None:
    """The share of `limit` that `bandwidth` is; None without a limit or a measurement."""
    if limit is None or not math.isfinite(bandwidth):
        return None
    share = bandwidth / limit
    if share > 1:
        reason = (
            f"{100 * share:.3g} % of what the bus carries is impossible: "
            "the data came from memory, or `ios` is not of this run"
        )
        return BusShare(bandwidth, limit, share, "above-bus-limit", reason)
    if share < LOW_SHARE:
        reason = (
            f"only {format_percent(share)} % of what the bus carries: look at the clock that is really set"
        )
        return BusShare(bandwidth, limit, share, "below-15-percent-of-bus", reason)
    return BusShare(bandwidth, limit, share, None, None)
