"""Defined answers for every kind of input, and the verdicts themselves."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from farm.analysis.compare import Verdict, compare, settled

ABBA = list("abbabaababba")  # 6 boots each
TIMES = np.arange(12) * 300.0


def table(effect: float = 0.0, noise: float = 0.005, workloads: int = 1, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    is_b = np.array([v == "b" for v in ABBA])[:, None]
    return 60e6 * np.exp(rng.normal(0, noise, (12, workloads)) + effect * is_b)


def one(values: np.ndarray, **options: object) -> Verdict:
    arguments = {
        "starts": TIMES,
        "variants": ABBA,
        "baseline": "a",
        "workloads": ["w"],
        "draws": 999,
    } | options
    (verdict,) = compare(values, **arguments)  # type: ignore[arg-type]
    return verdict


def test_larger_bandwidth_is_faster_and_smaller_slower() -> None:
    up, down = one(table(0.10)), one(table(-0.10))
    assert (up.verdict, down.verdict) == ("faster", "slower")
    assert up.low < up.ratio < up.high and up.low > 1
    assert up.ratio == pytest.approx(math.exp(0.10), rel=0.01)
    assert up.p == pytest.approx(1 / 1000, abs=0.01)
    assert "outside the band of 3 %" in up.reason


def test_larger_latency_is_slower() -> None:
    assert one(table(0.30), higher_is_better=False).verdict == "slower"
    assert one(table(-0.30), higher_is_better=False).verdict == "faster"


def test_significant_but_inside_the_band_is_no_change() -> None:
    verdict = one(table(0.015, noise=0.001))
    assert verdict.p < 0.05 and verdict.verdict == "same"
    assert one(table(0.015, noise=0.001), band=0.01).verdict == "faster"


def test_noise_is_inconclusive_and_says_what_would_help() -> None:
    verdict = one(table(0.0, noise=0.05, seed=3))
    assert verdict.verdict == "inconclusive"
    assert verdict.more_boots is not None and verdict.more_boots >= 2
    assert f"{verdict.more_boots} more boots per variant" in verdict.reason


def test_same_is_the_ninety_percent_interval_inside_the_band() -> None:
    """The edge, from a general solver: `same` just above the interval's far end, not just below."""
    values = table(0.004, noise=0.01, seed=2)
    is_b = np.array([v == "b" for v in ABBA], dtype=float)
    design = np.column_stack([np.ones(12), TIMES, is_b])
    y = np.log(values[:, 0])
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    left = y - design @ beta
    se = math.sqrt(left @ left / 9 * np.linalg.inv(design.T @ design)[2, 2])
    end = math.exp(abs(beta[2]) + stats.t.ppf(0.95, 9) * se) - 1
    assert one(values, band=end * 1.001).verdict == "same"
    assert one(values, band=end * 0.999).verdict == "inconclusive"


def test_interval_and_p_agree_for_all_workloads() -> None:
    values = table(0.02, noise=0.01, workloads=60, seed=4)
    verdicts = compare(values, TIMES, ABBA, "a", workloads=[str(i) for i in range(60)], draws=999)
    assert {v.p < 0.05 for v in verdicts} == {True, False}
    for verdict in verdicts:
        assert (verdict.p < 0.05) == (verdict.low > 1 or verdict.high < 1)


def test_interval_and_p_agree_where_spreads_differ() -> None:
    rng = np.random.default_rng(6)
    is_b = np.array([v == "b" for v in ABBA])[:, None]
    values = np.exp(rng.normal(0, 1, (12, 60)) * np.where(is_b, 0.04, 0.004) + 0.08 * is_b)
    verdicts = compare(values, TIMES, ABBA, "a", workloads=[str(i) for i in range(60)], draws=999)
    assert all("spread-changed" in v.flags for v in verdicts)
    assert {v.p < 0.05 for v in verdicts} == {True, False}
    for verdict in verdicts:
        assert (verdict.p < 0.05) == (verdict.low > 1 or verdict.high < 1)


