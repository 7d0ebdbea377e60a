"""The record of truth: one SQLite file, written by one process at a time, read by any number."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from farm.errors import StoreError, UserError
from farm.store import outbox, rows
from farm.store.codec import MAX_RAW, Packed, json_in, pack, text_in, text_out, unpack
from farm.store.failure import sentences
from farm.store.health import Health
from farm.store.records import (
    BootRecord,
    RunRecord,
    RunStatus,
    StoredBoot,
    StoredTrial,
    Tally,
    TrialRecord,
)
from farm.store.schema import migrate

if TYPE_CHECKING:
    from farm.store.values import Values


class Store:
    """An open store. A connection belongs to the thread and process that opened it: others open their own."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = db, path
        self.outbox = outbox.Outbox(self)
        self.health = Health(self)

    @classmethod
    def open(cls, path: Path | str, *, create: bool = False, wait_s: float = 30.0) -> Store:
        """Open the database at `path`, bringing an older schema up to date; `create` makes one where none is.

        `wait_s` is how many seconds to wait for another writer. Raises StoreError for a missing file, a file
        that is not a farm database, a newer schema, and everything that SQLite or the disk refuses.
        """
        path = Path(path).absolute()
        with sentences(path, "the database was not opened"):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise StoreError(f"there is no results database at {path}; `farm demo` makes one")
            # SQLite makes files beside the database, so the directory counts as well
            readonly = path.exists() and not all(os.access(one, os.W_OK) for one in (path, path.parent))
            mode = "ro" if readonly else "rwc" if create else "rw"
            if readonly and not Path(f"{path}-wal").exists():
                mode += "&immutable=1"  # an archived copy: without it, SQLite wants to make files beside it
            db = sqlite3.connect(
                f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=wait_s, isolation_level=None
            )
            try:
                db.text_factory = text_out
                db.execute("PRAGMA foreign_keys = ON")
                db.execute("PRAGMA trusted_schema = OFF")
                migrate(db, path, create=create)
                if not readonly:  # after migrate, so that nothing is changed in a database that is not farm's
                    db.execute("PRAGMA journal_mode = WAL")
                    db.execute("PRAGMA synchronous = FULL")
            except BaseException:
                db.close()
                raise
        return cls(db, path)

    def close(self) -> None:
        """Close the connection; what was committed is on disk already."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def reading(self, what: str) -> Iterator[sqlite3.Connection]:
        """The connection for SELECTs of this package, which all see one moment; a failure is a StoreError: `what`."""
        with sentences(self.path, what):
            self._db.execute("BEGIN")  # else a boot committed between two of them would be half seen
            try:
                yield self._db
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        """The connection for writes of this package, all or nothing; a failure is a StoreError: `what`."""
        with sentences(self.path, what):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # where the disk is full, SQLite has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise

    # ---- writing -------------------------------------------------------------------------------------------

    def begin_run(self, run: RunRecord) -> None:
        """Write a run before its first boot. Raises StoreError if the id is taken."""
        with self.transaction(f"run {run.id} was not begun") as db:
            _insert_run(db, run)

    def set_settings(self, run_id: str, settings: Mapping[str, Any]) -> None:
        """Replace a run's settings, as when a board joins it. Raises StoreError if the run is unknown."""
        with self.transaction(f"the settings of run {run_id} were not stored") as db:
            changed = db.execute(
                "UPDATE run SET settings = ? WHERE id = CAST(? AS TEXT)", (json_in(settings), text_in(run_id))
            )
            if changed.rowcount != 1:
                raise StoreError(
                    f"{self.path}: the settings of run {run_id} were not stored: the run was never begun"
                )

    def commit_boot(self, boot: BootRecord) -> int:
        """Write a boot with its trials, samples, raw output, events and outbox row, all or nothing; its id.

        Raises StoreError if the run is unknown, or this attempt at this boot is committed already, or nothing
        could be written; TypeError if facts, flash, events or console_bytes are not JSON.
        """
        packed = pack(boot.trials)  # before the lock is taken: packing is what takes time
        where = f"boot {boot.index} of {boot.board} in run {boot.run_id} (attempt {boot.attempt})"
        with self.transaction(f"{where} was not stored") as db:
            return _insert_boot(db, boot, packed)

    def finish_run(self, run_id: str, status: RunStatus, *, ended: float | None = None) -> None:
        """Write a run's end (UTC epoch seconds, default now) and put it into the outbox."""
        ended = time.time() if ended is None else ended
        with self.transaction(f"the end of run {run_id} was not stored") as db:
            changed = db.execute(
                "UPDATE run SET status = ?, ended = ? WHERE id = CAST(? AS TEXT)",
                (status, ended, text_in(run_id)),
            )
            if changed.rowcount != 1:
                raise StoreError(
                    f"{self.path}: the end of run {run_id} was not stored: the run was never begun"
                )
            outbox.insert(db, "run", run_id)

    def import_samples(self, run: RunRecord, boots: Iterable[BootRecord]) -> None:
        """Write a run that farm did not measure; if it is there and imported, the boots are added to it.

        `settings["imported"]` has to be true: readers then take number and order of boots as unknown and
        nothing as proven. Raises StoreError as commit_boot does, and for a run that farm measured itself;
        ValueError for a run that is not marked.
        """
        if not run.settings.get("imported"):
            raise ValueError("an imported run has settings['imported'] = True")
        packed = [(boot, pack(boot.trials)) for boot in boots]
        with self.transaction(f"run {run.id} was not imported") as db:
            found = rows.runs(db, "WHERE id = CAST(? AS TEXT)", text_in(run.id))
            if not found:
                _insert_run(db, run)
                outbox.insert(db, "run", run.id)
            elif not found[0].settings.get("imported"):
                raise StoreError(
                    f"{self.path}: farm measured run {run.id} itself, so nothing can be imported into it"
                )
            for boot, streams in packed:
                _insert_boot(db, boot, streams)

    # ---- reading -------------------------------------------------------------------------------------------

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        with self.reading("the runs were not read") as db:
            return rows.runs(db, "ORDER BY started, id")

    def run(self, name: str) -> RunRecord:
        """The run with this id, the only one beginning with it, or the `latest`; else UserError."""
        with self.reading("the run was not read") as db:
            if name == "latest":
                if not (found := rows.runs(db, "ORDER BY started DESC, id DESC LIMIT 1")):
                    raise UserError(f"there are no runs yet in {self.path}; `farm run CAMPAIGN` makes one")
                return found[0]
            key = text_in(name)
            if exact := rows.runs(db, "WHERE id = CAST(? AS TEXT)", key):
                return exact[0]
            begins = "WHERE substr(id, 1, length(CAST(? AS TEXT))) = CAST(? AS TEXT) ORDER BY started LIMIT 4"
            found = rows.runs(db, begins, key, key)
        if not name or not found:
            raise UserError(f"no run is called {name!r} in {self.path}; `farm runs` lists them")
        if len(found) > 1:
            names = ", ".join(run.id for run in found[:3]) + (", ..." if len(found) > 3 else "")
            raise UserError(f"several runs begin with {name!r} ({names}); give more of the id")
        return found[0]

    def tallies(self) -> dict[str, Tally]:
        """Boards, boots by status, and trials of each run, by run id; runs without a boot are left out."""
        with self.reading("the runs were not counted") as db:
            boots = db.execute(
                "SELECT run_id, count(DISTINCT board), sum(status = 'ok'), sum(status = 'void'),"
                " sum(status = 'failed') FROM boot GROUP BY run_id"
            ).fetchall()
            trials = db.execute(
                "SELECT run_id, count(*), min(trial.id), max(trial.id)"
                " FROM boot JOIN trial ON boot_id = boot.id GROUP BY run_id"
            )
            of_trials = {row[0]: row[1:] for row in trials}
            return {row[0]: Tally(*row[1:], *of_trials.get(row[0], (0, 0, 0))) for row in boots}

    def boots(self, run_id: str, *, board: str | None = None) -> list[StoredBoot]:
        """All attempts at all boots of a run, or of one of its boards, without their trials, by board, index and attempt."""
        with self.reading("the boots were not read") as db:
            where, values = "WHERE run_id = CAST(? AS TEXT)", [text_in(run_id)]
            if board is not None:
                where, values = f"{where} AND board = CAST(? AS TEXT)", [*values, text_in(board)]
            return rows.boots(db, f"{where} ORDER BY board, boot_index, attempt", *values)

    def boot(self, boot_id: int) -> StoredBoot:
        """One boot by its id, without its trials. Raises UserError if there is none."""
        with self.reading("the boot was not read") as db:
            found = rows.boots(db, "WHERE id = ?", boot_id) if _is_rowid(boot_id) else []
        if not found:
            raise UserError(f"there is no boot {boot_id} in {self.path}")
        return found[0]

    def trials(self, run_id: str, *, boot_id: int | None = None) -> list[StoredTrial]:
        """Trials of a run, or of one of its boots, in the order in which each board ran them, without raw output."""
        with self.reading("the trials were not read") as db:
            where: str = "WHERE run_id = CAST(? AS TEXT)"
            values: list[bytes | str | int] = [text_in(run_id)]
            if boot_id is not None:  # else no condition, so that a boot is found by its id and not among all
                where, values = f"{where} AND boot.id = ?", [*values, boot_id]
            return rows.trials(db, where, *values)

    def trial(self, trial_id: int) -> StoredTrial:
        """One trial by its id, with samples, without raw output. Raises UserError if there is none."""
        with self.reading("the trial was not read") as db:
            found = rows.trials(db, "WHERE trial.id = ?", trial_id) if _is_rowid(trial_id) else []
        if not found:
            raise UserError(f"there is no trial {trial_id} in {self.path}; `farm compare RUN` names some")
        return found[0]

    def raw(self, trial_id: int, *, limit: int = MAX_RAW) -> dict[str, bytes]:
        """Complete raw output of a trial, byte for byte as the board gave it, by kind.

        Raises StoreError if a kind is larger than `limit` bytes or does not unpack to what was stored.
        """
        with self.reading("the raw output was not read") as db:
            found = db.execute("SELECT kind, size, zlib FROM raw WHERE trial_id = ? ORDER BY id", (trial_id,))
            return {
                kind: unpack(stream, size, limit, f"{self.path}: raw output {kind} of trial {trial_id}")
                for kind, size, stream in found
            }

    def values(self, run_id: str, metric: str = "bw_bytes") -> Values:
        """What every trial of a run measured in one metric, good or not; see Values and ValueRow."""
        from farm.store import values  # numpy, which most commands do without

        with self.reading("the values were not read") as db:
            return values.read(db, run_id, metric)


