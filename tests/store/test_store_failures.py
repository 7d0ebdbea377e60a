"""Kills, full disks, locks and wrong files: nothing half is kept, and each is one sentence."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.errors import StoreError
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, TrialRecord

MakeBoot = Callable[..., BootRecord]

TRIALS, SAMPLES, RAWS, EVENTS = 20, 3, 2, 4

# Commits boots until it is killed: a line before each commit and one after.
WRITER = textwrap.dedent(
    f"""
    import os, signal, sys
    from farm.store.db import Store
    from farm.store.records import BootRecord, SampleRecord, TrialRecord

    path, first, deadly, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    store = Store.open(path)
    if deadly:
        seen = 0
        def watch(statement):
            global seen
            seen += statement.startswith(deadly)
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)
        store._db.set_trace_callback(watch)
    index = first
    while True:
        trials = tuple(
            TrialRecord(
                "w%d" % n, 0, "ok", "", "dd", 1.0, 1.0,
                samples=tuple(SampleRecord("read", "m%d" % m, n + m / 10) for m in range({SAMPLES})),
                raw={{"out": os.urandom(20_000), "err": b"x" * 1000}},
            )
            for n in range({TRIALS})
        )
        boot = BootRecord(
            "r", "b", index, 0, "v", 0, "ok", "", 1.0, 2.0,
            events=({{"kind": "crc"}},) * {EVENTS}, trials=trials,
        )
        print("begin", index, flush=True)
        store.commit_boot(boot)
        print("committed", index, flush=True)
        index += 1
    """
)


def _writer(path: Path, first: int, deadly: str = "", count: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), deadly, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def _whole_boots(path: Path) -> list[int]:
    """Indexes of the boots in the database, each checked to have all its parts, without farm's reading code."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    parts = db.execute(
        """
        SELECT boot_index,
               (SELECT count(*) FROM trial WHERE boot_id = boot.id),
               (SELECT count(*) FROM sample JOIN trial ON trial_id = trial.id WHERE boot_id = boot.id),
               (SELECT count(*) FROM raw JOIN trial ON trial_id = trial.id WHERE boot_id = boot.id),
               (SELECT count(*) FROM event WHERE boot_id = boot.id),
               (SELECT count(*) FROM outbox WHERE boot_id = boot.id)
        FROM boot ORDER BY boot_index
        """
    ).fetchall()
    for _, *counts in parts:
        assert counts == [TRIALS, TRIALS * SAMPLES, TRIALS * RAWS, EVENTS, 1]
    totals = [
        db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("trial", "event", "outbox")
    ]
    assert totals == [TRIALS * len(parts), EVENTS * len(parts), len(parts)]  # and no orphans
    db.close()
    return [row[0] for row in parts]


