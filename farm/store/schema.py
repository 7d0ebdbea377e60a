"""The database's tables, as an ordered list of migrations: a released one is never edited, only followed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from farm.errors import StoreError

APPLICATION_ID = 0x6661726D  # "farm", in the file's header, so that other databases are told apart

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE run (
            id TEXT PRIMARY KEY,
            campaign TEXT NOT NULL,
            campaign_text TEXT NOT NULL,
            seed INTEGER NOT NULL,
            started REAL NOT NULL,
            ended REAL,
            status TEXT NOT NULL CHECK (status IN ('running', 'done', 'interrupted', 'failed')),
            note TEXT NOT NULL,
            host TEXT NOT NULL,
            version TEXT NOT NULL,
            settings TEXT NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE boot (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES run (id),
            board TEXT NOT NULL,
            boot_index INTEGER NOT NULL,
            block INTEGER NOT NULL,
            variant TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('ok', 'void', 'failed')),
            reason TEXT NOT NULL,
            started REAL NOT NULL,
            ended REAL NOT NULL,
            facts TEXT NOT NULL,
            flash TEXT NOT NULL,
            log_path TEXT NOT NULL,
            console_bytes TEXT NOT NULL,
            UNIQUE (run_id, board, boot_index, attempt)
        ) STRICT
        """,
        """
        CREATE TABLE event (
            boot_id INTEGER NOT NULL REFERENCES boot (id),
            seq INTEGER NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (boot_id, seq)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE trial (
            id INTEGER PRIMARY KEY,
            boot_id INTEGER NOT NULL REFERENCES boot (id),
            workload TEXT NOT NULL,
            rep INTEGER NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('ok', 'void', 'failed')),
            reason TEXT NOT NULL,
            command TEXT NOT NULL,
            started REAL NOT NULL,
            seconds REAL NOT NULL,
            facts TEXT NOT NULL,
            UNIQUE (boot_id, workload, rep)
        ) STRICT
        """,
        # Holds the rowid too: the trials of a boot come in the order in which they ran, without a sort.
        "CREATE INDEX trial_in_order ON trial (boot_id)",
        # The primary key is the way in which statistics ask: one metric of every trial.
        """
        CREATE TABLE sample (
            trial_id INTEGER NOT NULL REFERENCES trial (id),
            metric TEXT NOT NULL,
            rw TEXT NOT NULL,
            value REAL NOT NULL,
            PRIMARY KEY (trial_id, metric, rw)
        ) STRICT, WITHOUT ROWID
        """,
        # A table of its own, so that reading numbers never drags output through the cache.
        """
        CREATE TABLE raw (
            id INTEGER PRIMARY KEY,
            trial_id INTEGER NOT NULL REFERENCES trial (id),
            kind TEXT NOT NULL,
            size INTEGER NOT NULL,
            zlib BLOB NOT NULL,
            UNIQUE (trial_id, kind)
        ) STRICT
        """,
        """
        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            run_id TEXT REFERENCES run (id),
            boot_id INTEGER REFERENCES boot (id),
            created REAL NOT NULL,
            sent REAL,
            refused TEXT NOT NULL DEFAULT '',
            body BLOB
        ) STRICT
        """,
        "CREATE INDEX outbox_waiting ON outbox (id) WHERE sent IS NULL AND refused = ''",
    ),
    (
        """
        CREATE TABLE health (
            id INTEGER PRIMARY KEY,
            board TEXT NOT NULL,
            at REAL NOT NULL,
            ok INTEGER NOT NULL CHECK (ok IN (0, 1)),
            reason TEXT NOT NULL,
            origin TEXT NOT NULL CHECK (origin IN ('check', 'run')),
            facts TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX health_by_board ON health (board, id)",
    ),
)


def migrate(
    db: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Sequence[str]] = MIGRATIONS,
    *,
    create: bool = False,
) -> None:
    """Bring an open database to the newest schema, each step in a transaction of its own.

    `create` allows an empty database to become a farm database. Raises StoreError for a database that is not
    farm's or was written by a newer farm; sqlite3.Error where a step fails, which then left nothing behind.
    """
    while _step(db, path, migrations, create=create):
        pass


def _step(db: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]], *, create: bool) -> bool:
    if _version(db, path, len(migrations), create=create) == len(migrations):
        return False
    db.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have made the step in the meantime.
        version = _version(db, path, len(migrations), create=create)
        if version < len(migrations):
            for statement in migrations[version]:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return True


def _version(db: sqlite3.Connection, path: Path, newest: int, *, create: bool) -> int:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if create and application == 0 and version == 0 and tables == 0:
            return 0
        what = "is empty" if tables == 0 and application == 0 else "is not a database of farm"
        raise StoreError(
            f"{path} {what}; name another file, or move it away and let `farm run` make a new one"
        )
    if version > newest:
        raise StoreError(
            f"{path} has schema version {version}, this farm knows versions up to {newest}; use a newer farm"
        )
    return int(version)
