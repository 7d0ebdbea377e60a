"""The script that recomputes medians from raw text agrees with what is typed here, and with the comparison."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord
from tests.report.stored import compared

SCRIPT = Path(__file__).parents[1] / "independent_medians.py"

# Bytes/second by hand, and the raw text that says so in each way that boards have.
RAN = {
    # 32 x 1048576 / 0.5
    67108864.0: "+ dd if=/dev/mmcblk0p2 of=/dev/null bs=1M count=32\n32+0 records in\n32+0 records out\nreal 0m0.500000s\n",
    # 64 x 65536 / 0.04
    104857600.0: "+ dd if=/dev/x of=/dev/null bs=64k\n64+0 records in\n64+0 records out\r\nreal\t0m 0.04s\nuser\t0m 0.00s\n",
    # 2296521564 / 37.124446, the posted toybox run; its own seconds, not those of the shell around it
    2296521564 / 37.124446: "+ dd if=super.img of=/dev/null\n4485393+1 records in\n4485393+1 records out\n"
    "2296521564 bytes (2.1 G) copied, 37.124446 s, 59 M/s\nreal 0m37.2s\n",
    # 67108864 / 0.114825, coreutils
    67108864
    / 0.114825: "64+0 records in\n64+0 records out\n67108864 bytes (67 MB, 64 MiB) copied, 0.114825 s, 584 MB/s\n",
    # 1048576 / 61.5: more than a minute
    1048576
    / 61.5: "+ dd if=/dev/x of=/dev/null bs=1M count=1\n1+0 records in\n1+0 records out\nreal 1m1.500000s\n",
}


def test_both_medians_come_out_of_the_raw_text(store: Store) -> None:
    store.begin_run(RunRecord("r-1", "c", "", 1, 0.0, settings={"baseline": "a", "variants": ["a", "b"]}))
    store.begin_run(RunRecord("other", "c", "", 1, 0.0))
    rates = list(RAN)
    plan = {  # boot -> variant, and which of the texts its trials printed
        0: ("a", [0, 1, 2]),
        1: ("b", [1, 3]),
        2: ("b", [4]),
        3: ("a", [1]),
    }
    for index, (variant, texts) in plan.items():
        trials = [
            TrialRecord(
                "dd-read", rep, "ok", "", "(now; dd if=/dev/x of=/dev/null; now)", 0.0, 1.0,
                samples=(SampleRecord("read", "bw_bytes", rates[number]),), raw={"out": RAN[rates[number]].encode()},
            )
            for rep, number in enumerate(texts)
        ]  # fmt: skip
        trials.append(
            TrialRecord("dd-read", 9, "void", "late", "dd if=/dev/x", 0.0, 1.0, raw={"out": b"garbage"})
        )
        trials.append(TrialRecord("fio", 0, "ok", "", "fio --name=x", 0.0, 1.0, raw={"out": b"{}"}))
        boot = BootRecord("r-1", "rk", index, 0, variant, 0, "ok", "", 0.0, 1.0, trials=tuple(trials))
        store.commit_boot(boot)
    store.commit_boot(
        BootRecord("other", "rk", 0, 0, "a", 0, "ok", "", 0.0, 1.0,
                   trials=(TrialRecord("dd-read", 0, "ok", "", "dd if=x", 0.0, 1.0, raw={"out": RAN[rates[0]].encode()}),))
    )  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(store.path), "r-"], capture_output=True, text=True, timeout=60
    )
    # a: boot 0 median(67.11, 104.86, 61.86) = 67.108864, boot 3 104.8576 -> 85.983232
    # b: boot 1 median(104.8576, 584.444...) = 344.650..., boot 2 0.01705 -> 172.333...
    b = ((104857600 + 67108864 / 0.114825) / 2 + 1048576 / 61.5) / 2 / 1e6
    assert child.stdout.splitlines() == [
        "rk dd-read a 85.983 MB/s over 2 boots",
        f"rk dd-read b {b:.3f} MB/s over 2 boots",
    ], child.stderr
    (row,) = [row for row in compared(store, "r-1").blocks[0].rows if row.workload == "dd-read"]
    assert row.base.value == 85983232.0
    assert row.cand is not None and row.cand.value is not None
    assert abs(row.cand.value - b * 1e6) < 1e-3


def test_the_script_uses_nothing_of_farm() -> None:
    lines = SCRIPT.read_text().splitlines()
    assert not any("farm" in line for line in lines if "import" in line)
    assert len(lines) <= 35