@pytest.mark.parametrize(
    ("deadly", "count"),
    [
        ("INSERT INTO boot", 2),
        ("INSERT INTO event", EVENTS + 2),
        ("INSERT INTO trial", TRIALS + 10),
        ("INSERT INTO sample", TRIALS * SAMPLES + 40),
        ("INSERT INTO raw", TRIALS * RAWS + 39),
        ("INSERT INTO outbox", 2),
        ("COMMIT", 2),
    ],
)
def test_a_kill_inside_a_commit_leaves_nothing_half(db_path: Path, deadly: str, count: int) -> None:
    with Store.open(db_path, create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
    with _writer(db_path, 0, deadly, count) as child:
        said, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert said.split() == ["begin", "0", "committed", "0", "begin", "1"]
    assert _whole_boots(db_path) == [0]


def test_kills_at_any_moment_lose_nothing_that_was_committed(db_path: Path) -> None:
    with Store.open(db_path, create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
    rng = random.Random(7)
    committed: set[int] = set()
    in_commit = 0
    for round_ in range(12):
        child = _writer(db_path, 1000 * round_)
        assert child.stdout is not None
        said = [child.stdout.readline()]  # its first commit begins
        time.sleep(rng.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        said += child.stdout.read().splitlines()
        assert child.wait(timeout=60) == -signal.SIGKILL
        child.stdout.close()
        committed |= {int(line.split()[1]) for line in said if line.startswith("committed")}
        in_commit += said[-1].startswith("begin")
        found = set(_whole_boots(db_path))
        assert committed <= found
        # Committed, but killed before it could say so: at most one a round.
        assert len(found - committed) <= round_ + 1
    assert in_commit >= 3  # else this tried nothing
    with Store.open(db_path) as store:
        assert len(store.boots("r")) >= len(committed) > 0


def test_a_full_disk_is_one_sentence_and_costs_only_that_boot(
    store: Store, run: RunRecord, make_boot: MakeBoot
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(0))
    with store.reading("nothing") as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 5}")
    big = TrialRecord("w", 0, "ok", "", "dd", 0.0, 1.0, raw={"out": os.urandom(100_000)})
    with pytest.raises(
        StoreError, match=r"boot 1 of virt-a .* was not stored: the disk is full; free some space"
    ):
        store.commit_boot(make_boot(1, trials=(big,)))
    assert [boot.index for boot in store.boots(run.id)] == [0]
    with store.reading("nothing") as db:
        db.execute("PRAGMA max_page_count = 1073741823")
    store.commit_boot(make_boot(1, trials=(big,)))
    assert [boot.index for boot in store.boots(run.id)] == [0, 1]


def test_a_locked_database_is_waited_for_and_then_named(
    store: Store, db_path: Path, run: RunRecord, make_boot: MakeBoot
) -> None:
    store.begin_run(run)
    other = sqlite3.connect(db_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Store.open(db_path, wait_s=0.2) as impatient:
        began = time.monotonic()
        with pytest.raises(StoreError, match="another process keeps it locked"):
            impatient.commit_boot(make_boot())
        assert 0.15 < time.monotonic() - began < 5
        assert impatient.runs() == [run]  # readers go on
        other.execute("ROLLBACK")
        impatient.commit_boot(make_boot())
    other.close()


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "farm.db"
    with pytest.raises(StoreError, match=r"no results database at .*farm\.db; `farm demo`"):
        Store.open(missing)
    assert not missing.exists()
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at\n" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt: .*not an SQLite database"):
        Store.open(tmp_path / "notes.txt")
    with pytest.raises(StoreError, match="the database was not opened"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="the database was not opened"):
        Store.open(tmp_path / "notes.txt" / "farm.db", create=True)


def test_a_damaged_database_is_one_sentence(
    store: Store, run: RunRecord, make_boot: MakeBoot, db_path: Path
) -> None:
    store.begin_run(run)
    for index in range(30):
        store.commit_boot(make_boot(index))
    store.close()
    data = bytearray(db_path.read_bytes())
    data[4096 * 2 :] = os.urandom(len(data) - 4096 * 2)
    db_path.write_bytes(data)
    with Store.open(db_path) as again, pytest.raises(StoreError, match=r"farm\.db: .*the file is damaged"):
        again.trials(run.id)


def test_an_archived_copy_is_read_where_nothing_may_be_written(
    store: Store, run: RunRecord, make_boot: MakeBoot, db_path: Path
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot())
    store.close()
    code = textwrap.dedent(
        """
        import os, sys
        from farm.errors import StoreError
        from farm.store.db import Store
        if os.geteuid() == 0:  # root may write everywhere
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        with Store.open(sys.argv[1]) as store:
            print(len(store.trials("20260103-a1b2")), store.raw(1)["err"])
            try:
                store.finish_run("20260103-a1b2", "done")
            except StoreError as error:
                print(error)
        """
    )
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        archive = Path(name)
        shutil.copy(db_path, archive)
        (archive / "farm.db").chmod(0o444)
        archive.chmod(0o555)
        child = subprocess.run(
            [sys.executable, "-c", code, str(archive / "farm.db")], capture_output=True, text=True, timeout=60
        )
        left = [entry.name for entry in archive.iterdir()]
        archive.chmod(0o755)
    assert child.stdout.startswith("1 b''\n"), child.stderr
    assert "it may only be read" in child.stdout
    assert left == ["farm.db"]


def test_a_disk_too_full_even_to_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "farm.db"
    path.mkdir()  # SQLite cannot open it, as where it has no room for the files beside a database
    with pytest.raises(StoreError, match="look whether it is a file on a sound disk"):
        Store.open(path)
    monkeypatch.setattr(
        "shutil.disk_usage", lambda where: SimpleNamespace(total=1 << 20, used=1 << 20, free=0)
    )
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        Store.open(path)
