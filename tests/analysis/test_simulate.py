"""The simulation in small: error rates of the rule itself, and that the simulation can fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from farm.analysis.power import boots_for_change, boots_for_same
from farm.analysis.simulate import (
    OURS,
    Drift,
    Outcome,
    Setting,
    campaign,
    complaints,
    main,
    null_p,
    order,
    outside_measured,
    simulate,
    stopped,
    verdicts,
)

REPETITIONS = 200


@pytest.mark.parametrize(
    "setting",
    [Setting(drift="linear", effect=0, real=0), Setting(noise="t3", boots=5, effect=0, real=0)],
    ids=["normal noise, linear drift, n=6", "t3 noise, n=5"],
)
def test_under_no_effect_p_is_no_smaller_than_it_says(setting: Setting) -> None:
    smallest = null_p(setting, REPETITIONS, draws=199, seed=1)
    for a in (0.01, 0.05, 0.1):
        assert np.mean(smallest <= a) <= a + 3 * math.sqrt(a * (1 - a) / REPETITIONS)
    assert np.mean(smallest <= 0.5) > 0.3, "nor so large that it could not find anything"


def test_real_effects_are_found_and_false_alarms_rare() -> None:
    outcomes = simulate(Setting(), 100, draws=300, seed=2)
    assert outcomes[OURS].false_alarms <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)
    assert 0.5 < outcomes[OURS].found < 0.8  # the page says 0.64
    assert outcomes["means differ by more than 3 %"].found > 0.9


def test_under_drift_only_this_test_still_finds_effects() -> None:
    outcomes = simulate(Setting(drift="linear"), 60, draws=300, seed=3)
    assert outcomes["Welch t + Holm"].found < 0.2 and outcomes["Mann-Whitney + Holm"].found < 0.2
    assert outcomes[OURS].found > 0.5


def test_unequal_spread_raises_no_alarms() -> None:
    outcome = simulate(Setting(spread="1 % / 4 %", boots=5), 100, draws=200, seed=4)[OURS]
    assert outcome.false_alarms <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)


def test_same_at_the_edge_of_the_band_is_said_in_one_case_of_twenty() -> None:
    """A real change of exactly the band on every workload; noise of 0.5 % lets 6 boots say `same` at zero."""
    said = []
    for i in range(100):
        y, is_cand = campaign(Setting(effect=0, real=0), (5, i))
        # 2 % of noise made 0.5 %, and the effect on top
        words = [
            one.verdict
            for one in verdicts(y / 4 + math.log(1.03) * is_cand[:, None], is_cand, draws=20, seed=i)
        ]
        said.append(np.mean([word == "same" for word in words]))
    assert np.mean(said) <= 0.05 + 3 * np.std(said) / 10
    assert np.mean(said) > 0.01, "the two one-sided tests are exact at the edge, not far below it"


@pytest.mark.parametrize("drift", ["none", "linear"])
def test_looks_raise_no_more_alarms_than_one_look(drift: Drift) -> None:
    changed, same = stopped(Setting(drift=drift, boots=12, effect=0, real=0), 100, draws=199, seed=7)
    assert changed.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)
    assert same.mean() > 0.5, "and they end somewhere"


def test_noise_alone_stays_in_a_measured_band() -> None:
    for noise in ("normal", "t3"):
        outside, enough = outside_measured(Setting(noise, boots=6, effect=0, real=0), 150, seed=8)
        assert outside.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)
        assert outside.mean() > 0 and (noise == "t3" or abs(enough.mean() - 0.95) < 0.03)


def test_boots_needed_are_enough_for_eighty_percent() -> None:
    """Noise of 2 %, 16 workloads: the number for a change of 6 %, tried out."""
    se = 0.02 * math.sqrt(2 / 6)
    needed = boots_for_change(se, 6, 4.2, 9, 0.03)
    assert needed is not None and 4 < needed < 10
    found = simulate(Setting(boots=needed, effect=math.log(1.06), real=1), 120, draws=300, seed=6)[OURS].found
    assert found > 0.8 - 3 * math.sqrt(0.8 * 0.2 / 120)
    assert boots_for_change(se / 2, 6, 4.2, 9, 0.03) < needed


def test_boots_for_same_by_hand() -> None:
    """se 0.01 with 4 boots, band 3 % = 0.02956 in logs: 8 boots have t13(.05) + t13(.1) = 1.771 + 1.350 = 3.121
    standard errors of 0.00707, 0.0221: enough. 6 boots: (1.833 + 1.383) x 0.00816 = 0.0263, enough too.
    4 boots: (2.015 + 1.476) x 0.01 = 0.0349: not enough."""
    assert boots_for_same(0.01, 4, 0.03) == 6
    assert boots_for_same(0.01, 4, 0.0) is None
    assert boots_for_same(10.0, 4, 0.03) is None


def test_order_is_mirrored_blocks_and_half_a_block() -> None:
    for boots in (5, 6, 8):
        is_cand = order(boots, 7)
        assert len(is_cand) == 2 * boots and is_cand.sum() == boots
        for first in range(0, len(is_cand) - 3, 4):
            block = list(is_cand[first : first + 4])
            assert block == block[::-1]


def test_a_missed_limit_is_said() -> None:
    plain = Setting()
    assert complaints(plain, Outcome(0.03, 0.64, 0.28, 2000)) == []
    assert "false alarms 0.066, at most 0.065" in complaints(plain, Outcome(0.066, 0.64, 0.28, 2000))[0]
    assert "found 0.500" in complaints(plain, Outcome(0.03, 0.5, 0.28, 2000))[0]
    assert complaints(Setting(drift="step"), Outcome(0.03, 0.1, 0.28, 2000)) == []


def test_quick_run_prints_every_rule_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "every limit is met" in printed and "MISSED" not in printed
    for drift in ("none", "linear"):
        assert f"normal noise 1 % / 4 %, drift {drift}, n=6" in printed
    assert "false alarm" in printed and "edge of the band" in printed
