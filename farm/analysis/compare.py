"""The verdict rule: boots of one board -> faster, slower, same or inconclusive per candidate and workload.

One call is one family whose false alarms are kept below 5 % together: all bandwidths of a campaign on one board,
or all its latency tails. `simulate.py` holds the rule to what is asked of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from farm.analysis.family import Cell, Tested, cells, evaluate, fitted
from farm.analysis.power import MOST_BOOTS, boots_for_change, boots_for_same
from farm.analysis.student import t_quantile
from farm.schedule import MIN_BOOTS

Floats = NDArray[np.float64]
Word = Literal["faster", "slower", "same", "inconclusive"]

ALPHA = 0.05
BANDWIDTH_RESOLUTION = 0.001
"""Relative: dd prints three digits or milliseconds, fio times a run in milliseconds."""
LATENCY_RESOLUTION = 1 / 64
"""Relative: the widest of fio's latency bins, 64 of them to each power of two (FIO_IO_U_PLAT_BITS 6)."""


@dataclass(frozen=True)
class Verdict:
    """What may be said of one candidate and one workload on one board.

    `ratio` is candidate / baseline of the value itself (above 1 is slower where less is better), `low` and `high`
    its simultaneous 95 % interval (wider with several looks), `p` corrected for the family; None where there is no
    such figure. `n_base` and `n_cand` are the boots that were used, `spread_base` and `spread_cand` the standard
    deviations between them in logs (0.02 is about 2 %), the trend taken out. `more_boots` is per variant, and for
    the question that `more_boots_for` names; None with "change" or "same" means that boots will not settle it.
    """

    workload: str
    candidate: str
    baseline: str
    verdict: Word
    unstable: bool
    reason: str
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    n_base: int
    n_cand: int
    spread_base: float | None
    spread_cand: float | None
    more_boots: int | None
    more_boots_for: Literal["minimum", "change", "same"] | None
    flags: tuple[str, ...]


def compare(
    values: ArrayLike,
    starts: ArrayLike,
    variants: Sequence[str],
    baseline: str,
    *,
    workloads: Sequence[str],
    candidates: Sequence[str] | None = None,
    band: float | Sequence[float] = 0.03,
    draws: int = 10_000,
    seed: int = 0,
    higher_is_better: bool = True,
    resolution: float | None = None,
    events: Mapping[str, Iterable[str]] | None = None,
    n_known: bool = True,
    looks: int = 1,
    stopped_early: bool = False,
) -> tuple[Verdict, ...]:
    """Verdicts of every candidate (in order of first appearance, or as given) x workload of one board.

    `values` is boots x workloads, a boot's value being the median of its trials, in any positive unit; NaN is a
    trial that is missing or void, and zero, negative or infinite values count as such. `starts` are the boots'
    start times in seconds, `variants` their variants. `events` names per variant what happened in all its boots,
    voided ones included ("panic", "void: other kernel", ...). `n_known=False` is for imported results. `looks` is
    how often the campaign may look, fixed in advance; `stopped_early` says that this was not the last look.
    `resolution` is relative and floors the residual spread.

    A candidate without boots, a missing baseline and workloads without values get `inconclusive`; a table with
    the baseline alone gives no verdicts. Raises ValueError for arguments whose shapes or ranges do not fit.
    """
    table, times, bands, floor = _checked(
        values, starts, variants, workloads, band, draws, looks, resolution, higher_is_better
    )
    if candidates is None:
        candidates = [name for name in dict.fromkeys(variants) if name != baseline]
    testable = n_known and bool(np.isfinite(times).all())
    priority = np.random.default_rng(seed).permutation(len(table))
    all_cells = [
        cell
        for name in candidates
        for cell in cells(table, variants, name, baseline, priority, equal=testable)
    ]
    tested: dict[int, Tested] = {}
    alpha = ALPHA / looks
    if testable:
        all_cells = fitted(all_cells, table, times, floor)
        for enough in (True, False):  # cells that can have no verdict must not weigh on those that can
            family = [
                i for i, cell in enumerate(all_cells) if cell.fit and (len(cell.base) >= MIN_BOOTS) is enough
            ]
            tested |= dict(
                zip(family, evaluate([all_cells[i] for i in family], draws, seed, alpha), strict=True)
            )
    named = (["several-looks"] if looks > 1 else []) + (["stopped-early"] if stopped_early else [])
    unstable = {name: _only_candidate(name, baseline, events or {}, all_cells) for name in candidates}
    verdicts = []
    for i, cell in enumerate(all_cells):
        verdict = _figures(cell, tested.get(i), table, workloads[cell.column], baseline)
        verdict = replace(verdict, flags=(*verdict.flags, *named))
        if not testable:
            verdict = _unknown(verdict)
        elif min(verdict.n_base, verdict.n_cand) < MIN_BOOTS:
            verdict = _too_few(verdict)
        elif i not in tested:
            verdict = _confounded(verdict)
        else:
            verdict = _judge(verdict, tested[i], float(bands[cell.column]), alpha, higher_is_better)
        verdicts.append(_withhold(verdict, unstable[cell.candidate]))
    return tuple(verdicts)