def test_spread_beyond_twofold_takes_the_larger_p() -> None:
    """With no trend to speak of, Welch's own p (scipy) is a lower bound of what is reported."""
    rng = np.random.default_rng(9)
    is_b = np.array([v == "b" for v in ABBA])
    noise = rng.normal(0, 1, 12)
    for side in (is_b, ~is_b):
        noise[side] = (noise[side] - noise[side].mean()) / noise[side].std(ddof=1)
    y = noise * np.where(is_b, 0.04, 0.004) + 0.075 * is_b
    verdict = one(np.exp(y)[:, None], starts=np.zeros(12))
    welch = stats.ttest_ind(y[is_b], y[~is_b], equal_var=False).pvalue
    plain = stats.ttest_ind(y[is_b], y[~is_b]).pvalue
    assert welch > 1.5 * plain
    assert "spread-changed" in verdict.flags and "twofold" in verdict.reason
    assert verdict.p >= welch * (1 - 1e-9)
    assert verdict.spread_cand == pytest.approx(0.04) and verdict.spread_base == pytest.approx(0.004)


def test_constant_series_have_no_infinite_t() -> None:
    constant = np.full((12, 1), 5.0)
    same = one(constant)
    assert same.verdict == "same" and same.ratio == pytest.approx(1.0) and same.p == pytest.approx(1.0)
    constant[np.array(ABBA) == "b"] = 6.0
    faster = one(constant)
    assert faster.verdict == "faster" and faster.ratio == pytest.approx(1.2)
    assert faster.spread_base == pytest.approx(0.0, abs=1e-9) and faster.low < 1.2 < faster.high


def test_resolution_of_latency_bins_keeps_one_bin_from_being_a_change() -> None:
    """All boots in one bin against all in the next, 1/64 apart: no proof beyond a band of 1 %."""
    values = np.full((12, 1), 64.0)
    values[np.array(ABBA) == "b"] = 65.0
    assert one(values, band=0.01).verdict == "faster"
    assert one(values, band=0.01, higher_is_better=False).spread_base == pytest.approx(0.0, abs=1e-9)
    assert one(values, band=0.0001, higher_is_better=False).high > one(values, band=0.0001).high


def test_huge_ratio() -> None:
    verdict = one(table(math.log(1e9)))
    assert (
        verdict.verdict == "faster"
        and verdict.ratio == pytest.approx(1e9, rel=0.01)
        and "x 1" in verdict.reason
    )


def test_fewer_than_four_boots_is_always_inconclusive() -> None:
    values = table(1.0)[:6]
    verdict = one(values, starts=TIMES[:6], variants=ABBA[:6])
    assert (verdict.verdict, verdict.n_base, verdict.n_cand, verdict.more_boots) == ("inconclusive", 3, 3, 1)
    assert "at least 4 per variant" in verdict.reason and verdict.more_boots_for == "minimum"
    one_each = one(values[:2], starts=TIMES[:2], variants=ABBA[:2])
    assert (one_each.verdict, one_each.p, one_each.more_boots) == ("inconclusive", None, 3)
    assert one_each.ratio == pytest.approx(math.e, rel=0.05)
    assert one_each.low is None and one_each.high is None


def test_four_boots_are_enough() -> None:
    assert one(table(0.3)[:8], starts=TIMES[:8], variants=ABBA[:8]).verdict == "faster"


def test_unknown_number_of_boots_is_inconclusive_without_p() -> None:
    for verdict in (one(table(1.0), n_known=False), one(table(1.0), starts=np.full(12, np.nan))):
        assert (verdict.verdict, verdict.p, verdict.low, verdict.more_boots) == (
            "inconclusive",
            None,
            None,
            4,
        )
        assert "unknown" in verdict.reason and "at least 4 boots" in verdict.reason
        assert verdict.ratio == pytest.approx(math.e, rel=0.01)


