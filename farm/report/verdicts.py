"""From a run in the store to verdicts: per board, candidate and series, bandwidths and latency tails apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from farm.analysis.compare import Verdict, compare
from farm.campaign import DEFAULT_BAND
from farm.report.series import BoardSeries, Series, by_board
from farm.store.db import Store
from farm.store.records import DRIVEN, RunRecord, StoredBoot
from farm.store.values import Values

DRAWS = 10_000
_FEWEST_DRAWS = 500
_CELLS_DRAWN = 50_000_000
"""Boots x series x draws: a thousand boots of a hundred workloads get fewer draws, so that they are compared in
seconds; what they lose is digits of the p-value."""


@dataclass(frozen=True)
class Family:
    """Metrics whose verdicts share one error rate on each board."""

    name: str
    metrics: tuple[str, ...]
    higher_is_better: bool


BANDWIDTH = Family("bandwidth", ("bw_bytes",), True)
TIMES = Family("times", ("seconds",), False)
"""For imported results that tell no more than how long something took."""
Band = float | Literal["measured"]
TAILS = Family("latency tails", ("lat_p99_ns", "lat_p99.9_ns"), False)


@dataclass(frozen=True)
class Judged:
    """One metric of a run: its trials, its tables by board, and its verdicts by board, candidate and label.

    `draws` is how many permutations stand behind each board's p-values at least.
    """

    metric: str
    rows: Values
    tables: Mapping[str, BoardSeries]
    verdicts: Mapping[tuple[str, str, str], Verdict]
    higher_is_better: bool
    draws: int


def judge(
    store: Store,
    run: RunRecord,
    boots: Sequence[StoredBoot],
    family: Family,
    *,
    baseline: str,
    bands: Mapping[str, Band] | None = None,
) -> tuple[Judged, ...]:
    """The verdicts of one family, a `Judged` for each of its metrics that the run has any value of.

    `bands` are the workloads' own, see `band_of`. Boards that stopped early, and how often the run may look, are in its
    settings (`settled`, `looks`), fixed before the first boot.
    """
    found = {}
    names = [str(name) for name in run.settings.get("workloads", ())]
    for metric in family.metrics:
        rows = store.values(run.id, metric)
        if family is BANDWIDTH or np.isfinite(rows.measured).any():
            found[metric] = (rows, by_board(rows, names))
    if not found:
        return ()
    rows = next(iter(found.values()))[0]
    happened = events(boots, rows)
    verdicts: dict[str, dict[tuple[str, str, str], Verdict]] = {metric: {} for metric in found}
    draws = DRAWS
    for board in dict.fromkeys(boot.board for boot in boots):
        tables = {metric: tables[board] for metric, (_, tables) in found.items() if board in tables}
        planned = {boot.variant for boot in boots if boot.board == board}
        candidates = [name for name in variants_of(run, boots) if name != baseline and name in planned]
        if not tables or not candidates:
            continue
        stacked = _stack(tables, everything=family is BANDWIDTH)
        cells = stacked.values.size
        of_board = max(_FEWEST_DRAWS, min(DRAWS, _CELLS_DRAWN // max(cells, 1)))
        draws = min(draws, of_board)
        said = compare(
            stacked.values,
            stacked.starts,
            stacked.variants,
            baseline,
            workloads=[one.label for _, one in stacked.columns],
            candidates=candidates,
            band=[band_of(run, board, metric, one, bands or {}) for metric, one in stacked.columns],
            draws=of_board,
            seed=run.seed % 2**32,
            higher_is_better=family.higher_is_better,
            events=happened.get(board, {}),
            n_known=not run.settings.get("imported"),
            looks=int(run.settings.get("looks", 1)),
            stopped_early=board in run.settings.get("settled", {}),
        )
        for verdict, (metric, one) in zip(said, list(stacked.columns) * len(candidates), strict=True):
            verdicts[metric][board, verdict.candidate, one.label] = verdict
    return tuple(
        Judged(metric, rows, tables, verdicts[metric], family.higher_is_better, draws)
        for metric, (rows, tables) in found.items()
    )


def band_of(run: RunRecord, board: str, metric: str, series: Series, own: Mapping[str, Band]) -> float:
    """The smallest change of a series that matters, as a share: its workload's `own`, else the run's, else 3 %.

    A measured one was put into the run's settings when it began, by board, workload, metric and direction.
    """
    wanted = own.get(series.workload, run.settings.get("band", DEFAULT_BAND))
    if wanted != "measured":
        return float(wanted)
    of_board = run.settings.get("measured_bands", {}).get(board, {})
    bands = of_board.get(series.workload, {}).get("bands", {})
    return float(bands.get(f"{metric} {series.rw}".strip(), DEFAULT_BAND))


def variants_of(run: RunRecord, boots: Iterable[StoredBoot]) -> list[str]:
    """Variants in the campaign's order, then others that the boots have."""
    named = [str(name) for name in run.settings.get("variants", ())]
    return [*named, *sorted({boot.variant for boot in boots} - set(named))]


