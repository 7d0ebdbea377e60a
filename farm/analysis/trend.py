"""Change points in nightly series: since which night is it slower, by how much, and can that be chance?

A series is cut by ruptures' KernelCPD, generously. Then the weakest cut is removed again and again, until each
that is left passes, judged on the two segments beside it:

- a permutation test on normal scores: how striking is the shift at the cut, next to the most striking cut of the
  shuffled nights? Cuts of different place are compared by their own p. The most striking one pays for having
  searched; and with scores in place of values all of this depends on the lengths alone, and is drawn once for all;
- a size, by Hodges and Lehmann (the median of all pairwise differences), beyond the band.

Last, the steps must describe the series no worse than a straight line does: a drift is not a step, and is reported
as a drift. No segment is shorter than three nights, and nights that stand alone (one, or two in a row) are put onto
the level around them before anything else, so a spike is never a change, however high it is.

Three nights after a short history cannot be told from chance by any permutation: it takes about 20 nights in all.
`tests/bench/trend_otava.py` compares with Apache Otava.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import ruptures
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import norm, rankdata

Floats = npt.NDArray[np.float64]

MIN_NIGHTS = 3  # on each side of a change
DRAWS = 5_000
_KEPT = DRAWS // 2  # of 2 x DRAWS shifts: p above 25 % is of no interest
ALPHA = 0.01  # the chance of a false change in a series without any
BAND = 0.01  # the smallest change that is reported: 1 %
RESOLUTION = 1e-4  # of a measurement, in logs: below it nothing counts as noise
SPIKE_SIGMAS = 4.0
PENALTY = 12.0  # noise variances a cut; raised until false steps fell and true ones did not (tests/bench)


@dataclass(frozen=True)
class Night:
    """One value of a series: the run it comes from, its start (UTC epoch seconds), the value in the metric's unit.

    `kernel` is the release that its banner names, `commit` what the campaign says it was built from.
    """

    run: str
    time: float
    value: float
    kernel: str = ""
    commit: str = ""


@dataclass(frozen=True)
class Key:
    """What a series follows; only nights of the same key are compared. `direction` is the data's: read, write, trim."""

    campaign: str
    branch: str
    board: str
    card: str
    variant: str
    workload: str
    direction: str
    metric: str

    @property
    def higher_is_better(self) -> bool:
        """True for rates, false for times."""
        return not (self.metric.endswith("_ns") or self.metric == "seconds")


@dataclass(frozen=True)
class Series:
    """The nights of one key, oldest first, at most one value a night."""

    key: Key
    nights: tuple[Night, ...]


