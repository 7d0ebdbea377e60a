"""Noise from A/A runs: figures by hand, and that the measured band holds what noise alone does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from farm.analysis.noise import Calibration, Noise, noise_of


def test_the_spread_is_around_a_linear_trend() -> None:
    """Eight boots a minute apart, +1 % and -1 % in turn: residuals of the logs r = +-0.01 less their trend.

    With x = -7, -5 ... 7 (sum of squares 168) and y = +1, -1 ... (sum x y = -8), the trend takes 64/168 = 0.381 from the
    sum of squares 8, which leaves 7.619 for 8 - 2 = 6 degrees of freedom: sd = 0.01 sqrt(7.619 / 6) = 0.011269.
    """
    values = 1e8 * np.exp(0.01 * np.array([1, -1] * 4))
    found = noise_of(values, 60.0 * np.arange(8), 0.001)
    assert found is not None and (found.df, found.boots) == (6, 8)
    assert found.sd == pytest.approx(0.011269, abs=1e-6)
    drifting = noise_of(values * np.exp(0.3 * np.arange(8)), 60.0 * np.arange(8), 0.001)
    assert drifting is not None and drifting.sd == pytest.approx(found.sd, rel=1e-9)


def test_the_band_by_hand() -> None:
    """chi2 with 10 degrees of freedom has its 5 % quantile at 3.940 (any table): upper = 0.02 sqrt(10 / 3.940) = 0.03186.
    For 6 boots per variant: 1.960 x 0.03186 x sqrt(2/6) = 0.03605 in logs, 3.67 %; for 24 half of it in logs, 1.82 %."""
    noise = Noise(0.02, 10, 12)
    assert noise.upper == pytest.approx(0.03186, abs=1e-5)
    assert noise.band(6) == pytest.approx(math.expm1(0.03605), abs=1e-5)
    assert noise.band(24) == pytest.approx(math.expm1(0.018025), abs=1e-5)


def test_what_gives_no_noise() -> None:
    times = 60.0 * np.arange(8)
    assert noise_of([1e8] * 7, times[:7], 0.001) is None
    assert noise_of([1e8] * 7 + [math.nan], times, 0.001) is None
    assert noise_of([1e8] * 7 + [0.0], times, 0.001) is None
    constant = noise_of([1e8] * 8, times, 0.001)
    assert constant is not None and constant.sd == 0.001, "not below what can be told apart"
    at_once = noise_of([1e8, 1.1e8] * 4, [0.0] * 8, 0.001)
    assert at_once is not None and at_once.df == 7, "no trend without time"


@pytest.mark.parametrize("boots", [4, 6, 12])
def test_noise_alone_leaves_a_measured_band_in_one_comparison_of_twenty(boots: int) -> None:
    """For noise of 2 % that is known here: 19 of 20 calibrations give a band that noise alone, whose means of `boots` boots
    differ with a deviation of 0.02 sqrt(2/boots), leaves in at most 5 % of comparisons."""
    rng = np.random.default_rng(boots)
    times = 60.0 * np.arange(2 * boots)
    needed = math.expm1(1.96 * 0.02 * math.sqrt(2 / boots))
    bands = [noise_of(np.exp(rng.normal(18, 0.02, 2 * boots)), times, 1e-4).band(boots) for _ in range(1500)]
    held = np.mean(np.array(bands) >= needed)
    assert abs(held - 0.95) <= 3 * math.sqrt(0.05 * 0.95 / 1500), (
        "as often as promised, and not much more often"
    )


def test_boots_needed_grow_with_noise_family_and_looks() -> None:
    calm, wild = Noise(0.01, 10, 12), Noise(0.03, 10, 12)
    assert calm.boots_for_change(0.03, 4) < wild.boots_for_change(0.03, 4) < wild.boots_for_change(0.03, 64)
    assert wild.boots_for_change(0.03, 4) < wild.boots_for_change(0.03, 4, looks=4)
    assert wild.boots_for_same(0.03) < wild.boots_for_same(0.03, looks=4)
    assert Noise(2.0, 10, 12).boots_for_change(0.03, 4) is None
    # sd 0.01: 6 boots have t9(.05) + t9(.1) = 1.833 + 1.383 = 3.216 standard errors of 0.01 sqrt(2/6) = 0.00577: 0.01857,
    # below log 1.03 = 0.02956; 4 boots have (2.015 + 1.476) x 0.00707 = 0.02468, below it too
    assert calm.boots_for_same(0.03) == 4
    # sd 0.03: 20 boots have (1.687 + 1.305) x 0.03 sqrt(2/20) = 0.02838, enough; 18 have (1.692 + 1.308) x 0.01 = 0.03, not
    assert wild.boots_for_same(0.03) == 20


def test_the_noisier_direction_counts() -> None:
    one, other = Noise(0.01, 10, 12), Noise(0.02, 10, 12)
    found = Calibration("r", 0.0, "", {("bw_bytes", "read"): one, ("bw_bytes", "write"): other})
    assert found.worst() is other and found.worst("lat_p99_ns") is None
