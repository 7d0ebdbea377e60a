"""The comparison of a run's variants as plain data, for the terminal, JSON and every other report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from farm.errors import UserError
from farm.report.series import BoardSeries, Series
from farm.store.records import RunRecord, StoredBoot, ValueRow
from farm.store.values import Values


class VerdictLike(Protocol):
    """What the tables show of an analysis.compare.Verdict."""

    @property
    def verdict(self) -> str: ...
    @property
    def unstable(self) -> bool: ...
    @property
    def reason(self) -> str: ...


Verdicts = Mapping[tuple[str, str, str], VerdictLike]
"""By board, candidate, and label of the series (see series.Series)."""


@dataclass(frozen=True)
class Side:
    """One variant's part of a row.

    `value` is the median over boots of the medians over their trials, in the metric's unit; `boots` how many boots
    are in it; `spread` the coefficient of variation of those boots (a share, sample standard deviation), None below
    two. `planned` counts the places in the schedule that were tried, `void` and `failed` the trials that do not count.
    """

    variant: str
    value: float | None
    boots: int
    spread: float | None
    planned: int
    void: int
    failed: int


@dataclass(frozen=True)
class Row:
    """One series of one board: the baseline against one candidate, or the baseline alone."""

    workload: str
    rw: str
    label: str
    base: Side
    cand: Side | None
    ratio: float | None
    verdict: VerdictLike | None


@dataclass(frozen=True)
class Block:
    """The rows of one board and one candidate; `candidate` is None where only the baseline was measured."""

    board: str
    candidate: str | None
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Note:
    """Boots, or trials of boots that were good otherwise, that do not count for one and the same reason."""

    scope: Literal["boot", "trial"]
    board: str
    variant: str
    status: str
    reason: str
    boots: tuple[tuple[int, int], ...]
    """Index and attempt."""
    workloads: tuple[str, ...]
    trials: tuple[int, ...]


@dataclass(frozen=True)
class CompareTable:
    """A run's comparison in one metric."""

    run_id: str
    campaign: str
    status: str
    seed: int
    metric: str
    baseline: str
    imported: bool
    first_trial: int | None
    last_trial: int | None
    blocks: tuple[Block, ...]
    notes: tuple[Note, ...]


def build(
    run: RunRecord,
    rows: Values,
    boots: Sequence[StoredBoot],
    *,
    metric: str,
    baseline: str,
    verdicts: Verdicts,
    tables: Mapping[str, BoardSeries],
) -> CompareTable:
    """The comparison of what the store holds of a run; `tables` are series.by_board of the rows."""
    named = [str(name) for name in run.settings.get("variants", ())]
    variants = [*named, *sorted({boot.variant for boot in boots} - set(named))]
    candidates = [name for name in variants if name != baseline]
    planned: dict[tuple[str, str], set[int]] = {}
    for boot in boots:
        planned.setdefault((boot.board, boot.variant), set()).add(boot.index)
    lost = _lost(rows.lost())
    blocks = []
    for board, table in tables.items():
        seen: list[str | None] = [name for name in candidates if (board, name) in planned]
        for candidate in seen or [None]:
            blocks.append(
                Block(
                    board,
                    candidate,
                    tuple(
                        _row(table, number, baseline, candidate, planned, lost, verdicts)
                        for number in range(len(table.series))
                    ),
                )
            )
    return CompareTable(
        run_id=run.id,
        campaign=run.campaign,
        status=run.status,
        seed=run.seed,
        metric=metric,
        baseline=baseline,
        imported=bool(run.settings.get("imported")),
        first_trial=int(rows.trial.min()) if len(rows) else None,
        last_trial=int(rows.trial.max()) if len(rows) else None,
        blocks=tuple(blocks),
        notes=_notes(rows.lost(), boots),
    )


