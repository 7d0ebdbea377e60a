"""Old databases open, newer and foreign ones are left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from farm.errors import StoreError
from farm.store.db import Store
from farm.store.records import BootRecord, SampleRecord
from farm.store.schema import MIGRATIONS, migrate

V1 = (Path(__file__).parent / "v1.sql").read_text()


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    path = tmp_path / "v1.db"
    db = sqlite3.connect(path)
    db.executescript(V1)
    db.close()
    return path


def test_a_database_of_the_first_schema_reads_as_typed(v1: Path) -> None:
    with Store.open(v1) as store:
        (run,) = store.runs()
        assert (run.id, run.seed, run.ended, run.settings) == (
            "20251224-0001",
            7,
            1766534900.5,
            {"baseline": "ra128"},
        )
        (boot,) = store.boots(run.id)
        assert (boot.board, boot.facts["banner"], boot.flash) == (
            "rk3568",
            "Linux version 6.1",
            {"method": "netboot"},
        )
        assert boot.events == ({"kind": "new-card"},)
        trial = store.trial(1)
        assert trial.samples == (SampleRecord("read", "bw_bytes", 178657793.75),)
        assert store.raw(1) == {"out": b"hello"}
        assert [row.boot_id for row in store.outbox.waiting()] == [1]
        # And it goes on being written.
        store.commit_boot(BootRecord(run.id, "rk3568", 1, 0, "ra1024", 0, "ok", "", 1.0, 2.0))


def test_the_first_schema_is_still_made_as_it_was(v1: Path, tmp_path: Path) -> None:
    def columns(path: Path) -> list[object]:
        with sqlite3.connect(path) as db:
            return db.execute(
                "SELECT m.name, m.type, c.name, c.type, c.[notnull], c.dflt_value, c.pk"
                " FROM sqlite_schema AS m LEFT JOIN pragma_table_info(m.name) AS c ORDER BY m.name, c.cid"
            ).fetchall()

    fresh = tmp_path / "fresh.db"
    db = sqlite3.connect(fresh, isolation_level=None)
    migrate(db, fresh, MIGRATIONS[:1], create=True)
    db.close()
    assert columns(fresh) == columns(v1)


def test_an_older_database_is_migrated_step_by_step(v1: Path) -> None:
    added = (
        ("ALTER TABLE trial ADD COLUMN celsius REAL", "UPDATE trial SET celsius = 40.5 WHERE id = 1"),
        ("CREATE TABLE verdict (trial_id INTEGER REFERENCES trial (id), p REAL NOT NULL) STRICT",),
    )
    db = sqlite3.connect(v1, isolation_level=None)
    migrate(db, v1, (MIGRATIONS[0], *added))
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    assert db.execute("SELECT workload, celsius FROM trial").fetchall() == [("dd-read", 40.5)]
    assert db.execute("SELECT count(*) FROM verdict").fetchone() == (0,)
    migrate(db, v1, (MIGRATIONS[0], *added))  # nothing left to do
    assert db.execute("PRAGMA user_version").fetchone() == (3,)


def test_a_failing_migration_leaves_the_last_good_schema(v1: Path) -> None:
    steps = (
        MIGRATIONS[0],
        ("CREATE TABLE one (a INTEGER) STRICT",),
        ("CREATE TABLE two (a INTEGER) STRICT", "DELETE FROM trial", "INSERT INTO nowhere VALUES (1)"),
    )
    db = sqlite3.connect(v1, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(db, v1, steps)
    assert not db.in_transaction
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    assert db.execute("SELECT count(*) FROM trial").fetchone() == (1,)
    assert db.execute("SELECT name FROM sqlite_schema WHERE name IN ('one', 'two')").fetchall() == [("one",)]


def test_a_newer_schema_is_refused_with_both_versions(v1: Path) -> None:
    with sqlite3.connect(v1) as db:
        db.execute("PRAGMA user_version = 9")
    before = v1.read_bytes()
    with pytest.raises(
        StoreError, match=rf"v1.db has schema version 9, .* up to {len(MIGRATIONS)}; use a newer"
    ):
        Store.open(v1, create=True)
    assert v1.read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
def test_a_foreign_database_is_refused_and_untouched(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a database of farm"):
        Store.open(path, create=create)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["places.sqlite"]


def test_what_is_left_of_a_killed_creation_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    path.touch()
    with pytest.raises(StoreError, match="is empty"):
        Store.open(path)
    with Store.open(path, create=True) as store:
        assert store.runs() == []
