"""A store on disk, and records with everything in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

HOSTILE = b"\x1b[2J\x1b]0;owned\x07\x00<script>alert(1)</script>\xff\xfe\xc3\x28\r\n\x9b31m\xed\xa0\x80"


@pytest.fixture
def hostile() -> bytes:
    return HOSTILE


@pytest.fixture
def run() -> RunRecord:
    return RunRecord(
        id="20260103-a1b2",
        campaign="readahead",
        campaign_text="name: readahead\nboots: 4\n",
        seed=2**62 + 1,
        started=1767400000.25,
        host="lab1",
        version="0.1.0",
        settings={"baseline": "ra128", "variants": ["ra128", "ra1024"], "band": 0.03},
    )


@pytest.fixture
def make_boot(run: RunRecord) -> Callable[..., BootRecord]:
    def make(index: int = 0, **changes: Any) -> BootRecord:
        trial = TrialRecord(
            workload="dd-read",
            rep=0,
            status="ok",
            reason="",
            command="time dd if=/dev/mmcblk0p2 of=/dev/null bs=1M count=32",
            started=1767400010.5,
            seconds=1.25,
            samples=(SampleRecord("read", "bw_bytes", 61.9e6), SampleRecord("read", "seconds", 0.54)),
            raw={"out": b"32+0 records in\n" + HOSTILE, "err": b""},
            facts={"rc": 0, "fio": None},
        )
        filled: dict[str, Any] = {
            "run_id": run.id,
            "board": "virt-a",
            "index": index,
            "block": index // 4,
            "variant": "ra128" if index % 2 == 0 else "ra1024",
            "attempt": 0,
            "status": "ok",
            "reason": "",
            "started": 1767400001.0 + index,
            "ended": 1767400031.0 + index,
            "facts": {"banner": "Linux version 6.1.0", "ios": {"clock_hz": 50_000_000, "width_bits": 4}},
            "flash": {"method": "netboot", "sha256": "00" * 32, "verified": True},
            "events": (
                {"kind": "new-card", "line": "mmc0: new SD card"},
                {"kind": "crc", "line": "\x1b[31m"},
            ),
            "log_path": "/tmp/logs/virt-a.log",
            "console_bytes": {"trial": 812, "boot": 33_000},
            "trials": (trial,),
        }
        return BootRecord(**(filled | changes))

    return make
