"""How boards were when they were looked at: results of health checks, and their last good boots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from farm.store import outbox, rows
from farm.store.codec import json_in, text_in
from farm.store.records import StoredBoot

if TYPE_CHECKING:
    from farm.store.db import Store


@dataclass(frozen=True)
class HealthRecord:
    """One look at a board. `origin` is `check`, or `run` where a campaign gave the board up; `at` UTC epoch seconds.

    `reason` is empty where it was ok; `facts` are JSON, empty where the board did not get as far as that.
    """

    board: str
    at: float
    ok: bool
    reason: str = ""
    origin: Literal["check", "run"] = "check"
    facts: Mapping[str, Any] = field(default_factory=dict)


class Health:
    """The health of boards in an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, record: HealthRecord, *, point: bytes | None = None) -> None:
        """Write one look at a board, and the `point` that tells of it into the outbox. Raises StoreError; TypeError
        where facts are not JSON."""
        with self._store.transaction(f"the health of {record.board} was not stored") as db:
            db.execute(
                "INSERT INTO health (board, at, ok, reason, origin, facts)"
                " VALUES (CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), ?, ?)",
                (
                    text_in(record.board),
                    record.at,
                    int(record.ok),
                    text_in(record.reason),
                    record.origin,
                    json_in(record.facts),
                ),
            )
            if point is not None:
                outbox.insert(db, "board", None, body=point)

    def last(self, board: str, limit: int = 20) -> list[HealthRecord]:
        """The last looks at a board, newest first."""
        with self._store.reading("the health of boards was not read") as db:
            found = db.execute(
                "SELECT board, at, ok, reason, origin, facts FROM health WHERE board = CAST(? AS TEXT)"
                " ORDER BY id DESC LIMIT ?",
                (text_in(board), limit),
            )
            return [
                HealthRecord(row[0], row[1], bool(row[2]), row[3], row[4], json.loads(row[5]))
                for row in found
            ]

    def last_good(self, board: str) -> HealthRecord | None:
        """The last check that a board passed."""
        with self._store.reading("the health of boards was not read") as db:
            row = db.execute(
                "SELECT board, at, ok, reason, origin, facts FROM health"
                " WHERE board = CAST(? AS TEXT) AND ok = 1 ORDER BY id DESC LIMIT 1",
                (text_in(board),),
            ).fetchone()
        return HealthRecord(row[0], row[1], True, row[3], row[4], json.loads(row[5])) if row else None

    def facts(self, boards: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """What these boards said of themselves in the last check that they passed, else in their last good boot."""
        boots = self.good_boots()
        found: dict[str, Mapping[str, Any]] = {}
        for board in boards:
            if (check := self.last_good(board)) is not None and check.facts:
                found[board] = check.facts
            elif board in boots:
                found[board] = boots[board].facts
        return found

    def good_boots(self) -> dict[str, StoredBoot]:
        """The last good boot of every board that had one, by board; imported runs are not boots of ours."""
        with self._store.reading("the last boots were not read") as db:
            found = rows.boots(
                db,
                "WHERE id IN (SELECT max(boot.id) FROM boot JOIN run ON run.id = run_id WHERE boot.status = 'ok'"
                " AND coalesce(json_extract(settings, '$.imported'), 0) = 0 GROUP BY board)",
            )
        return {boot.board: boot for boot in found}
