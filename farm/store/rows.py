"""From rows of the database to records. Clauses are constants of this package; values are always bound."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from farm.store.records import RunRecord, SampleRecord, StoredBoot, StoredTrial

Bound = bytes | str | int | None

_RUN = (
    "SELECT id, campaign, campaign_text, seed, started, ended, status, note, host, version, settings"
    " FROM run "
)
_BOOT = (
    "SELECT run_id, board, boot_index, block, variant, attempt, status, reason, started, ended, facts, flash,"
    " log_path, console_bytes, id FROM boot "
)
_TRIAL = (
    "SELECT workload, rep, trial.status, trial.reason, command, trial.started, seconds, trial.facts,"
    " trial.id, boot_id FROM boot JOIN trial ON trial.boot_id = boot.id "
)
_SAMPLE = (
    "SELECT trial.id, rw, metric, value FROM boot JOIN trial ON trial.boot_id = boot.id"
    " JOIN sample ON trial_id = trial.id "
)


def _mapping(text: str) -> dict[str, Any]:
    """A cell's JSON object. Raises JSONDecodeError for anything else: a database may come from anywhere."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise json.JSONDecodeError("no object", text, 0)
    return found


def runs(db: sqlite3.Connection, clause: str, *bound: Bound) -> list[RunRecord]:
    """Runs that a clause selects."""
    found: list[Any] = db.execute(_RUN + clause, bound).fetchall()
    return [RunRecord(*(*row[:10], _mapping(row[10]))) for row in found]


def boots(db: sqlite3.Connection, clause: str, *bound: Bound) -> list[StoredBoot]:
    """Boots that a clause selects, with events, without trials."""
    found = []
    for row in db.execute(_BOOT + clause, bound).fetchall():
        events = db.execute("SELECT body FROM event WHERE boot_id = ? ORDER BY seq", (row[14],))
        found.append(
            StoredBoot(
                run_id=row[0],
                board=row[1],
                index=row[2],
                block=row[3],
                variant=row[4],
                attempt=row[5],
                status=row[6],
                reason=row[7],
                started=row[8],
                ended=row[9],
                facts=_mapping(row[10]),
                flash=_mapping(row[11]),
                events=tuple(_mapping(body) for (body,) in events),
                log_path=row[12],
                console_bytes=_mapping(row[13]),
                id=row[14],
            )
        )
    return found


def trials(db: sqlite3.Connection, where: str, *bound: Bound) -> list[StoredTrial]:
    """Trials that a condition on boot and trial selects, in order of execution, with samples."""
    samples: dict[int, list[SampleRecord]] = {}
    for trial_id, rw, metric, value in db.execute(f"{_SAMPLE}{where} ORDER BY trial.id, rw, metric", bound):
        samples.setdefault(trial_id, []).append(SampleRecord(rw, metric, value))
    return [
        StoredTrial(
            workload=row[0],
            rep=row[1],
            status=row[2],
            reason=row[3],
            command=row[4],
            started=row[5],
            seconds=row[6],
            samples=tuple(samples.get(row[8], ())),
            facts=_mapping(row[7]),
            id=row[8],
            boot_id=row[9],
        )
        for row in db.execute(f"{_TRIAL}{where} ORDER BY board, boot_index, attempt, trial.id", bound)
    ]