def settled(verdicts: Iterable[Verdict]) -> bool:
    """Whether further boots are of no use: no verdict is open, save those withheld because a variant is unstable."""
    return all(verdict.verdict != "inconclusive" or verdict.unstable for verdict in verdicts)


def _checked(
    values: ArrayLike,
    starts: ArrayLike,
    variants: Sequence[str],
    workloads: Sequence[str],
    band: float | Sequence[float],
    draws: int,
    looks: int,
    resolution: float | None,
    higher_is_better: bool,
) -> tuple[Floats, Floats, Floats, float]:
    table = np.array(values, dtype=np.float64)
    times = np.asarray(starts, dtype=np.float64)
    boots = len(variants)
    if table.size == 0:
        table = table.reshape(boots, len(workloads))
    if table.shape != (boots, len(workloads)) or times.shape != (boots,):
        raise ValueError(
            f"values {table.shape} and starts {times.shape} do not fit {boots} boots x {len(workloads)} workloads"
        )
    bands = np.broadcast_to(np.asarray(band, dtype=np.float64), (len(workloads),))
    if not (np.isfinite(bands).all() and (bands >= 0).all()):
        raise ValueError(f"band has to be a share >= 0 such as 0.03, not {band}")
    if draws < 1 or looks < 1:
        raise ValueError(f"draws ({draws}) and looks ({looks}) have to be at least 1")
    floor = resolution
    if floor is None:
        floor = BANDWIDTH_RESOLUTION if higher_is_better else LATENCY_RESOLUTION
    if not 0 < floor < math.inf:
        raise ValueError(f"resolution has to be a share above 0 such as 0.001, not {resolution}")
    table[~(np.isfinite(table) & (table > 0))] = np.nan
    return table, times, bands, floor


def _figures(cell: Cell, tested: Tested | None, table: Floats, workload: str, baseline: str) -> Verdict:
    """Everything but the judgement."""
    flags = []
    if cell.dropped:
        flags.append("excess-dropped")
    if cell.missing_base or cell.missing_cand:
        flags.append("missing-values")
    if tested and tested.welch:
        flags.append("spread-changed")
    return Verdict(
        workload=workload,
        candidate=cell.candidate,
        baseline=baseline,
        verdict="inconclusive",
        unstable=False,
        reason="",
        ratio=_exp(tested.estimate) if tested else _ratio_of_medians(cell, table),
        low=_bound(tested.estimate - tested.half) if tested else None,
        high=_bound(tested.estimate + tested.half) if tested else None,
        p=tested.p if tested else None,
        n_base=len(cell.base),
        n_cand=len(cell.cand),
        spread_base=tested.spread_base if tested else None,
        spread_cand=tested.spread_cand if tested else None,
        more_boots=None,
        more_boots_for=None,
        flags=tuple(flags),
    )


def _unknown(verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        reason="Inconclusive: how many boots these values come from, and in which order, is unknown; "
        f"at least {MIN_BOOTS} boots per variant are needed.",
        more_boots=MIN_BOOTS,
        more_boots_for="minimum",
        flags=(*verdict.flags, "n-unknown"),
    )


def _too_few(verdict: Verdict) -> Verdict:
    count, side = min((verdict.n_base, verdict.baseline), (verdict.n_cand, verdict.candidate))
    have = {0: "no boot", 1: "1 boot"}.get(count, f"{count} boots")
    return replace(
        verdict,
        reason=f"Inconclusive: {side} has {have} with a value, and at least {MIN_BOOTS} per variant are needed.",
        more_boots=MIN_BOOTS - count,
        more_boots_for="minimum",
    )


def _confounded(verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        reason="Inconclusive: the order of the boots does not let variant and drift be told apart; "
        "measure in mirrored blocks.",
        flags=(*verdict.flags, "order-confounded"),
    )


