"""Bus limits of the modes that statistics.md and the kernel's debugfs.c name."""

from __future__ import annotations

import math

import pytest

from farm.analysis.limits import bus_limit, bus_share


@pytest.mark.parametrize(
    ("clock", "width", "timing", "limit"),
    [
        (200_000_000, 8, "mmc HS200", 200e6),
        (200_000_000, 8, "mmc HS400", 400e6),
        (198_000_000, 8, "mmc HS400 enhanced strobe", 396e6),
        (52_000_000, 8, "mmc DDR52", 104e6),
        (50_000_000, 4, "sd uhs DDR50", 50e6),
        (50_000_000, 4, "sd high-speed", 25e6),
        (208_000_000, 4, "sd uhs SDR104", 104e6),
        (52_000_000, 8, "mmc high-speed", 52e6),
        (25_000_000, 1, "legacy", 3.125e6),
    ],
)
def test_limit(clock: int, width: int, timing: str, limit: float) -> None:
    assert bus_limit(clock, width, timing) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("clock", "width", "timing"),
    [(None, 8, "mmc HS200"), (0, 8, "mmc HS200"), (1, None, "x"), (1, 8, None), (-1, 8, "x")],
)
def test_unknown_bus_has_no_limit(clock: int | None, width: int | None, timing: str | None) -> None:
    assert bus_limit(clock, width, timing) is None


def test_shares() -> None:
    above, low, usual = (bus_share(rate, 200e6) for rate in (201e6, 29e6, 100e6))
    assert above is not None and above.flag == "above-bus-limit" and "impossible" in above.reason
    assert low is not None and low.flag == "below-15-percent-of-bus" and low.share == pytest.approx(0.145)
    assert usual is not None and usual.flag is None and usual.reason is None
    edges = [bus_share(rate, 200e6) for rate in (200e6, 30e6)]
    assert [one.flag for one in edges if one] == [None, None]
    assert bus_share(1e6, None) is None and bus_share(math.nan, 200e6) is None
