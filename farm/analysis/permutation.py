"""Freedman-Lane permutation of whole boots, with the maximum |t| over a family of fits (Westfall-Young).

D. Freedman and D. Lane, "A nonstochastic interpretation of reported significance levels" (1983): permute the
residuals of the model without the tested term, refit the whole model. P. Westfall and S. Young,
"Resampling-Based Multiple Testing" (1993): the maximum over the family under one joint permutation corrects
for the family's size and uses the correlation of its members.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

EXACT_BOOTS = 7
"""Up to so many boots all N! orders are taken (5040) instead of random draws."""
TIE = 1e-9
"""A permuted |t| this close to the observed one is the same one, computed in another order of additions."""
_CHUNK = 1_000_000  # keys held at once (8 MB an array), so that 1,000 boots need no gigabyte
_FEW = 4  # with fewer series in the same boots, permuting residuals is cheaper than permuting weights
_COLLINEAR = 1e-6  # least share of the variant's variation that the trend may leave


@dataclass(frozen=True)
class Fit:
    """`y = mean + linear trend + variant` by least squares, for k workloads that were measured in the same m boots."""

    boots: Ints  # (m,) rows of the family's table
    residuals: Floats  # (m, k) of the model without the variant
    squares: Floats  # (k,) sums of the squared residuals
    variant: Floats  # (m,) indicator of the candidate, freed of mean and trend
    trend: Floats | None  # (m,) centred start times of length 1; None when no trend is fitted
    df: int  # degrees of freedom that are left
    floor: Floats  # (k,) least residual standard deviation, in logs
    estimate: Floats  # (k,) candidate - baseline, in logs
    se: Floats  # (k,) standard error of the estimate
    sides: Floats  # (k, 2) sums of the squared residuals of baseline and candidate around the whole model

    @property
    def t(self) -> Floats:
        """|t| of the variant, (k,)."""
        return np.abs(self.estimate) / self.se


def fit(
    y: Floats, starts: Floats | None, candidate: NDArray[np.bool_], boots: Ints, floor: Floats
) -> Fit | None:
    """The fit of the m x k logs `y`; `starts` are seconds (m,), None for no trend; `candidate` (m,) marks its boots.

    None when there are too few boots for a residual, or when order and variant cannot be told apart.
    """
    m = len(y)
    trend = _direction(starts) if starts is not None else None
    df = m - 2 - (trend is not None)
    variant = candidate - candidate.mean()
    plain = float(variant @ variant)
    if trend is not None:
        variant = variant - trend * (trend @ variant)
    information = float(variant @ variant)
    if df < 1 or plain == 0 or information < _COLLINEAR * plain:
        return None
    residuals = y - y.mean(axis=0)
    if trend is not None:
        residuals = residuals - np.outer(trend, trend @ residuals)
    squares = np.einsum("ik,ik->k", residuals, residuals)
    along = variant @ residuals
    estimate = along / information
    deviation = np.sqrt(np.maximum((squares - along * estimate) / df, floor**2))
    left = (residuals - np.outer(variant, estimate)) ** 2
    sides = np.stack([left[~candidate].sum(axis=0), left[candidate].sum(axis=0)], axis=1)
    se = deviation / math.sqrt(information)
    return Fit(boots, residuals, squares, variant, trend, df, floor, estimate, se, sides)


def max_abs_t(fits: Sequence[Fit], boots: int, draws: int, seed: int) -> tuple[Floats, bool]:
    """The maximum |t| over all workloads of all fits for each joint permutation of the boots, ascending.

    Every boot gets one key per draw and each fit orders the boots that it has by those keys, so that workloads
    with missing boots take part. Returns the maxima and whether they are all boots! permutations (identity
    among them) rather than `draws` seeded ones.
    """
    exact = boots <= EXACT_BOOTS
    maxima = [
        _maxima(fits, order)
        for order in (_all_orders(boots) if exact else _random_orders(boots, draws, seed))
    ]
    return np.sort(np.concatenate(maxima)), exact


def p_values(t: Floats, maxima: Floats, exact: bool) -> Floats:
    """Corrected p of each |t|: (1 + count) / (1 + draws), or count / N! where all permutations were taken."""
    counts = len(maxima) - np.searchsorted(maxima, t - TIE * np.maximum(1.0, t), side="left")
    return np.asarray(counts / len(maxima) if exact else (1 + counts) / (1 + len(maxima)), dtype=np.float64)


def critical_t(maxima: Floats, exact: bool, alpha: float) -> float:
    """The least |t| whose corrected p is below `alpha`, up to rounding: |t| > critical_t and p < alpha are one thing.

    Infinite when there are too few permutations for any p below `alpha`.
    """
    total = len(maxima) if exact else len(maxima) + 1
    allowed = math.ceil(round(alpha * total, 6)) - 1 - (not exact)  # most maxima that may reach t
    if allowed < 0 or (exact and allowed < 1):
        return math.inf
    at = float(maxima[-1 - allowed]) if allowed < len(maxima) else 0.0
    return at + TIE * max(1.0, at)


def _direction(starts: Floats) -> Floats | None:
    centred = starts - starts.mean()
    length = float(np.sqrt(centred @ centred))
    return centred / length if length > 0 else None


def _all_orders(boots: int) -> Iterator[Ints]:
    yield np.array(list(itertools.permutations(range(boots))), dtype=np.intp).reshape(-1, boots)


def _random_orders(boots: int, draws: int, seed: int) -> Iterator[Ints]:
    generator = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // boots)
    for first in range(0, draws, chunk):
        yield np.argsort(generator.random((min(chunk, draws - first), boots)), axis=1)


def _maxima(fits: Sequence[Fit], order: Ints) -> Floats:
    """Maximum |t| per row of `order`, (draws,)."""
    largest = np.zeros(len(order))
    for one in fits:
        mine = _restrict(order, one.boots)
        weights = np.stack([one.variant] if one.trend is None else [one.variant, one.trend])
        along, *drifting = _products(one.residuals, weights, mine)
        information = float(one.variant @ one.variant)
        rss = one.squares - along**2 / information
        for of_trend in drifting:
            rss -= of_trend**2
        deviation = np.sqrt(np.maximum(rss / one.df, one.floor**2))
        t = np.abs(along) / (deviation * math.sqrt(information))
        np.maximum(largest, t.max(axis=1), out=largest)
    return largest


def _restrict(order: Ints, boots: Ints) -> Ints:
    """Each row of `order` without the boots that are not in `boots`, as positions in `boots`."""
    if len(boots) == order.shape[1]:
        return order
    position = np.full(order.shape[1], -1, dtype=np.intp)
    position[boots] = np.arange(len(boots))
    placed = position[order]
    return placed[placed >= 0].reshape(len(order), len(boots))


def _products(residuals: Floats, weights: Floats, order: Ints) -> list[Floats]:
    """Each of `weights` (w, m) times the residuals e* (m, k) of each row of `order`, e*[i] = e[order[i]]: w x (draws, k)."""
    if residuals.shape[1] < _FEW:  # einsum: threads of BLAS cost more than so narrow a product
        permuted = (np.take(one, order) for one in residuals.T)
        return list(np.stack([np.einsum("dm,wm->wd", one, weights) for one in permuted], axis=2))
    # weights @ e* is a row that holds weights[i] at order[i], times e: one product of matrices for all draws and series.
    return [_scatter(one, order) @ residuals for one in weights]


def _scatter(weights: Floats, order: Ints) -> Floats:
    rows = np.empty(order.shape)
    np.put_along_axis(rows, order, np.broadcast_to(weights, order.shape), axis=1)
    return rows