def test_one_variant_only_gives_no_verdicts_and_a_missing_baseline_inconclusive_ones() -> None:
    assert compare(table()[:3], TIMES[:3], ["a"] * 3, "a", workloads=["w"]) == ()
    verdict = one(table()[:3], starts=TIMES[:3], variants=["b"] * 3)
    assert (verdict.verdict, verdict.n_base, verdict.ratio, verdict.p) == ("inconclusive", 0, None, None)
    assert verdict.reason.startswith("Inconclusive: a has no boot with a value")
    absent = one(table()[:3], starts=TIMES[:3], variants=["a"] * 3, candidates=["b"])
    assert (absent.verdict, absent.n_cand, absent.unstable) == ("inconclusive", 0, False)


def test_no_boots_and_no_workloads() -> None:
    assert compare(np.empty((0, 1)), [], [], "a", workloads=["w"]) == ()
    assert compare(np.empty((12, 0)), TIMES, ABBA, "a", workloads=[]) == ()
    assert compare([], [], [], "a", workloads=["w"], candidates=["b"])[0].verdict == "inconclusive"


def test_all_missing_and_zeros_are_no_values() -> None:
    for nothing in (np.nan, 0.0, -1.0, np.inf):
        verdict = one(np.full((12, 1), nothing))
        assert (verdict.verdict, verdict.n_base, verdict.ratio, verdict.unstable) == (
            "inconclusive",
            0,
            None,
            False,
        )
        assert "missing-values" in verdict.flags


def test_missing_cell_leaves_the_other_workloads_alone() -> None:
    values = table(0.1, workloads=3)
    values[0, 1] = np.nan  # a boot of the baseline
    verdicts = compare(values, TIMES, ABBA, "a", workloads=["x", "y", "z"], draws=999)
    assert [(v.n_base, v.n_cand) for v in verdicts] == [(6, 6), (5, 5), (6, 6)]
    assert [v.verdict for v in verdicts] == ["faster"] * 3
    assert verdicts[1].flags == ("excess-dropped", "missing-values")


def test_excess_boots_are_dropped_by_the_seed() -> None:
    values = np.vstack([table(), [[1e6]]])
    times, variants = np.append(TIMES, 3600.0), [*ABBA, "a"]
    ratios = {one(values, starts=times, variants=variants, seed=seed).ratio for seed in range(12)}
    again = {one(values, starts=times, variants=variants, seed=3).ratio for _ in range(2)}
    assert len(ratios) > 3 and len(again) == 1
    verdict = one(values, starts=times, variants=variants)
    assert (verdict.n_base, verdict.n_cand) == (6, 6) and "excess-dropped" in verdict.flags


def test_order_that_hides_the_variant_is_said() -> None:
    """A candidate that was measured at one time of the day and the baseline at one other: the trend is the variant."""
    variants = ["a"] * 6 + ["b"] * 6
    verdict = one(table(0.5), starts=np.repeat([0.0, 86400.0], 6), variants=variants)
    assert verdict.verdict == "inconclusive" and verdict.flags == ("order-confounded",)
    assert "mirrored blocks" in verdict.reason


def test_several_candidates_are_one_family() -> None:
    """The same data twice as many times over cannot have a smaller corrected p."""
    rng = np.random.default_rng(2)
    variants = list("abccba" * 4)
    values = np.exp(rng.normal(0, 0.02, (24, 2)))
    values[np.array(variants) == "c"] *= 1.02
    both = compare(values, np.arange(24.0), variants, "a", workloads=["x", "y"], draws=2000)
    assert [(v.candidate, v.workload) for v in both] == [("b", "x"), ("b", "y"), ("c", "x"), ("c", "y")]
    rows = [i for i, v in enumerate(variants) if v != "b"]
    alone = compare(
        values[rows],
        np.arange(24.0)[rows],
        [variants[i] for i in rows],
        "a",
        workloads=["x", "y"],
        draws=2000,
    )
    for together, by_itself in zip(both[2:], alone, strict=True):
        assert together.ratio == pytest.approx(by_itself.ratio)
        assert together.p > by_itself.p + 0.01


