"""Spread, drift, outliers, and boards that changed between boots."""

from __future__ import annotations

import numpy as np
import pytest

from farm.analysis.flags import fact_flags, value_flags

ORDER = list("abbabaababba")
TIMES = np.arange(12) * 300.0


def codes(values: np.ndarray) -> list[tuple[str, str | None]]:
    return [(one.code, one.variant) for one in value_flags(values[:, None], TIMES, ORDER, ["w"])]


def steady(noise: float = 0.002) -> np.ndarray:
    return 60e6 * np.exp(np.random.default_rng(1).normal(0, noise, 12))


def test_steady_boots_and_a_real_difference_of_variants_have_no_flags() -> None:
    assert codes(steady()) == []
    assert codes(steady() * np.where(np.array(ORDER) == "b", 2.0, 1.0)) == []
    assert codes(np.full(12, 5.0)) == []


def test_spread_above_ten_percent_by_hand() -> None:
    """90, 110, 90, 110: mean 100, standard deviation 11.547; 91 and 109 give 10.39; 92 and 108 9.24."""
    variants, times = ["a"] * 4, [0.0, 0, 0, 0]
    for low, flagged in ((90, True), (91, True), (92, False)):
        values = [[low], [200 - low], [low], [200 - low]]
        assert bool(value_flags(values, times, variants, ["w"])) is flagged
    (flag,) = value_flags([[90], [110], [90], [110]], times, variants, ["w"])
    assert flag.code == "spread" and "11.5 %" in flag.message and flag.variant == "a"


def test_drift_is_seen_beside_a_variant_and_small_or_random_ones_are_not() -> None:
    over_time = np.linspace(0, 1, 12)
    drifting = value_flags((steady() * np.exp(0.1 * over_time))[:, None], TIMES, ORDER, ["w"])
    assert [one.code for one in drifting] == ["drift"] and "+10" in drifting[0].message
    assert codes(steady() * np.exp(0.01 * over_time)) == []
    assert codes(steady(0.05)) == []  # though one of its boots lies 15 % off
    assert codes(60e6 * np.exp(-0.5 * over_time))[-1] == ("drift", None)


def test_outlier_names_its_boot() -> None:
    values = steady()
    values[4] *= 0.8
    found = value_flags(values[:, None], TIMES, ORDER, ["w"])
    assert [(one.code, one.boot, one.variant) for one in found] == [("outlier", 4, ORDER[4])]
    assert "-20" in found[0].message or "-19.9" in found[0].message


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_few_boots_and_missing_values(rows: int) -> None:
    assert value_flags(np.full((rows, 2), np.nan), TIMES[:rows], ORDER[:rows], ["v", "w"]) == ()
    assert value_flags(np.ones((rows, 1)), TIMES[:rows], ORDER[:rows], ["w"]) == ()


def test_facts_that_moved() -> None:
    facts: list[dict[str, object]] = [
        {"temperature_c": 41.0, "cpu_khz": 1_800_000, "fio_version": "fio-3.33", "ios.timing": "mmc HS200",
         "ios.width_bits": 8, "ios.clock_hz": 200_000_000},
        {"temperature_c": 52.5, "cpu_khz": 1_200_000, "fio_version": "fio-3.39", "ios.timing": "mmc HS200",
         "ios.width_bits": 8, "ios.clock_hz": 200_000_000, "ios.actual_clock_hz": 187_500_000},
        {},
    ]  # fmt: skip
    found = {one.code: one.message for one in fact_flags(facts, ["a", "b", "b"])}
    assert found == {
        "temperature": "the temperature moved from 41 to 52 degrees C",
        "frequency": "the CPU's frequency moved from 1200 to 1800 MHz",
        "fio-version": "different fio versions: fio-3.33 (a), fio-3.39 (b)",
        "mode": "the bus was not the same in all boots: mmc HS200 8 bit 200 MHz (a), mmc HS200 8 bit 187.5 MHz (b)",
    }
    assert fact_flags([facts[0], facts[0], {}], ["a", "b", "a"]) == ()
    assert fact_flags([], []) == ()
