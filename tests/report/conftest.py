"""A run whose medians one can do in the head, and one whose every text is hostile."""

from __future__ import annotations

import pytest

from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, Status, TrialRecord

MB = 1e6


def trial(
    workload: str, rep: int, megabytes: float | None, status: Status = "ok", reason: str = ""
) -> TrialRecord:
    samples = () if megabytes is None else (SampleRecord("read", "bw_bytes", megabytes * MB),)
    return TrialRecord(workload, rep, status, reason, f"dd {workload}", 1.0, 1.0, samples=samples)


@pytest.fixture
def small(store: Store) -> Store:
    """Run `small`: baseline 110 and 90, candidate 210 and 190 MB/s; what must not count is far away from these."""
    store.begin_run(
        RunRecord(
            "small", "readahead", "", 5, 1000.0, settings={"baseline": "base", "variants": ["base", "cand"]}
        )
    )

    def boot(
        index: int,
        variant: str,
        *trials: TrialRecord,
        attempt: int = 0,
        status: Status = "ok",
        reason: str = "",
    ) -> None:
        store.commit_boot(
            BootRecord(
                "small",
                "rk",
                index,
                0,
                variant,
                attempt,
                status,
                reason,
                100.0 * index,
                100.0 * index + 50,
                trials=trials,
            )
        )

    boot(0, "base", trial("w", 0, 100), trial("w", 1, 110), trial("w", 2, 300))
    boot(1, "cand", trial("w", 0, 9999), status="failed", reason="kernel panic")
    boot(1, "cand", trial("w", 0, 220), trial("w", 1, 200), attempt=1)
    boot(2, "cand", trial("w", 0, 190), trial("w", 1, None, "failed", "exit status 1"))
    boot(3, "base", trial("w", 0, 90), trial("w", 1, 5000, "void", "fio saw no I/O on mmcblk0"))
    boot(
        4,
        "base",
        trial("w", 0, 7000, "void", "other kernel"),
        status="void",
        reason="other kernel than flashed",
    )
    return store


HOSTILE = "\x1b[2J\x1b]0;own\x07\x00[red]<b>\x9b31m\u202e\ud800\r\nx"


@pytest.fixture
def hostile(store: Store) -> Store:
    """Run of which every text tries to reach the terminal, in trials 1 (good), 2 (void) and 3 (of a failed boot)."""
    bad = HOSTILE
    store.begin_run(
        RunRecord(
            "run" + bad,
            "camp" + bad,
            bad,
            1,
            1e300,  # a time that no clock has
            note=bad,
            version=bad,
            settings={"baseline": "base" + bad},
        )
    )
    for number, status in enumerate(("ok", "failed")):
        reason = bad if status == "failed" else ""
        for index, variant in enumerate(("base" + bad, "cand" + bad)):
            raw = {"out": bad.encode("utf-8", "surrogatepass") + b"\xff", "k" + bad: b"plain\n"}
            good = TrialRecord(
                "w" + bad, 0, "ok", "", "dd" + bad, 1.0, 1.0, (SampleRecord("r" + bad, "bw_bytes", 5e6),), raw
            )
            void = TrialRecord(
                "v" + bad, 0, "void", "void" + bad, "dd" + bad, 1.0, 1.0, raw=raw, facts={bad: bad}
            )
            store.commit_boot(
                BootRecord(
                    "run" + bad, "board" + bad, index, 0, variant, number, status, reason, 1.0, 2.0,
                    facts={bad: {bad: [bad]}}, flash={"how": bad}, events=({"kind": bad, "line": bad, bad: bad},),
                    log_path=bad, trials=(good, void),
                )
            )  # fmt: skip
    return store
