"""From trials to the table of boots that statistics and reports start from: a boot's value is its trials' median."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from farm.store.records import ValueRow


@dataclass(frozen=True)
class Series:
    """One workload in one direction of its data. `label` names it alone: the direction is in it if there are two."""

    workload: str
    rw: str
    label: str


@dataclass(frozen=True)
class BoardSeries:
    """What one board measured: `values` is boots x series, NaN where a boot has no good trial of a series.

    `boot_ids`, `indexes`, `variants` and `starts` (UTC epoch seconds) are per row, `series` per column. Boots
    without any good trial are not among the rows. The unit of `values` is that of the metric asked for.
    """

    board: str
    boot_ids: tuple[int, ...]
    indexes: tuple[int, ...]
    variants: tuple[str, ...]
    starts: NDArray[np.float64]
    series: tuple[Series, ...]
    values: NDArray[np.float64]


def by_board(rows: Iterable[ValueRow], workloads: Sequence[str] = ()) -> dict[str, BoardSeries]:
    """The tables of a run's `Store.values`, by board; series in the order of `workloads`, then as first seen."""
    boards: dict[str, list[ValueRow]] = {}
    for row in rows:
        boards.setdefault(row.board, []).append(row)
    return {board: _table(board, own, workloads) for board, own in boards.items()}


def _table(board: str, rows: list[ValueRow], workloads: Sequence[str]) -> BoardSeries:
    series = _series(rows, workloads)
    column = {(one.workload, one.rw): number for number, one in enumerate(series)}
    boots: dict[int, ValueRow] = {}
    trials: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        if row.status == "ok" and row.value is not None:
            boots.setdefault(row.boot_id, row)
            trials.setdefault((row.boot_id, column[row.workload, row.rw]), []).append(row.value)
    line = {boot_id: number for number, boot_id in enumerate(boots)}
    values = np.full((len(boots), len(series)), np.nan)
    for (boot_id, at), measured in trials.items():
        values[line[boot_id], at] = measured[0] if len(measured) == 1 else median(measured)
    return BoardSeries(
        board=board,
        boot_ids=tuple(boots),
        indexes=tuple(row.boot_index for row in boots.values()),
        variants=tuple(row.variant for row in boots.values()),
        starts=np.array([row.boot_started for row in boots.values()], dtype=np.float64),
        series=series,
        values=values,
    )


def _series(rows: list[ValueRow], workloads: Sequence[str]) -> tuple[Series, ...]:
    """Every workload that was tried; its directions are those that it has values of, good or not."""
    directions: dict[str, set[str]] = {name: set() for name in workloads}
    for row in rows:
        seen = directions.setdefault(row.workload, set())
        if row.value is not None:
            seen.add(row.rw)
    tried = {row.workload for row in rows}
    return tuple(
        Series(workload, rw, f"{workload} {rw}" if len(found) > 1 else workload)
        for workload, found in directions.items()
        if workload in tried
        for rw in sorted(found) or [""]
    )