def baseline_of(run: RunRecord, variants: Sequence[str]) -> str:
    """The run's baseline. Raises UserError where the run has no such variant."""
    base = run.settings.get("baseline")
    if base not in variants:
        what = "names no baseline" if base is None else f"has no variant {base!r}"
        known = f"name one of {', '.join(variants)}" if variants else "no boot of it is stored"
        raise UserError(f"run {run.id} {what}; {known}")
    return str(base)


def measured(table: CompareTable) -> CompareTable:
    """The table without rows that no boot has a value of: dd tells no latencies."""
    blocks = tuple(
        replace(
            block,
            rows=tuple(
                row
                for row in block.rows
                if row.base.value is not None or (row.cand is not None and row.cand.value is not None)
            ),
        )
        for block in table.blocks
    )
    return replace(table, blocks=tuple(block for block in blocks if block.rows))


def as_dict(table: CompareTable) -> dict[str, Any]:
    """The table as JSON values; rates in bytes/second, latencies in nanoseconds, spreads as shares."""
    return dataclasses.asdict(table)


Planned = Mapping[tuple[str, str], set[int]]
Lost = Mapping[tuple[str, str, str, str], set[int]]


def _row(
    table: BoardSeries,
    number: int,
    baseline: str,
    candidate: str | None,
    planned: Planned,
    lost: Lost,
    verdicts: Verdicts,
) -> Row:
    series = table.series[number]
    base = _side(table, number, series, baseline, planned, lost)
    cand = None if candidate is None else _side(table, number, series, candidate, planned, lost)
    ratio = None
    if cand is not None and cand.value is not None and base.value:
        ratio = cand.value / base.value
    verdict = None if candidate is None else verdicts.get((table.board, candidate, series.label))
    return Row(series.workload, series.rw, series.label, base, cand, ratio, verdict)


def _side(
    table: BoardSeries, number: int, series: Series, variant: str, planned: Planned, lost: Lost
) -> Side:
    own = np.array([name == variant for name in table.variants], dtype=bool)
    values = table.values[own, number]
    values = values[np.isfinite(values)]
    spread = None
    if len(values) >= 2 and values.mean() != 0:
        spread = float(values.std(ddof=1) / values.mean())
    return Side(
        variant=variant,
        value=float(np.median(values)) if len(values) else None,
        boots=len(values),
        spread=spread,
        planned=len(planned.get((table.board, variant), ())),
        void=len(lost.get((table.board, variant, series.workload, "void"), ())),
        failed=len(lost.get((table.board, variant, series.workload, "failed"), ())),
    )


def _lost(trials: Iterable[ValueRow]) -> dict[tuple[str, str, str, str], set[int]]:
    """Trials that do not count, by board, variant, workload and status; one that has two directions is one."""
    lost: dict[tuple[str, str, str, str], set[int]] = {}
    for row in trials:
        lost.setdefault((row.board, row.variant, row.workload, row.status), set()).add(row.trial_id)
    return lost


def _notes(lost: Iterable[ValueRow], boots: Iterable[StoredBoot]) -> tuple[Note, ...]:
    good: dict[int, StoredBoot] = {}
    torn: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for boot in boots:
        if boot.status == "ok":
            good[boot.id] = boot
        else:
            key = (boot.board, boot.variant, boot.status, boot.reason)
            torn.setdefault(key, []).append((boot.index, boot.attempt))
    single: dict[tuple[str, str, str, str], dict[int, ValueRow]] = {}
    for row in lost:
        if row.boot_id in good:  # the others are told with their boot
            single.setdefault((row.board, row.variant, row.status, row.reason), {})[row.trial_id] = row
    of_boots = [
        Note("boot", *key, boots=tuple(places), workloads=(), trials=()) for key, places in torn.items()
    ]
    of_trials = [
        Note(
            "trial",
            *key,
            boots=tuple(
                dict.fromkeys((good[row.boot_id].index, good[row.boot_id].attempt) for row in trials.values())
            ),
            workloads=tuple(dict.fromkeys(row.workload for row in trials.values())),
            trials=tuple(trials),
        )
        for key, trials in single.items()
    ]
    return (*of_boots, *of_trials)
