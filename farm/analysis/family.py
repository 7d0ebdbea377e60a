"""One family of tests: the cells (candidate x workload) of one board, corrected together.

max-T over permuted boots is the test. Where a variant changes the spread more than twofold, boots of the two are no
longer exchangeable, so Welch's t with Holm's correction has to agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from farm.analysis.permutation import Fit, critical_t, fit, max_abs_t, p_values
from farm.analysis.student import t_quantile, t_tail

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SPREADS_DIFFER = 2.0
"""Above this ratio of the variants' residual spreads Welch + Holm has a say."""


@dataclass(frozen=True)
class Cell:
    """One candidate and workload: the boots (rows of the table) that count, and where its fit is."""

    candidate: str
    column: int  # of the table
    base: Ints
    cand: Ints
    missing_base: int  # boots without a value
    missing_cand: int
    dropped: int  # boots with a value that are in excess of the other side's
    fit: Fit | None = None
    at: int = 0  # column of the fit


@dataclass(frozen=True)
class Tested:
    """The figures of a tested cell; all but `p` and `df` in logs or |t|."""

    estimate: float  # candidate - baseline
    se: float
    df: int
    half: float  # half width of the simultaneous interval
    equivalence: float  # half width of the interval of this workload's two one-sided tests
    p: float  # corrected for the family
    spread_base: float
    spread_cand: float
    welch: bool  # the spreads differ, so that Welch + Holm counts too


def cells(
    table: Floats, variants: Sequence[str], candidate: str, baseline: str, priority: Ints, *, equal: bool
) -> Iterator[Cell]:
    """The candidate's cells, one per column of the boots x workloads `table` (NaN is missing).

    With `equal`, both sides keep the same number of boots: those of the lowest `priority`.
    """
    names = np.asarray(variants, dtype=object)
    by_priority = np.argsort(priority)
    base, cand = (by_priority[names[by_priority] == name] for name in (baseline, candidate))
    for column in range(table.shape[1]):
        mine, theirs = base[np.isfinite(table[base, column])], cand[np.isfinite(table[cand, column])]
        cell = Cell(candidate, column, mine, theirs, len(base) - len(mine), len(cand) - len(theirs), 0)
        if equal and len(mine) and len(theirs):
            keep = min(len(mine), len(theirs))
            dropped = len(mine) + len(theirs) - 2 * keep
            cell = replace(cell, base=mine[:keep], cand=theirs[:keep], dropped=dropped)
        yield cell


def fitted(unfitted: Sequence[Cell], table: Floats, starts: Floats, floor: float) -> list[Cell]:
    """The cells with their fits; workloads that count in the same boots share one. `floor` is in logs."""
    groups: dict[tuple[str, bytes], list[int]] = {}
    for i, cell in enumerate(unfitted):
        if len(cell.base) and len(cell.cand):
            boots = np.sort(np.concatenate([cell.base, cell.cand]))
            groups.setdefault((cell.candidate, boots.tobytes()), []).append(i)
    done = list(unfitted)
    for (_, raw), members in groups.items():
        boots = np.frombuffer(raw, dtype=np.intp)
        y = np.log(table[boots][:, [unfitted[i].column for i in members]])
        is_cand = np.isin(boots, unfitted[members[0]].cand)
        model = fit(y, starts[boots], is_cand, boots, np.full(len(members), floor))
        for at, i in enumerate(members):
            done[i] = replace(unfitted[i], fit=model, at=at)
    return done