@dataclass(frozen=True)
class Change:
    """One accepted change point: it lies between the nights `before` and `after`.

    `ratio` is the level after / the level before with its 95 % interval, `p` the permutation test's, `value_before`
    and `value_after` medians in the metric's unit.
    """

    key: Key
    verdict: Literal["faster", "slower"]
    before: Night
    after: Night
    ratio: float
    low: float
    high: float
    p: float
    n_before: int
    n_after: int
    value_before: float
    value_after: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Drift:
    """A creep without a step, from the first night to the last: `ratio` last / first of a straight line in logs."""

    key: Key
    verdict: Literal["faster", "slower"]
    first: Night
    last: Night
    ratio: float
    p: float
    nights: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Trend:
    """What was found in one series; `drift` only where there is no change."""

    series: Series
    changes: tuple[Change, ...]
    drift: Drift | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, without the nights themselves."""
        return {
            "key": asdict(self.series.key),
            "nights": len(self.series.nights),
            "changes": [change.to_dict() for change in self.changes],
            "drift": self.drift.to_dict() if self.drift else None,
        }


@dataclass(frozen=True)
class Step:
    """A change in a plain array: values[index:] differ from the segment before; `shift` and its interval in logs."""

    index: int
    start: int
    stop: int
    shift: float
    low: float
    high: float
    p: float


def trends(series: Iterable[Series]) -> tuple[Trend, ...]:
    """Change points and drifts of every series, in the given order."""
    return tuple(_trend(one) for one in series)


def _trend(series: Series) -> Trend:
    values = np.array([night.value for night in series.nights], dtype=np.float64)
    steps = find_steps(values)
    nights = series.nights
    changes = tuple(
        Change(
            key=series.key,
            verdict=_verdict(step.shift, series.key),
            before=nights[step.index - 1],
            after=nights[step.index],
            ratio=math.exp(step.shift),
            low=math.exp(step.low),
            high=math.exp(step.high),
            p=step.p,
            n_before=step.index - step.start,
            n_after=step.stop - step.index,
            value_before=float(np.median(values[step.start : step.index])),
            value_after=float(np.median(values[step.index : step.stop])),
        )
        for step in steps
    )
    drift = None
    if not changes and (found := find_drift(values)) is not None:
        shift, p = found
        drift = Drift(
            series.key, _verdict(shift, series.key), nights[0], nights[-1], math.exp(shift), p, len(nights)
        )
    return Trend(series, changes, drift)


def _verdict(shift: float, key: Key) -> Literal["faster", "slower"]:
    return "faster" if (shift > 0) == key.higher_is_better else "slower"


def find_steps(
    values: Sequence[float] | Floats, *, alpha: float = ALPHA, band: float = BAND
) -> tuple[Step, ...]:
    """Accepted steps of one series of positive values, in order of time.

    Raises ValueError for values that are not positive and finite.
    """
    y = _logs(values)
    if len(y) < 2 * MIN_NIGHTS:
        return ()
    noise = _noise(y)
    calm = _without_spikes(y, noise)
    cuts = [0, *_cuts(calm, noise), len(y)]
    while len(cuts) > 2:
        around = list(zip(cuts, cuts[1:], cuts[2:], strict=False))
        p = [_p_of_step(calm, *three) for three in around]
        if max(p) > alpha:
            del cuts[1 + int(np.argmax(p))]
            continue
        steps = tuple(_step(calm, *three, one) for three, one in zip(around, p, strict=True))
        sizes = [abs(step.shift) for step in steps]
        if min(sizes) <= math.log1p(band):
            del cuts[1 + int(np.argmin(sizes))]
            continue
        return () if _is_line(calm, cuts) else steps
    return ()


def find_drift(values: Sequence[float] | Floats) -> tuple[float, float] | None:
    """Total shift in logs, first night to last, and p of a monotonous drift; None where there is none.

    The test permutes nights under the correlation of normal scores with time. Raises as find_steps does.
    """
    y = _logs(values)
    if len(y) < 2 * MIN_NIGHTS:
        return None
    scores, when = _scores(y), _centred_nights(len(y))
    if not np.ptp(scores):
        return None
    slope = float(when @ y / (when @ when))
    shift = slope * (len(y) - 1)
    if abs(shift) <= math.log1p(BAND):
        return None
    p = _p(
        _null_correlations(len(y)), abs(float(scores @ when)) / math.sqrt((scores @ scores) * (when @ when))
    )
    return (shift, p) if p <= ALPHA else None


def _logs(values: Sequence[float] | Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or not np.all(array > 0):
        raise ValueError("a series has one dimension and positive, finite values")
    return np.log(array)


def _noise(y: Floats) -> float:
    """Standard deviation from night to night, by differences of neighbours, which a step or a drift hardly touches."""
    return max(RESOLUTION, float(np.median(np.abs(np.diff(y)))) * 1.4826 / math.sqrt(2))


def _without_spikes(y: Floats, noise: float) -> Floats:
    """The series with each night that is far from the median of the five around it put onto the level there (Hampel).

    Three nights in a row are a majority of five and stay; the first and last nights are judged in the first and
    last five. The level is the median of the nearest five nights that are no spikes: two spikes among the last five would
    make the largest of the other three their median.
    """
    middle = np.pad(np.sort(sliding_window_view(y, 5), axis=1)[:, 2], 2, mode="edge")
    spikes = np.abs(y - middle) > SPIKE_SIGMAS * noise
    if spikes.all():
        return y
    calm, rest = y.copy(), np.flatnonzero(~spikes)
    for night in np.flatnonzero(spikes):
        calm[night] = np.median(y[rest[np.argsort(np.abs(rest - night), kind="stable")[:5]]])
    return calm


def _cuts(y: Floats, noise: float) -> list[int]:
    """Generous cuts: least squares segments of at least MIN_NIGHTS nights, each paying PENALTY noise variances."""
    kernel = ruptures.KernelCPD(kernel="linear", min_size=MIN_NIGHTS).fit(((y - y.mean()) / noise)[:, None])
    return [int(cut) for cut in kernel.predict(pen=PENALTY)[:-1]]


def _p_of_step(y: Floats, start: int, index: int, stop: int) -> float:
    scores = _scores(y[start:stop])
    if not np.ptp(scores):
        return 1.0
    null, at = _null_shifts(stop - start), index - start - MIN_NIGHTS
    here = _tail(null.tails[min(at, stop - index - MIN_NIGHTS)], _shifts(scores[None, :])[:, at])
    return float((1 + np.searchsorted(null.smallest, here[0] + 1e-9)) / (1 + DRAWS))


def _step(y: Floats, start: int, index: int, stop: int, p: float) -> Step:
    """Hodges-Lehmann shift and its 95 % interval, from the order statistics of all pairwise differences.

    The interval is Mann and Whitney's with the normal approximation; where there are too few pairs for 95 %, it is
    the whole range of differences.
    """
    pairs = np.sort((y[index:stop, None] - y[None, start:index]).ravel())
    n, m = index - start, stop - index
    skip = max(0, math.floor(n * m / 2 - 1.96 * math.sqrt(n * m * (n + m + 1) / 12)))
    return Step(index, start, stop, float(np.median(pairs)), float(pairs[skip]), float(pairs[-1 - skip]), p)


def _scores(values: Floats) -> Floats:
    """Normal scores (van der Waerden) of the ranks, ties averaged."""
    n = len(values)
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    return np.asarray(
        _score_table(n)[(2 * ranks).astype(np.intp)]
    )  # averaged ranks are multiples of one half


@cache
def _score_table(n: int) -> Floats:
    halves = np.arange(2 * n + 1) / 2
    return np.asarray(norm.ppf(halves / (n + 1)), dtype=np.float64)


def _shifts(scores: Floats) -> Floats:
    """|sum of the scores left of a cut| over its standard deviation under permutation: rows x allowed cuts."""
    n = scores.shape[1]
    centred = scores - scores.mean(axis=1, keepdims=True)
    variance = (centred**2).sum(axis=1, keepdims=True) / (n - 1)
    left = np.arange(MIN_NIGHTS, n - MIN_NIGHTS + 1)
    sums = np.cumsum(centred, axis=1)[:, left - 1]
    return np.asarray(np.abs(sums) / np.sqrt(variance * left * (n - left) / n))


def _centred_nights(n: int) -> Floats:
    return np.arange(n, dtype=np.float64) - (n - 1) / 2


def _drawn(n: int) -> Floats:
    rng = np.random.default_rng(n)  # the same series gets the same p everywhere
    return rng.permuted(np.broadcast_to(_score_table(n)[2::2], (DRAWS, n)), axis=1)


@dataclass(frozen=True)
class _Null:
    """What chance does to series of one length.

    `tails[k]` are the largest shifts with MIN_NIGHTS + k nights on either side, sorted; `smallest` the p of the
    most striking cut of each draw, sorted.
    """

    tails: tuple[Floats, ...]
    smallest: Floats


@cache
def _null_shifts(n: int) -> _Null:
    shifts = _shifts(_drawn(n))
    cuts = shifts.shape[1]
    tails = []
    p = np.empty_like(shifts)
    for left in range((cuts + 1) // 2):
        right = cuts - 1 - left  # as many nights on the other side: by symmetry the same distribution
        tail = np.sort(np.concatenate([shifts[:, left], shifts[:, right]]))[-_KEPT:].copy()
        p[:, left], p[:, right] = _tail(tail, shifts[:, left]), _tail(tail, shifts[:, right])
        tails.append(tail)
    return _Null(tuple(tails), np.sort(p.min(axis=1)))


def _tail(tail: Floats, shifts: Floats) -> Floats:
    """Share of a null distribution, of which the largest are in `tail`, that is at least as large; 1 below them."""
    at_least = len(tail) - np.searchsorted(tail, shifts - 1e-9)
    return np.where(at_least < len(tail), at_least / (2 * DRAWS), 1.0)


@cache
def _null_correlations(n: int) -> Floats:
    scores, when = _score_table(n)[2::2], _centred_nights(n)
    return np.sort(np.abs(_drawn(n) @ when) / math.sqrt((scores @ scores) * (when @ when)))


def _p(null: Floats, found: float) -> float:
    at_least = len(null) - int(np.searchsorted(null, found - 1e-9))
    return (1 + at_least) / (1 + len(null))


def _is_line(y: Floats, cuts: Sequence[int]) -> bool:
    """True where a straight line describes the nights better than steps do.

    The first step costs as much as the line, each further one two parameters more (Schwarz's criterion).
    """
    n, when = len(y), _centred_nights(len(y))
    line = y - y.mean() - when * ((when @ y) / (when @ when))
    levels = np.concatenate([y[i:j] - y[i:j].mean() for i, j in pairwise(cuts)])
    floor = n * RESOLUTION**2
    gain = n * math.log(max(floor, line @ line) / max(floor, levels @ levels))
    return gain < math.log(n) * 2 * (len(cuts) - 3)
