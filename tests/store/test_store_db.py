"""What goes into the store comes out of it, whole and once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.errors import StoreError, UserError
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord, ValueRow

MakeBoot = Callable[..., BootRecord]


def test_everything_of_a_boot_comes_back(
    store: Store, db_path: Path, run: RunRecord, make_boot: MakeBoot
) -> None:
    boot = make_boot(3)
    store.begin_run(run)
    boot_id = store.commit_boot(boot)
    store.close()
    with Store.open(db_path) as again:
        assert again.runs() == [run]
        (found,) = again.boots(run.id)
        assert found == again.boot(boot_id)
        (trial,) = again.trials(run.id)
        assert trial == again.trial(trial.id)
        assert trial.boot_id == boot_id
        assert again.raw(trial.id) == boot.trials[0].raw
        whole = asdict(trial) | {"raw": again.raw(trial.id)}
        del whole["id"], whole["boot_id"]
        assert whole == asdict(boot.trials[0])
        head = asdict(found) | {"trials": asdict(boot)["trials"]}
        del head["id"]
        assert head == asdict(boot)


def test_the_file_is_crash_safe_by_its_settings(store: Store, db_path: Path) -> None:
    with store.reading("nothing") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)


@pytest.mark.parametrize(
    "what", ["reason", "log_path", "board", "variant", "run note", "campaign_text", "fact"]
)
def test_hostile_text_comes_back_as_it_was(
    what: str, store: Store, run: RunRecord, make_boot: MakeBoot, hostile: bytes
) -> None:
    # Both ways in which a program gets such bytes into a str, and what JSON with a lone surrogate decodes to.
    for text in (hostile.decode("utf-8", "surrogateescape"), hostile.decode("latin-1"), '\ud800"'):
        started = replace(run, id=f"run-{len(store.runs())}")
        if what == "campaign_text":
            started = replace(started, campaign_text=text)
        if what == "run note":
            started = replace(started, note=text)
        store.begin_run(started)
        changes = {what: text} if what in BootRecord.__dataclass_fields__ else {}
        if what == "fact":
            changes["facts"] = {text: [text]}
        store.commit_boot(make_boot(run_id=started.id, **changes))
        store.finish_run(started.id, "failed")
        (boot,) = store.boots(started.id)
        shown = store.run(started.id)
        back = {"run note": shown.note, "campaign_text": shown.campaign_text, "fact": boot.facts}
        assert back.get(what, getattr(boot, what, None)) == ({text: [text]} if what == "fact" else text)


@settings(max_examples=40, deadline=None)
@given(raw=st.dictionaries(st.text(min_size=1), st.binary(), max_size=4), command=st.text())
def test_any_output_and_any_command_come_back(
    raw: dict[str, bytes], command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Store.open(tmp_path_factory.mktemp("any") / "farm.db", create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
        trial = TrialRecord("w", 0, "ok", "", command, 0.0, 1.0, raw=raw)
        store.commit_boot(BootRecord("r", "b", 0, 0, "v", 0, "ok", "", 0.0, 1.0, trials=(trial,)))
        (found,) = store.trials("r")
        assert (found.command, store.raw(found.id)) == (command, raw)


def test_the_same_attempt_is_committed_once(store: Store, run: RunRecord, make_boot: MakeBoot) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(1, status="failed", reason="panic"))
    with pytest.raises(
        StoreError, match=r"boot 1 of virt-a .*attempt 0\) was not stored: it is committed already"
    ):
        store.commit_boot(make_boot(1))
    store.commit_boot(make_boot(1, attempt=1))
    store.commit_boot(make_boot(1, board="virt-b"))
    assert [(boot.board, boot.attempt, boot.status) for boot in store.boots(run.id)] == [
        ("virt-a", 0, "failed"),
        ("virt-a", 1, "ok"),
        ("virt-b", 0, "ok"),
    ]
    assert len(store.trials(run.id)) == 3


def test_a_boot_that_cannot_be_stored_leaves_nothing(
    store: Store, run: RunRecord, make_boot: MakeBoot
) -> None:
    store.begin_run(run)
    trial = make_boot().trials[0]
    twice = replace(trial, rep=1, samples=(trial.samples[0], trial.samples[0]))
    with pytest.raises(StoreError, match="a trial has the same metric and direction twice"):
        store.commit_boot(make_boot(trials=(trial, twice)))
    with pytest.raises(StoreError, match="the same repetition of a workload twice"):
        store.commit_boot(make_boot(trials=(trial, trial)))
    with pytest.raises(TypeError):
        store.commit_boot(make_boot(facts={"path": Path("/")}))
    with pytest.raises(StoreError, match="its run was never begun"):
        store.commit_boot(make_boot(run_id="other"))
    with pytest.raises(StoreError, match="CHECK"):
        store.commit_boot(make_boot(status="fine"))
    assert (store.boots(run.id), store.trials(run.id), store.outbox.waiting()) == ([], [], [])
    assert store.commit_boot(make_boot()) > 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_sample(value: float) -> None:
    with pytest.raises(ValueError, match="no measurement"):
        SampleRecord("read", "bw_bytes", value)


def test_runs_are_found_by_the_beginning_of_their_id(store: Store, run: RunRecord) -> None:
    with pytest.raises(UserError, match="no runs yet"):
        store.run("latest")
    for name, started in (("20260103-a1b2", 20.0), ("20260103-a9", 30.0), ("2026", 10.0), ("x%_", 5.0)):
        store.begin_run(replace(run, id=name, started=started))
    assert store.run("20260103-a1").id == "20260103-a1b2"
    assert store.run("2026").id == "2026"  # an exact id, although others begin with it
    assert store.run("latest").id == "20260103-a9"
    assert store.run("x%").id == "x%_"
    with pytest.raises(UserError, match=r"several runs begin with '20260103' \(20260103-a1b2, 20260103-a9\)"):
        store.run("20260103")
    for wrong in ("", "%", "nope", "\udcff", "x_"):
        with pytest.raises(UserError, match="no run is called"):
            store.run(wrong)


def test_ids_that_are_not_there_are_the_users_mistake(store: Store) -> None:
    for number in (0, -1, 7, 2**63, 10**30):
        with pytest.raises(UserError, match=f"no trial {number}"):
            store.trial(number)
        with pytest.raises(UserError, match=f"no boot {number}"):
            store.boot(number)


def test_a_run_ends_once_it_has_begun(store: Store, run: RunRecord) -> None:
    store.begin_run(run)
    with pytest.raises(StoreError, match="this id is taken"):
        store.begin_run(run)
    store.finish_run(run.id, "interrupted", ended=1767400500.0)
    assert store.run("latest") == replace(run, status="interrupted", ended=1767400500.0)
    with pytest.raises(StoreError, match="never begun"):
        store.finish_run("other", "done")


def test_values_hold_one_row_per_trial_and_direction(
    store: Store, run: RunRecord, make_boot: MakeBoot
) -> None:
    mixed = TrialRecord(
        "randrw", 0, "ok", "", "fio", 2.0, 1.0,
        samples=(SampleRecord("write", "bw_bytes", 2e6), SampleRecord("read", "bw_bytes", 3e6)),
    )  # fmt: skip
    void = replace(mixed, workload="read", status="void", reason="other kernel than flashed", samples=())
    store.begin_run(run)
    second = store.commit_boot(make_boot(1, attempt=1, trials=(mixed, void)))
    torn = store.commit_boot(make_boot(1, status="failed", reason="panic", trials=(void, mixed)))
    first = store.commit_boot(make_boot(0, trials=(replace(mixed, rep=1), mixed)))
    assert [row._replace(trial_id=0) for row in store.values(run.id)] == [
        ValueRow("virt-a", "ra128", first, 0, 1767400001.0, "randrw", "read", 1, "ok", 3e6, 0, ""),
        ValueRow("virt-a", "ra128", first, 0, 1767400001.0, "randrw", "write", 1, "ok", 2e6, 0, ""),
        ValueRow("virt-a", "ra128", first, 0, 1767400001.0, "randrw", "read", 0, "ok", 3e6, 0, ""),
        ValueRow("virt-a", "ra128", first, 0, 1767400001.0, "randrw", "write", 0, "ok", 2e6, 0, ""),
        ValueRow(
            "virt-a",
            "ra1024",
            torn,
            1,
            1767400002.0,
            "read",
            "",
            0,
            "void",
            None,
            0,
            "other kernel than flashed",
        ),
        # Good by itself, but its boot was torn and is repeated.
        ValueRow("virt-a", "ra1024", torn, 1, 1767400002.0, "randrw", "read", 0, "failed", 3e6, 0, "panic"),
        ValueRow("virt-a", "ra1024", torn, 1, 1767400002.0, "randrw", "write", 0, "failed", 2e6, 0, "panic"),
        ValueRow("virt-a", "ra1024", second, 1, 1767400002.0, "randrw", "read", 0, "ok", 3e6, 0, ""),
        ValueRow("virt-a", "ra1024", second, 1, 1767400002.0, "randrw", "write", 0, "ok", 2e6, 0, ""),
        ValueRow(
            "virt-a",
            "ra1024",
            second,
            1,
            1767400002.0,
            "read",
            "",
            0,
            "void",
            None,
            0,
            "other kernel than flashed",
        ),
    ]
    assert store.values(run.id, "lat_p99_ns")[0].value is None
    assert not list(store.values("other"))
    assert [trial.status for trial in store.trials(run.id)].count("void") == 2
    assert [trial.workload for trial in store.trials(run.id, boot_id=torn)] == ["read", "randrw"]
    assert store.tallies()[run.id] == (1, 2, 0, 1, 6, 1, 6)


def test_a_reader_sees_no_half_of_a_boot_that_is_committed_meanwhile(
    store: Store, db_path: Path, run: RunRecord, make_boot: MakeBoot
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(0))
    index = 0

    with Store.open(db_path) as reader:

        def commit_between(statement: str) -> None:
            nonlocal index
            if statement.startswith("SELECT"):
                index += 1
                store.commit_boot(make_boot(index))

        reader._db.set_trace_callback(commit_between)
        for read in (reader.trials, reader.values, reader.boots):
            before = index
            assert len(read(run.id)) >= 1
            assert index > before  # something was committed while this read
        trials = reader.trials(run.id)
        assert all(len(trial.samples) == 2 for trial in trials) and len(trials) > 3
        assert all(row.value is not None for row in reader.values(run.id))
        assert all(len(boot.events) == 2 for boot in reader.boots(run.id))
        tally = reader.tallies()[run.id]
        assert tally.trials == tally.boots_ok  # one trial a boot


def test_an_import_is_marked_and_may_grow(store: Store, run: RunRecord, make_boot: MakeBoot) -> None:
    posted = replace(run, id="posted", settings={"imported": True, "baseline": "before"})
    with pytest.raises(ValueError, match="imported"):
        store.import_samples(run, [])
    store.import_samples(posted, [make_boot(0, run_id="posted", variant="before")])
    store.import_samples(posted, [make_boot(1, run_id="posted", variant="after")])
    assert [boot.variant for boot in store.boots("posted")] == ["before", "after"]
    with pytest.raises(StoreError, match="committed already"):
        store.import_samples(posted, [make_boot(2, run_id="posted"), make_boot(0, run_id="posted")])
    assert len(store.boots("posted")) == 2
    store.begin_run(run)
    with pytest.raises(StoreError, match="farm measured run 20260103-a1b2 itself"):
        store.import_samples(replace(posted, id=run.id), [make_boot(0)])


def test_a_large_console_log_comes_back(
    store: Store, run: RunRecord, make_boot: MakeBoot, hostile: bytes
) -> None:
    log = (hostile + b"[    1.0] mmc0: error\n") * (50_000_000 // (len(hostile) + 22))
    store.begin_run(run)
    store.commit_boot(make_boot(trials=(replace(make_boot().trials[0], raw={"out": log}),)))
    (trial,) = store.trials(run.id)
    assert store.raw(trial.id) == {"out": log}
    with pytest.raises(
        StoreError, match=r"raw output out of trial 1 is \d+ bytes long, more than the 1000 that"
    ):
        store.raw(trial.id, limit=1000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("zlib = zeroblob(9)", "damaged: Error -3"),
        ("zlib = substr(zlib, 1, length(zlib) - 5)", "does not unpack to the 5000000 bytes"),
        ("size = 4999999", "does not unpack to the 4999999 bytes"),
        ("size = 5000001", "does not unpack to the 5000001 bytes"),
    ],
)
def test_damaged_output_is_an_error_and_no_bomb(
    change: str, words: str, store: Store, run: RunRecord, make_boot: MakeBoot, db_path: Path
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(trials=(replace(make_boot().trials[0], raw={"out": b"\0" * 5_000_000}),)))
    with sqlite3.connect(db_path) as other:
        other.execute(f"UPDATE raw SET {change}")
    with pytest.raises(StoreError, match=words):
        store.raw(1)


def test_the_outbox_holds_what_was_committed(store: Store, run: RunRecord, make_boot: MakeBoot) -> None:
    store.begin_run(run)
    first, second = store.commit_boot(make_boot(0)), store.commit_boot(make_boot(1))
    store.finish_run(run.id, "done")
    store.outbox.put("verdict", b"verdict,board=a ratio=1.2", run_id=run.id)
    store.outbox.put("board", b"\xff\x00")
    waiting = store.outbox.waiting()
    assert [(row.kind, row.run_id, row.boot_id, row.body) for row in waiting] == [
        ("boot", run.id, first, None),
        ("boot", run.id, second, None),
        ("run", run.id, None, None),
        ("verdict", run.id, None, b"verdict,board=a ratio=1.2"),
        ("board", None, None, b"\xff\x00"),
    ]
    assert store.outbox.waiting(limit=2, after=waiting[0].id) == waiting[1:3]
    store.outbox.mark_sent([waiting[0].id, waiting[4].id])
    store.outbox.mark_refused(waiting[3].id, 'field type conflict: "ratio"')
    assert store.outbox.waiting() == waiting[1:3]
    assert [(row.id, row.refused) for row in store.outbox.refused()] == [
        (waiting[3].id, 'field type conflict: "ratio"')
    ]
    assert store.outbox.requeue() == 3
    assert store.outbox.waiting() == waiting


def test_no_view_of_a_run_reads_through_other_runs(store: Store, run: RunRecord, make_boot: MakeBoot) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot())
    asked: list[str] = []
    store._db.set_trace_callback(asked.append)
    store.values(run.id)
    store.trials(run.id)
    store.trial(1)
    store.raw(1)
    store.boots(run.id)
    store.outbox.waiting()
    store._db.set_trace_callback(None)
    selects = [statement for statement in asked if statement.startswith("SELECT")]
    assert len(selects) == 10
    for statement in selects:
        plan = [row[3] for row in store._db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert plan and not [step for step in plan if step.startswith("SCAN")], (statement, plan)