def events(boots: Iterable[StoredBoot], rows: Values) -> dict[str, dict[str, list[str]]]:
    """What happened, by board and variant: kernel events, boots and trials that failed or are void.

    Boots that were repeated count too: that a candidate panics now and then is an outcome, not missing data.
    """
    found: dict[str, dict[str, list[str]]] = {}
    good = set()
    for boot in boots:
        of_variant = found.setdefault(boot.board, {}).setdefault(boot.variant, [])
        kinds = [str(event.get("kind", "event")) for event in boot.events]
        of_variant += [_kind(kind) for kind in kinds if kind not in DRIVEN]
        if boot.status == "ok":
            good.add(boot.id)
        else:
            of_variant.append(_kind(f"{boot.status} boot: {boot.reason}"))
    lost = {row.trial_id: row for row in rows.lost() if row.boot_id in good}
    for row in lost.values():
        found[row.board][row.variant].append(_kind(f"{row.status} trial: {row.reason}"))
    return found


def _kind(text: str) -> str:
    """A reason without its figures, so that equal ones are counted together, and cut to what a sentence holds."""
    plain = " ".join(re.sub(r"\d+(?:\.\d+)?", "N", text).split())
    return plain if len(plain) <= 80 else plain[:77] + "..."


@dataclass(frozen=True)
class _Stacked:
    columns: tuple[tuple[str, Series], ...]
    variants: tuple[str, ...]
    starts: np.ndarray[tuple[int], np.dtype[np.float64]]
    values: np.ndarray[tuple[int, int], np.dtype[np.float64]]


def _stack(tables: Mapping[str, BoardSeries], *, everything: bool) -> _Stacked:
    """The tables of several metrics side by side, boots aligned; without series that no boot has a value of,
    unless `everything` is wanted: dd has no latencies, which is no finding."""
    boots: dict[int, tuple[str, float]] = {}
    for table in tables.values():
        for boot_id, variant, start in zip(table.boot_ids, table.variants, table.starts, strict=True):
            boots[boot_id] = (variant, float(start))
    line = {boot_id: number for number, boot_id in enumerate(sorted(boots))}
    columns, blocks = [], []
    for metric, table in tables.items():
        keep = [
            number
            for number in range(len(table.series))
            if everything or np.isfinite(table.values[:, number]).any()
        ]
        block = np.full((len(line), len(keep)), np.nan)
        block[[line[boot_id] for boot_id in table.boot_ids]] = table.values[:, keep]
        blocks.append(block)
        columns += [(metric, table.series[number]) for number in keep]
    return _Stacked(
        columns=tuple(columns),
        variants=tuple(boots[boot_id][0] for boot_id in line),
        starts=np.array([boots[boot_id][1] for boot_id in line], dtype=np.float64),
        values=np.hstack(blocks),
    )
