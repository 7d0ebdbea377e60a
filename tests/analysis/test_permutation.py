"""The permutation engine against all permutations, enumerated here with a general least-squares solver."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from farm.analysis.compare import compare
from farm.analysis.permutation import critical_t, p_values

FLOOR = 0.001  # farm.analysis.compare.BANDWIDTH_RESOLUTION, as its docstring promises


def t_by_lstsq(y: list[float], design: np.ndarray) -> float:
    """|t| of the last column of the design."""
    beta, *_ = np.linalg.lstsq(design, np.array(y), rcond=None)
    left = np.array(y) - design @ beta
    deviation = max(math.sqrt(left @ left / (len(y) - design.shape[1])), FLOOR)
    return abs(beta[-1]) / (deviation * math.sqrt(np.linalg.inv(design.T @ design)[-1, -1]))


def enumerated_p(y: np.ndarray, times: np.ndarray, candidate: np.ndarray) -> list[float]:
    """Corrected p of each column of logs by all N! joint orders; NaN cells leave the workload's order to the rest."""
    n, workloads = y.shape
    present = [np.flatnonzero(np.isfinite(y[:, w])) for w in range(workloads)]
    designs = [np.column_stack([np.ones(len(b)), times[b], candidate[b]]) for b in present]
    reduced = []
    for w, b in enumerate(present):
        without = designs[w][:, :2]
        reduced.append(y[b, w] - without @ np.linalg.lstsq(without, y[b, w], rcond=None)[0])
    observed = [t_by_lstsq(list(y[b, w]), designs[w]) for w, b in enumerate(present)]
    counts = [0] * workloads
    for order in itertools.permutations(range(n)):
        largest = 0.0
        for w, b in enumerate(present):
            row = {boot: place for place, boot in enumerate(b)}
            permuted = [float(reduced[w][row[boot]]) for boot in order if boot in row]
            largest = max(largest, t_by_lstsq(permuted, designs[w]))
        for w in range(workloads):
            counts[w] += largest >= observed[w] - 1e-9 * max(1.0, observed[w])
    return [count / math.factorial(n) for count in counts]


def test_two_boots_a_side_by_hand() -> None:
    """Logs 1, 3 against 5, 7, all at one time: estimate 4, and 8 of 24 orders give the same two pairs."""
    values = np.exp([[1.0], [3.0], [5.0], [7.0]])
    (verdict,) = compare(values, np.zeros(4), ["a", "a", "b", "b"], "a", workloads=["w"])
    assert verdict.ratio == pytest.approx(54.598150, rel=1e-6)
    assert verdict.p == pytest.approx(1 / 3)
    assert verdict.spread_base == pytest.approx(math.sqrt(2))
    assert verdict.verdict == "inconclusive"


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_six_boots_two_workloads_equal_the_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(18, 0.02, (6, 2)) + np.linspace(0, 0.1, 6)[:, None]
    candidate = np.array([0, 1, 1, 0, 0, 1])
    y[:, 0] += 0.05 * candidate
    times = np.array([0.0, 61, 119, 180, 250, 299])
    verdicts = compare(np.exp(y), times, ["ab"[c] for c in candidate], "a", workloads=["x", "y"])
    assert not any("spread-changed" in v.flags for v in verdicts), "the example is about permutation alone"
    assert [v.p for v in verdicts] == pytest.approx(enumerated_p(y, times, candidate), abs=1e-12)


def test_missing_cells_permute_the_boots_that_they_have() -> None:
    """Workload y misses two of six boots, one a side; the keys of the six order the four."""
    rng = np.random.default_rng(5)
    y = rng.normal(18, 0.02, (6, 2))
    candidate = np.array([0, 1, 1, 0, 0, 1])
    y[:, 1] += 0.1 * candidate
    y[2, 1] = y[4, 1] = np.nan
    times = np.arange(6) * 60.0
    verdicts = compare(np.exp(y), times, ["ab"[c] for c in candidate], "a", workloads=["x", "y"])
    # Both have fewer than 4 boots a side and so share a family.
    assert [v.p for v in verdicts] == pytest.approx(enumerated_p(y, times, candidate), abs=1e-12)
    assert [(v.n_base, v.n_cand) for v in verdicts] == [(3, 3), (2, 2)]


def test_random_draws_agree_with_all_permutations() -> None:
    """Eight boots are drawn, not enumerated; 10,000 draws are within four standard errors of all 8!."""
    rng = np.random.default_rng(8)
    candidate = np.array([0, 1, 1, 0, 1, 0, 0, 1])
    y = rng.normal(18, 0.02, 8) + 0.02 * candidate
    times = np.arange(8) * 60.0
    (verdict,) = compare(np.exp(y)[:, None], times, ["ab"[c] for c in candidate], "a", workloads=["w"])
    design = np.column_stack([np.ones(8), times, candidate])
    left = y - design[:, :2] @ np.linalg.lstsq(design[:, :2], y, rcond=None)[0]
    variant = candidate - design[:, :2] @ np.linalg.lstsq(design[:, :2], candidate, rcond=None)[0]
    trend = (times - times.mean()) / np.linalg.norm(times - times.mean())
    # |t| grows with the share of the permuted residual along the variant, of what the trend leaves.
    orders = left[np.array(list(itertools.permutations(range(8))))]
    share = np.abs(orders @ variant) / np.sqrt(left @ left - (orders @ trend) ** 2)
    exact = np.mean(share >= share[0] * (1 - 1e-9))
    assert 0.01 < exact < 0.99
    assert abs(verdict.p - exact) < 4 * math.sqrt(exact * (1 - exact) / 10_000)


def test_p_and_critical_value_by_hand() -> None:
    """19 draws: p = (1 + count) / 20, so p < 0.1 needs at most no maximum at or above |t|."""
    maxima = np.arange(1.0, 20.0)
    assert p_values(np.array([20.0, 19.0, 19.0 + 1e-9, 1.0]), maxima, False) == pytest.approx(
        [0.05, 0.1, 0.1, 1.0]
    )
    assert critical_t(maxima, False, 0.1) == pytest.approx(19.0)
    assert critical_t(maxima, False, 0.15) == pytest.approx(18.0)
    assert critical_t(maxima, False, 0.05) == math.inf
    # All permutations: the identity is among them, so p is count / N!.
    assert p_values(np.array([19.0, 18.0]), maxima, True) == pytest.approx([1 / 19, 2 / 19])
    assert critical_t(maxima, True, 2.5 / 19) == pytest.approx(17.0)