def evaluate(family: Sequence[Cell], draws: int, seed: int, alpha: float) -> list[Tested]:
    """Corrected p and interval at level `alpha` of each cell; all of them must have a fit."""
    models = [cell.fit for cell in family if cell.fit]
    fits = list({id(model): model for model in models}.values())
    if not fits:
        return []
    used = np.unique(np.concatenate([model.boots for model in fits]))
    renumbered = [replace(model, boots=np.searchsorted(used, model.boots)) for model in fits]
    maxima, exact = max_abs_t(renumbered, len(used), draws, seed)
    critical = critical_t(maxima, exact, alpha)
    estimate = np.array([model.estimate[cell.at] for model, cell in zip(models, family, strict=True)])
    se = np.array([model.se[cell.at] for model, cell in zip(models, family, strict=True)])
    df = np.array([model.df for model in models])
    p = p_values(np.abs(estimate) / se, maxima, exact)
    half, equivalence = critical * se, t_quantile(alpha, df) * se

    sides = np.array([model.sides[cell.at] for model, cell in zip(models, family, strict=True)])
    floors = np.array([model.floor[0] for model in models])[:, None]
    # Each side pays half of the trend's degree of freedom.
    spreads = np.sqrt(sides / (df / 2)[:, None])
    floored = np.maximum(spreads, floors)
    differ = _spreads_differ(
        np.log(floored[:, 1] / floored[:, 0]), df / 2, [cell.candidate for cell in family]
    )
    if differ.any():
        welch_se, welch_df = _welch(models, sides, floors)
        raw = 2 * t_tail(np.abs(estimate) / welch_se, welch_df)
        holm = _holm(raw)
        # Where this cell's raw p would have to lie for a corrected one of alpha, so that interval and p agree.
        level = alpha * np.divide(raw, holm, out=np.full_like(raw, 1 / len(raw)), where=holm > 0)
        wide, apart = t_quantile(level / 2, welch_df) * welch_se, t_quantile(alpha, welch_df) * welch_se
        p = np.where(differ, np.maximum(p, holm), p)
        half = np.where(differ, np.maximum(half, wide), half)
        equivalence = np.where(differ, np.maximum(equivalence, apart), equivalence)
    return [
        Tested(
            estimate=float(estimate[k]),
            se=float(se[k]),
            df=int(df[k]),
            half=float(half[k]),
            equivalence=float(equivalence[k]),
            p=float(p[k]),
            spread_base=float(spreads[k, 0]),
            spread_cand=float(spreads[k, 1]),
            welch=bool(differ[k]),
        )
        for k in range(len(family))
    ]


def _spreads_differ(log_ratios: Floats, freedom: Floats, candidates: Sequence[str]) -> NDArray[np.bool_]:
    """Whether candidate and baseline spread more than twofold apart, judged with the candidate's other workloads.

    A ratio of standard deviations from 5 boots each is beyond 2 one time in five by chance, and Welch + Holm then
    costs a tenth of the real effects; and a variant that is four times as noisy everywhere shows ratios below 2
    now and then, where plain permutation raises false alarms. So each log ratio is shrunk towards the mean of the
    candidate's workloads by as much as chance explains their differences (positive-part James-Stein, with the
    variance of a log standard deviation, trigamma(df/2)/4). Fewer than 4 workloads stand for themselves.
    """
    shrunk = log_ratios.copy()
    names = np.asarray(candidates, dtype=object)
    for name in dict.fromkeys(candidates):
        mine = names == name
        k = int(mine.sum())
        if k < 4:
            continue
        mean = log_ratios[mine].mean()
        apart = float(((log_ratios[mine] - mean) ** 2).sum())
        chance = float(np.mean(special.polygamma(1, freedom[mine] / 2) / 2))
        keep = max(0.0, 1 - (k - 3) * chance / apart) if apart > 0 else 0.0
        shrunk[mine] = mean + keep * (log_ratios[mine] - mean)
    return np.asarray(np.abs(shrunk) > math.log(SPREADS_DIFFER))


def _welch(models: Sequence[Fit], sides: Floats, floors: Floats) -> tuple[Floats, Floats]:
    """Welch's standard error and degrees of freedom around the trend.

    The noisier side alone determines the common trend, so each side pays for it as if it had fitted it alone.
    """
    boots = np.array([len(model.boots) / 2 for model in models])
    trended = np.array([model.trend is not None for model in models])
    freedom = np.maximum(boots - 1 - trended, 1)[:, None]
    variances = np.maximum(sides / freedom, floors**2)
    # An order that takes nothing from the variant leaves it the information n/2 of two plain means.
    information = np.array([model.variant @ model.variant for model in models])
    se = np.sqrt(variances.sum(axis=1) / (2 * information))
    return se, variances.sum(axis=1) ** 2 / (variances**2 / freedom).sum(axis=1)


def _holm(raw: Floats) -> Floats:
    order = np.argsort(raw)
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1.0)
    return corrected
