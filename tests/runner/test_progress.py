"""What people see of a run in plain lines."""

import io

import pytest
from rich.console import Console

from farm.runner import progress
from farm.runner.messages import BootDone, Doing
from farm.runner.progress import ProgressView
from farm.store.records import BootRecord, TrialRecord


def said(record: BootRecord) -> str:
    out = io.StringIO()
    with ProgressView(Console(file=out, width=200), 4, 20.0, {"b": 4}) as view:
        view(BootDone(record))
    return out.getvalue()


def test_what_the_kernel_reported_stands_behind_the_trials_that_ran_all_the_same() -> None:
    events = (
        {"kind": "timeout", "line": "x"},
        {"kind": "crc", "line": "y"},
        {"kind": "timeout", "line": "z"},
    )
    trials = (TrialRecord("w", 0, "ok", "", "fio", 0.0, 1.0),)
    record = BootRecord("r", "b", 0, 0, "v", 0, "ok", "", 0.0, 30.0, events=events, trials=trials)
    assert "1 of 1 trials ok in 30 s" in said(record)
    assert said(record).endswith("; the kernel reported timeout, crc\n")


def test_a_batch_that_took_another_way_is_said_with_the_reason_and_is_nothing_of_the_kernels() -> None:
    events = ({"kind": "ssh", "line": "no shell at root@a:22: refused; the batch went over serial"},)
    record = BootRecord("r", "b", 0, 0, "v", 0, "ok", "", 0.0, 30.0, events=events)
    assert said(record).endswith("; no shell at root@a:22: refused; the batch went over serial\n")
    assert "kernel" not in said(record)


def test_a_boot_that_failed_is_said_with_reason_and_log() -> None:
    record = BootRecord("r", "b", 0, 0, "v", 0, "failed", "kernel panic: x", 0.0, 9.0, log_path="logs/b.log")
    assert "FAILED after 9 s: kernel panic: x (log: logs/b.log)" in said(record)


def test_time_left_behind_a_boot_counts_all_boots_that_are_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    out = io.StringIO()
    with ProgressView(Console(file=out, width=200), 4, 20.0, {"b": 4}) as view:
        for index in range(3):
            view(Doing("b", "v", "boot"))
            now += 30.0
            view(BootDone(BootRecord("r", "b", index, 0, "v", 0, "ok", "", now - 30.0, now)))
    assert [line.rpartition(", ")[2] for line in out.getvalue().splitlines() if "trials ok" in line] == [
        "1 min 30 s left",
        "1 min 00 s left",
        "30 s left",
    ]
