"""What servers outside have not got yet. Rows enter together with what they stand for, so none is lost."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farm.store.codec import text_in

if TYPE_CHECKING:
    from farm.store.db import Store


@dataclass(frozen=True)
class OutboxRow:
    """One thing to send. `kind` says what: `boot`, `run`, or what `Outbox.put` was given.

    `body` is opaque to the store, and None where the record itself (`run_id`, `boot_id`) is meant and was not
    rendered yet. `refused` holds the server's words, empty while the row waits. `created` is UTC epoch seconds.
    """

    id: int
    kind: str
    run_id: str | None
    boot_id: int | None
    created: float
    body: bytes | None
    refused: str


class Outbox:
    """The outbox of an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, kind: str, body: bytes, *, run_id: str | None = None) -> None:
        """Add something beside boots and runs, which enter by themselves."""
        with self._store.transaction(f"a {kind} was not put into the outbox") as db:
            insert(db, kind, run_id, body=body)

    def waiting(self, limit: int = 100, *, after: int = 0) -> list[OutboxRow]:
        """What is neither sent nor refused, oldest first, at most `limit`, with ids above `after`."""
        with self._store.reading("the outbox was not read") as db:
            rows = db.execute(
                "SELECT id, kind, run_id, boot_id, created, body, refused FROM outbox"
                " WHERE sent IS NULL AND refused = '' AND id > ? ORDER BY id LIMIT ?",
                (after, limit),
            )
            return [OutboxRow(*row) for row in rows]

    def tally(self) -> tuple[int, int]:
        """How many rows wait, and how many were refused."""
        with self._store.reading("the outbox was not read") as db:
            counts = db.execute(
                "SELECT (SELECT count(*) FROM outbox WHERE sent IS NULL AND refused = ''),"
                " (SELECT count(*) FROM outbox WHERE refused <> '')"
            )
            waiting, refused = counts.fetchone()
            return waiting, refused

    def fill(self, bodies: Mapping[int, bytes]) -> None:
        """Keep what rows without a body are sent as, so that it is made once and is the same every time."""
        with self._store.transaction("the outbox was not updated") as db:
            db.executemany(
                "UPDATE outbox SET body = ? WHERE id = ?", [(body, row) for row, body in bodies.items()]
            )

    def refused(self) -> list[OutboxRow]:
        """What a server refused for good, with its words."""
        with self._store.reading("the outbox was not read") as db:
            rows = db.execute(
                "SELECT id, kind, run_id, boot_id, created, body, refused FROM outbox"
                " WHERE refused <> '' ORDER BY id"
            )
            return [OutboxRow(*row) for row in rows]

    def mark_sent(self, ids: Iterable[int]) -> None:
        """Note that the server has these rows."""
        now = time.time()
        with self._store.transaction("the outbox was not updated") as db:
            db.executemany("UPDATE outbox SET sent = ? WHERE id = ?", [(now, row) for row in ids])

    def mark_refused(self, row_id: int, words: str) -> None:
        """Set a row aside with the server's words, so that the rest goes on."""
        with self._store.transaction("the outbox was not updated") as db:
            db.execute(
                "UPDATE outbox SET refused = CAST(? AS TEXT) WHERE id = ?",
                (text_in(words or "refused without a word"), row_id),
            )

    def requeue(self) -> int:
        """Let everything wait again, sent and refused alike; how many rows that are."""
        with self._store.transaction("the outbox was not updated") as db:
            changed = db.execute(
                "UPDATE outbox SET sent = NULL, refused = '' WHERE sent IS NOT NULL OR refused <> ''"
            )
            return changed.rowcount


def insert(
    db: sqlite3.Connection,
    kind: str,
    run_id: str | None,
    *,
    boot_id: int | None = None,
    body: bytes | None = None,
) -> None:
    """Add a row inside the caller's transaction."""
    db.execute(
        "INSERT INTO outbox (kind, run_id, boot_id, created, body)"
        " VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?)",
        (text_in(kind), None if run_id is None else text_in(run_id), boot_id, time.time(), body),
    )
