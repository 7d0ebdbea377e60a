"""One metric of a run in columns: a hundred thousand trials are read in a moment, and the few that are lost as rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.store.codec import text_in, text_out
from farm.store.records import Status, ValueRow


@dataclass(frozen=True)
class BootOf:
    """What a value takes from its boot; `started` is in UTC epoch seconds."""

    board: str
    variant: str
    index: int
    started: float
    status: Status
    reason: str


@dataclass(frozen=True, eq=False)
class Values(Sequence[ValueRow]):
    """One entry per trial and direction of its data, good or not, by board, boot and order of execution.

    `measured` is in the unit of the metric's name, NaN where the trial has no sample of it. `kind` is an index into
    `kinds`, the workloads and directions as they first appear. `ok` marks the good trials of good boots.
    """

    boots: Mapping[int, BootOf]
    kinds: tuple[tuple[str, str], ...]
    boot: NDArray[np.int64]
    trial: NDArray[np.int64]
    rep: NDArray[np.int64]
    kind: NDArray[np.intp]
    measured: NDArray[np.float64]
    ok: NDArray[np.bool_]
    bad: Mapping[int, tuple[Status, str]]
    """Status and reason of the entries that are not ok, by their number."""

    def __len__(self) -> int:
        return len(self.boot)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self._row(number) for number in range(*at.indices(len(self)))]
        return self._row(range(len(self))[at])

    def __iter__(self) -> Iterator[ValueRow]:
        return (self._row(number) for number in range(len(self)))

    def lost(self) -> Iterator[ValueRow]:
        """The entries that are not ok."""
        return (self._row(number) for number in self.bad)

    def _row(self, number: int) -> ValueRow:
        boot_id = int(self.boot[number])
        boot = self.boots[boot_id]
        workload, rw = self.kinds[self.kind[number]]
        value = float(self.measured[number])
        status, reason = self.bad.get(number, ("ok", ""))
        return ValueRow(
            board=boot.board,
            variant=boot.variant,
            boot_id=boot_id,
            boot_index=boot.index,
            boot_started=boot.started,
            workload=workload,
            rw=rw,
            rep=int(self.rep[number]),
            status=status,
            value=None if np.isnan(value) else value,
            trial_id=int(self.trial[number]),
            reason=reason,
        )


def read(db: sqlite3.Connection, run_id: str, metric: str) -> Values:
    """The values of a run's metric."""
    key = text_in(run_id)
    boots = {
        row[0]: BootOf(*row[1:])
        for row in db.execute(
            "SELECT id, board, variant, boot_index, started, status, reason FROM boot"
            " WHERE run_id = CAST(? AS TEXT)",
            (key,),
        )
    }
    # Text that nearly all rows have in common is made once, not a hundred thousand times: blobs, and NULL for ok.
    found = db.execute(
        "SELECT boot_id, trial.id, rep, CAST(workload AS BLOB), CAST(ifnull(rw, '') AS BLOB), value,"
        " nullif(trial.status, 'ok'), nullif(trial.reason, '') FROM boot JOIN trial ON trial.boot_id = boot.id"
        " LEFT JOIN sample ON trial_id = trial.id AND metric = CAST(? AS TEXT)"
        " WHERE run_id = CAST(? AS TEXT) ORDER BY board, boot_index, attempt, trial.id, rw",
        (text_in(metric), key),
    ).fetchall()
    columns = zip(*found, strict=True) if found else ((),) * 8
    boot_ids, trials, reps, workloads, directions, measured, statuses, reasons = columns
    known: dict[tuple[bytes, bytes], int] = {}
    kind = [known.setdefault(one, len(known)) for one in zip(workloads, directions, strict=True)]
    torn = {boot_id for boot_id, boot in boots.items() if boot.status != "ok"}
    bad: dict[int, tuple[Status, str]] = {}
    for number, (boot_id, status) in enumerate(zip(boot_ids, statuses, strict=True)):
        if status is not None:
            bad[number] = (status, reasons[number] or "")
        elif boot_id in torn:
            bad[number] = (boots[boot_id].status, boots[boot_id].reason)
    ok = np.ones(len(found), dtype=np.bool_)
    ok[list(bad)] = False
    return Values(
        boots=boots,
        kinds=tuple((text_out(workload), text_out(rw)) for workload, rw in known),
        boot=np.array(boot_ids, dtype=np.int64),
        trial=np.array(trials, dtype=np.int64),
        rep=np.array(reps, dtype=np.int64),
        kind=np.array(kind, dtype=np.intp),
        measured=np.array(measured, dtype=np.float64),
        ok=ok,
        bad=bad,
    )
