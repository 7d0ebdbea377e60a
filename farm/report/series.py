"""From trials to the table of boots that statistics and reports start from: a boot's value is its trials' median."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.store.values import Values


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


def by_board(values: Values, workloads: Sequence[str] = ()) -> dict[str, BoardSeries]:
    """The tables of a run's `Store.values`, by board; series in the order of `workloads`, then as first seen."""
    numbers: dict[str, int] = {}
    of_boot = {
        boot_id: numbers.setdefault(boot.board, len(numbers)) for boot_id, boot in values.boots.items()
    }
    boot_ids, at = np.unique(values.boot, return_inverse=True)
    board = np.array([of_boot[boot_id] for boot_id in boot_ids.tolist()], dtype=np.intp)[at]
    names = list(numbers)
    return {
        names[number]: _table(names[number], values, np.flatnonzero(board == number), workloads)
        for number in _as_first_seen(board)
    }


def _as_first_seen(codes: NDArray[np.intp]) -> list[int]:
    found, first = np.unique(codes, return_index=True)
    return [int(code) for code in found[np.argsort(first)]]


def _table(board: str, values: Values, rows: NDArray[np.intp], workloads: Sequence[str]) -> BoardSeries:
    kinds = [values.kinds[number] for number in _as_first_seen(values.kind[rows])]
    series = _series(kinds, workloads)
    columns = {(one.workload, one.rw): number for number, one in enumerate(series)}
    good = rows[values.ok[rows] & ~np.isnan(values.measured[rows])]
    boot_ids = list(dict.fromkeys(values.boot[good].tolist()))
    lines = {boot_id: number for number, boot_id in enumerate(boot_ids)}
    line = np.array([lines[boot_id] for boot_id in values.boot[good].tolist()], dtype=np.intp)
    column = np.array([columns.get(kind, -1) for kind in values.kinds], dtype=np.intp)[values.kind[good]]
    table = np.full((len(boot_ids), len(series)), np.nan)
    cells, medians = _medians(line * len(series) + column, values.measured[good])
    table.flat[cells] = medians
    boots = [values.boots[boot_id] for boot_id in boot_ids]
    return BoardSeries(
        board=board,
        boot_ids=tuple(boot_ids),
        indexes=tuple(boot.index for boot in boots),
        variants=tuple(boot.variant for boot in boots),
        starts=np.array([boot.started for boot in boots], dtype=np.float64),
        series=series,
        values=table,
    )


def _medians(
    cells: NDArray[np.intp], measured: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Each cell once, and the median of what was measured in it."""
    order = np.lexsort((measured, cells))
    found, first, count = np.unique(cells[order], return_index=True, return_counts=True)
    ascending = measured[order]
    return found, (ascending[first + (count - 1) // 2] + ascending[first + count // 2]) / 2


def _series(kinds: Iterable[tuple[str, str]], workloads: Sequence[str]) -> tuple[Series, ...]:
    """Every workload that was tried; its directions are those that it has values of, good or not."""
    directions: dict[str, set[str]] = {name: set() for name in workloads}
    tried = set()
    for workload, rw in kinds:
        tried.add(workload)
        seen = directions.setdefault(workload, set())
        if rw:  # empty where a trial has no value
            seen.add(rw)
    return tuple(
        Series(workload, rw, f"{workload} {rw}" if len(found) > 1 else workload)
        for workload, found in directions.items()
        if workload in tried
        for rw in sorted(found) or [""]
    )