def test_workload_with_too_few_boots_does_not_weigh_on_the_others() -> None:
    values = table(0.05, noise=0.01, workloads=2, seed=7)
    values[2:, 1] = np.nan
    with_torn = compare(values, TIMES, ABBA, "a", workloads=["x", "y"])
    assert with_torn[0].p == one(values[:, :1], draws=10_000).p
    assert with_torn[1].verdict == "inconclusive" and with_torn[1].n_cand == 1


@pytest.mark.parametrize("effect", [0.0, 0.2, -0.2])
def test_events_of_the_candidate_alone_make_it_unstable(effect: float) -> None:
    verdict = one(table(effect), events={"b": ["hang", "hang", "crc-error"], "a": ["crc-error"]})
    assert verdict.unstable and "hang (2 times)" in verdict.reason and "crc-error" not in verdict.reason
    assert verdict.verdict == ("slower" if effect < 0 else "inconclusive")
    assert not one(table(effect), events={"a": ["hang"], "b": []}).unstable


def test_far_more_events_than_the_baseline_are_unstable_too() -> None:
    assert one(table(), events={"a": ["hang"], "b": ["hang"] * 9}).unstable
    assert not one(table(), events={"a": ["hang"] * 2, "b": ["hang"] * 3}).unstable


def test_voided_boots_of_a_stalling_candidate_are_outcomes() -> None:
    values = table(workloads=2)
    stalled = [i for i, v in enumerate(ABBA) if v == "b"][:2]
    values[stalled] = np.nan
    verdicts = compare(values, TIMES, ABBA, "a", workloads=["x", "y"], draws=999)
    assert all(v.unstable and v.verdict == "inconclusive" for v in verdicts)
    assert "4 missing values" in verdicts[0].reason and "withheld-same" in verdicts[0].flags
    values[[i for i, v in enumerate(ABBA) if v == "a"][:2]] = np.nan
    assert not any(v.unstable for v in compare(values, TIMES, ABBA, "a", workloads=["x", "y"], draws=999))


def test_looks_split_the_error_rate() -> None:
    values = table(0.05, noise=0.02, seed=13)
    once, thrice = one(values, draws=10_000), one(values, draws=10_000, looks=3)
    assert once.p == thrice.p
    assert thrice.high - thrice.low > once.high - once.low
    assert 0.05 / 3 < once.p < 0.05, "the example has to lie between the two levels"
    assert (once.verdict, thrice.verdict) == ("faster", "inconclusive")
    assert "several-looks" in thrice.flags
    assert "stopped-early" in one(values, looks=3, stopped_early=True).flags


def test_settled() -> None:
    assert settled([one(table()), one(table(0.1))])
    assert not settled([one(table()), one(table(noise=0.1, seed=3))])
    assert settled([one(table(), events={"b": ["panic"]})])


def test_bands_per_workload() -> None:
    values = table(0.05, workloads=2)
    wide, narrow = compare(values, TIMES, ABBA, "a", workloads=["x", "y"], band=[0.10, 0.01], draws=999)
    assert (wide.verdict, narrow.verdict) == ("same", "faster")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"band": -0.1}, "band"),
        ({"band": math.nan}, "band"),
        ({"draws": 0}, "draws"),
        ({"looks": 0}, "looks"),
        ({"resolution": 0.0}, "resolution"),
        ({"variants": ABBA[:5]}, "do not fit 5 boots"),
        ({"workloads": ["x", "y"]}, "do not fit 12 boots x 2 workloads"),
    ],
)
def test_arguments_that_do_not_fit(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        one(table(), **options)


def test_too_few_draws_never_prove_anything() -> None:
    verdict = one(table(1.0), draws=10)
    assert verdict.verdict == "inconclusive" and verdict.low is None and verdict.high is None


def test_same_seed_same_answer_and_plain_data() -> None:
    values = table(0.03, noise=0.02, workloads=1)
    first = asdict(one(values, seed=5))
    assert first == asdict(one(values, seed=5))
    assert {type(value) for value in first.values()} <= {str, bool, float, int, tuple, type(None)}