def _judge(verdict: Verdict, tested: Tested, band: float, alpha: float, higher_is_better: bool) -> Verdict:
    """The rule itself, for a cell with enough boots and a test."""
    edge = math.log1p(band)
    interval = f"{_percent(tested.estimate)} (interval {_percent(tested.estimate - tested.half)} to "
    interval += f"{_percent(tested.estimate + tested.half)}, corrected p {tested.p:.2g})"
    welch = (
        "; its spread changed more than twofold, so this p is the larger one of two tests (Welch + Holm is the other)"
        if tested.welch
        else ""
    )
    outside = abs(tested.estimate) > edge
    if tested.p < alpha and outside:
        word: Word = "faster" if (tested.estimate > 0) is higher_is_better else "slower"
        stopped = "stopped-early" in verdict.flags
        early = "; the board stopped early, so that this effect is biased outward" if stopped else ""
        return replace(
            verdict,
            verdict=word,
            reason=f"{word.capitalize()}: {interval}, outside the band of {100 * band:.3g} %{welch}{early}.",
        )
    if abs(tested.estimate) + tested.equivalence < edge:
        inner = f"{_percent(tested.estimate - tested.equivalence)} to {_percent(tested.estimate + tested.equivalence)}"
        level = f"{100 * (1 - 2 * alpha):.3g} %"
        return replace(
            verdict,
            verdict="same",
            reason=f"Same, for this workload by itself: the {level} interval {inner} lies inside the band of "
            f"{100 * band:.3g} %{welch}.",
        )
    n = verdict.n_base
    question: Literal["change", "same"]
    if outside:
        question, needed = "change", boots_for_change(tested.se, n, tested.half / tested.se, tested.df, band)
        aim = f"an 80 % chance to prove a change of {200 * band:.3g} %"
    else:
        # Not tested.se: where the spreads differ the interval is wider than the model's.
        error = tested.equivalence / float(t_quantile(alpha, tested.df))
        question, needed = "same", boots_for_same(error, n, band, alpha)
        aim = "an 80 % chance of `same` if nothing changed"
    # Power was there and the luck was not: the least that can be added is one block, two boots per variant.
    more = None if needed is None else max(needed - n, 2)
    then = (
        f"{more} more boots per variant give {aim}"
        if more
        else f"even {MOST_BOOTS} boots per variant do not give {aim}"
    )
    return replace(
        verdict, reason=f"Inconclusive: {interval}{welch}; {then}.", more_boots=more, more_boots_for=question
    )


def _only_candidate(
    candidate: str, baseline: str, events: Mapping[str, Iterable[str]], all_cells: Sequence[Cell]
) -> str:
    """What the candidate has and the baseline lacks, as `panic (2 times)`; empty if nothing.

    That is a kind of event which the baseline had never, or so much more rarely that chance explains it in less
    than one case of 20 (the events of both thrown at equal odds), and values missing on the candidate's side alone.
    """
    mine, theirs = Counter(events.get(candidate, ())), Counter(events.get(baseline, ()))
    found = []
    for kind, count in mine.items():
        other = theirs[kind]
        if other == 0:
            found.append(f"{kind} ({count} times)" if count > 1 else kind)
        elif count > other and special.bdtrc(count - 1, count + other, 0.5) < ALPHA:
            found.append(f"{kind} ({count} times against {other})")
    lost = sum(
        cell.missing_cand
        for cell in all_cells
        if cell.candidate == candidate and len(cell.base) and not cell.missing_base
    )
    if lost and not found:
        found.append(f"{lost} missing value{'s' if lost > 1 else ''}")
    return ", ".join(found)


def _withhold(verdict: Verdict, happened: str) -> Verdict:
    """`unstable` on top of the verdict; `faster` and `same` are not said of a candidate with outcomes of its own."""
    if not happened:
        return verdict
    listed = f"Unstable: {verdict.candidate} had {happened}, which {verdict.baseline} had not"
    if verdict.verdict in ("faster", "same"):
        reason = f"{listed}; `{verdict.verdict}` is withheld."
        flags = (*verdict.flags, f"withheld-{verdict.verdict}")
        return replace(verdict, verdict="inconclusive", unstable=True, reason=reason, flags=flags)
    return replace(verdict, unstable=True, reason=f"{listed}. {verdict.reason}")


def _ratio_of_medians(cell: Cell, table: Floats) -> float | None:
    if not (len(cell.base) and len(cell.cand)):
        return None
    cand, base = (float(np.median(table[boots, cell.column])) for boots in (cell.cand, cell.base))
    return _exp(math.log(cand) - math.log(base))


def _exp(log_ratio: float) -> float:
    """exp without OverflowError."""
    return math.exp(log_ratio) if log_ratio < 700 else math.inf


def _bound(log_ratio: float) -> float | None:
    """An end of an interval; None where it is open."""
    return _exp(log_ratio) if math.isfinite(log_ratio) else None


def _percent(log_ratio: float) -> str:
    """A log ratio as people read it: `+4.9 %`, or from a doubling on `x 5.8`."""
    ratio = _exp(log_ratio)
    return f"x {ratio:.3g}" if ratio >= 2 or ratio <= 0.5 else f"{100 * (ratio - 1):+.1f} %"