def _is_rowid(number: int) -> bool:
    return 0 < number < 2**63


def _insert_run(db: sqlite3.Connection, run: RunRecord) -> None:
    db.execute(
        "INSERT INTO run (id, campaign, campaign_text, seed, started, ended, status, note, host, version,"
        " settings) VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, CAST(? AS TEXT),"
        " CAST(? AS TEXT), CAST(? AS TEXT), ?)",
        (
            text_in(run.id),
            text_in(run.campaign),
            text_in(run.campaign_text),
            run.seed,
            run.started,
            run.ended,
            run.status,
            text_in(run.note),
            text_in(run.host),
            text_in(run.version),
            json_in(run.settings),
        ),
    )


def _insert_boot(db: sqlite3.Connection, boot: BootRecord, packed: list[list[Packed]]) -> int:
    boot_id = db.execute(
        "INSERT INTO boot (run_id, board, boot_index, block, variant, attempt, status, reason, started,"
        " ended, facts, flash, log_path, console_bytes) VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?, ?,"
        " CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), ?, ?, ?, ?, CAST(? AS TEXT), ?)",
        (
            text_in(boot.run_id),
            text_in(boot.board),
            boot.index,
            boot.block,
            text_in(boot.variant),
            boot.attempt,
            boot.status,
            text_in(boot.reason),
            boot.started,
            boot.ended,
            json_in(boot.facts),
            json_in(boot.flash),
            text_in(boot.log_path),
            json_in(boot.console_bytes),
        ),
    ).lastrowid
    assert boot_id is not None
    db.executemany(
        "INSERT INTO event (boot_id, seq, body) VALUES (?, ?, ?)",
        [(boot_id, seq, json_in(event)) for seq, event in enumerate(boot.events)],
    )
    for trial, streams in zip(boot.trials, packed, strict=True):
        _insert_trial(db, boot_id, trial, streams)
    outbox.insert(db, "boot", boot.run_id, boot_id=boot_id)
    return boot_id


def _insert_trial(db: sqlite3.Connection, boot_id: int, trial: TrialRecord, streams: list[Packed]) -> None:
    trial_id = db.execute(
        "INSERT INTO trial (boot_id, workload, rep, status, reason, command, started, seconds, facts)"
        " VALUES (?, CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?)",
        (
            boot_id,
            text_in(trial.workload),
            trial.rep,
            trial.status,
            text_in(trial.reason),
            text_in(trial.command),
            trial.started,
            trial.seconds,
            json_in(trial.facts),
        ),
    ).lastrowid
    db.executemany(
        "INSERT INTO sample (trial_id, metric, rw, value) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?)",
        [(trial_id, text_in(sample.metric), text_in(sample.rw), sample.value) for sample in trial.samples],
    )
    db.executemany(
        "INSERT INTO raw (trial_id, kind, size, zlib) VALUES (?, CAST(? AS TEXT), ?, ?)",
        [(trial_id, text_in(kind), size, stream) for kind, size, stream in streams],
    )
