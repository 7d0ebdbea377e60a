"""Properties that hold for every table of boots: symmetry, scale, trend, and candidates that stall."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.analysis.compare import Verdict, compare
from farm.schedule import schedule

OPPOSITE = {"faster": "slower", "slower": "faster", "same": "same", "inconclusive": "inconclusive"}
DRAWS = 199


class Boots:
    """A table of 4 to 7 boots a side, equal or not, from noise that hypothesis names by its seed."""

    def __init__(
        self, seed: int, boots: int, workloads: int, excess: int, effect: float, noise: float, wider: float
    ):
        rng = np.random.default_rng(seed)
        order = [boot.variant for boot in schedule(("a", "b"), boots, seed)]
        self.variants = order + ["a"] * excess
        n = len(self.variants)
        is_b = np.array([v == "b" for v in self.variants])[:, None]
        spread = np.where(is_b, noise * wider, noise)
        self.values = np.exp(
            rng.normal(17, 1, workloads) + rng.normal(0, 1, (n, workloads)) * spread + effect * is_b
        )
        self.times = np.cumsum(rng.uniform(60, 600, n))
        self.seed = seed

    def verdicts(
        self, values: np.ndarray | None = None, baseline: str = "a", **options: object
    ) -> tuple[Verdict, ...]:
        table = self.values if values is None else values
        names = [f"w{i}" for i in range(table.shape[1])]
        other = "b" if baseline == "a" else "a"
        return compare(
            table, self.times, self.variants, baseline, workloads=names, candidates=[other], draws=DRAWS,
            seed=self.seed, **options,
        )  # type: ignore[arg-type]  # fmt: skip


boots = st.builds(
    Boots,
    seed=st.integers(0, 2**32 - 1),
    boots=st.sampled_from([4, 6]),
    workloads=st.integers(1, 6),
    excess=st.integers(0, 2),
    effect=st.sampled_from([0.0, 0.02, -0.05, 0.1, -0.4]),
    noise=st.sampled_from([0.0, 0.002, 0.01, 0.03]),
    wider=st.sampled_from([1.0, 4.0]),
)


def same_figures(one: Verdict, other: Verdict) -> None:
    assert one.verdict == other.verdict
    assert math.isclose(one.p, other.p, rel_tol=1e-9)
    assert math.isclose(one.ratio, other.ratio, rel_tol=1e-9)
    assert math.isclose(one.low, other.low, rel_tol=1e-7) and math.isclose(one.high, other.high, rel_tol=1e-7)
    assert one.more_boots == other.more_boots and one.flags == other.flags


@given(boots, st.booleans())
@settings(max_examples=60, deadline=None)
def test_swapping_baseline_and_candidate_inverts_the_ratio_and_swaps_the_verdict(
    table: Boots, higher: bool
) -> None:
    there = table.verdicts(higher_is_better=higher)
    back = table.verdicts(baseline="b", higher_is_better=higher)
    for one, other in zip(there, back, strict=True):
        assert other.verdict == OPPOSITE[one.verdict]
        assert math.isclose(other.ratio, 1 / one.ratio, rel_tol=1e-9)
        assert math.isclose(other.low, 1 / one.high, rel_tol=1e-7)
        assert math.isclose(other.p, one.p, rel_tol=1e-9)
        assert (other.n_base, other.n_cand) == (one.n_cand, one.n_base)
        assert math.isclose(other.spread_base, one.spread_cand, rel_tol=1e-6, abs_tol=1e-9)


@given(boots, st.floats(1e-6, 1e6))
@settings(max_examples=60, deadline=None)
def test_scaling_all_values_changes_nothing(table: Boots, scale: float) -> None:
    for one, other in zip(table.verdicts(), table.verdicts(table.values * scale), strict=True):
        same_figures(one, other)


@given(boots, st.floats(-3, 3))
@settings(max_examples=60, deadline=None)
def test_a_trend_linear_in_the_logs_over_time_changes_no_verdict(table: Boots, total: float) -> None:
    share = (table.times - table.times[0]) / np.ptp(table.times)
    for one, other in zip(
        table.verdicts(), table.verdicts(table.values * np.exp(total * share)[:, None]), strict=True
    ):
        same_figures(one, other)


@given(boots, st.integers(1, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_stalling_candidate_whose_boots_are_voided_is_unstable(
    table: Boots, stalls: int, rows_kept: bool
) -> None:
    """Whether the voided boots still have rows (of NaN) or only events: never `same`, never `faster`."""
    stalled = [i for i, v in enumerate(table.variants) if v == "b"][:stalls]
    if rows_kept:
        values = table.values.copy()
        values[stalled] = np.nan
        verdicts = table.verdicts(values)
    else:
        keep = [i for i in range(len(table.variants)) if i not in stalled]
        table.values, table.times = table.values[keep], table.times[keep]
        table.variants = [table.variants[i] for i in keep]
        verdicts = table.verdicts(events={"b": ["hang"] * stalls})
    assert all(one.unstable for one in verdicts)
    assert {one.verdict for one in verdicts} <= {"slower", "inconclusive"}


@given(boots)
@settings(max_examples=40, deadline=None)
def test_interval_and_corrected_p_never_contradict_each_other(table: Boots) -> None:
    for one in table.verdicts():
        assert (one.p < 0.05) == (one.low > 1 or one.high < 1)
        assert one.low <= one.ratio <= one.high


@given(
    st.lists(
        st.lists(
            st.sampled_from([math.nan, 0.0, -5.0, math.inf, 1e-300, 1.0, 1.0, 1.01, 1e300]),
            min_size=3,
            max_size=3,
        ),
        min_size=0,
        max_size=12,
    ),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_every_table_has_an_answer(rows: list[list[float]], data: st.DataObject) -> None:
    n = len(rows)
    variants = data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    times = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 1.8e9]), min_size=n, max_size=n))
    verdicts = compare(
        np.array(rows).reshape(n, 3), times, variants, "a", workloads=["x", "y", "z"], draws=49
    )
    assert len(verdicts) == 3 * len(set(variants) - {"a"})
    for one in verdicts:
        assert one.reason and one.verdict in OPPOSITE
        assert one.p is None or 0 < one.p <= 1
        for figure in (one.ratio, one.low, one.high, one.spread_base, one.spread_cand):
            assert figure is None or not math.isnan(figure)
        if min(one.n_base, one.n_cand) < 4:
            assert one.verdict == "inconclusive"
