"""100,000 points from the outbox to influxd: points a second, and the memory of the process that sends them.

Run alone: `python -m tests.bench.influx_rate`. The figure that has to be reached is RATE, for lines that lie
rendered in the outbox, as they do for all but a run's newest boots; rendering is timed and printed apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from farm.influx.config import InfluxConfig
from farm.influx.local import LocalInflux
from farm.influx.push import push
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

RATE = 25_000
"""Points a second that the issue asks for."""
MEMORY = 24 * 2**20
"""Bytes by which memory may grow between the first batches and the last."""
BOOTS, WORKLOADS = 1000, 99  # a boot is a point too
METRICS = ("bw_bytes", "iops", "seconds", "bytes", "lat_mean_ns", "lat_p99_ns", "lat_p99.9_ns", "lat_max_ns")


@dataclass(frozen=True)
class Measured:
    """Points, seconds by the clock and of the sender's CPU, and bytes of resident memory: the most in the first tenth
    of the batches, and the most after it."""

    points: int
    seconds: float
    cpu: float
    early: int
    peak: int

    @property
    def rate(self) -> float:
        """Points a second."""
        return self.points / self.seconds


def fill(path: Path, boots: int = BOOTS) -> None:
    """A run with `boots` boots of WORKLOADS fio trials of eight metrics each."""
    with Store.open(path, create=True) as store:
        store.begin_run(RunRecord("bench", "nightly", "", 1, 1_767_400_000.0))
        for boot in range(boots):
            start = 1_767_400_000.0 + 600 * boot
            trials = tuple(
                TrialRecord(
                    f"randread-4k-qd32-{w:02d}", 0, "ok", "", f"fio --rw=randread --bs=4k --iodepth=32 --numjobs={w % 8}",
                    start + 5 * w, 5.5,
                    tuple(SampleRecord("read", name, 1e6 * (w + 1) + boot / 8) for name in METRICS),
                )
                for w in range(WORKLOADS)
            )  # fmt: skip
            facts = {"banner": "Linux version 6.12.9-arm64", "card.name": "DG4016", "temperature_c": 41.5}
            store.commit_boot(
                BootRecord(
                    "bench", f"board-{boot % 3}", boot, boot // 4, f"v{boot % 2}", 0, "ok", "", start, start + 500,
                    facts=facts, trials=trials,
                )
            )  # fmt: skip


def resident() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def send(path: Path, url: str) -> Measured:
    """Push everything that waits, in this process."""
    seen: list[int] = []
    with Store.open(path) as store:
        mark_sent = store.outbox.mark_sent

        def watched(ids: list[int]) -> None:
            seen.append(resident())
            mark_sent(ids)

        store.outbox.mark_sent = watched  # type: ignore[method-assign,assignment]
        began, cpu = time.monotonic(), time.process_time()
        report = push(store, InfluxConfig(url=url, bucket="farm"))
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    if report.problem or report.refused:
        raise RuntimeError(f"not everything arrived: {report}")
    early = max(1, len(seen) // 10)
    return Measured(report.sent, seconds, cpu, max(seen[:early]), max(seen[early:]))


def measure(boots: int = BOOTS) -> tuple[Measured, Measured]:
    """The first push, which renders, and a second of the same rows, each in a fresh process; checks what arrived."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "farm.db"
        fill(path, boots)
        found = []
        for number in range(2):
            # each time a server without a point, so that the second does not only overwrite
            with LocalInflux(Path(scratch) / f"influxd-{number}") as influxd:
                command = [sys.executable, "-m", "tests.bench.influx_rate", "--send", str(path), influxd.url]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found.append(Measured(**json.loads(told)))
                counted = influxd.query("SELECT count(bw_bytes) FROM trial")[0]["values"][0][1]
                if counted != boots * WORKLOADS:
                    raise RuntimeError(f"{counted} trials are on the server, not {boots * WORKLOADS}")
            with Store.open(path) as store:
                store.outbox.requeue()
        return found[0], found[1]


def main() -> int:
    """Print both figures; 1 where the rate or the memory is not what it has to be."""
    first, rendered = measure()
    for name, one in (("rendering and sending", first), ("sending rendered lines", rendered)):
        print(
            f"influx: {name}: {one.points} points in {one.seconds:.2f} s, {one.rate:,.0f} points/s"
            f" ({one.cpu:.2f} s of CPU, load {os.getloadavg()[0]:.1f}); memory {one.early / 2**20:.0f} MiB early, {one.peak / 2**20:.0f} MiB at most after"
        )
    fine = rendered.rate >= RATE and all(one.peak - one.early <= MEMORY for one in (first, rendered))
    print(f"influx: {'ok' if fine else 'FAILED'}: at least {RATE:,} points/s asked for, memory flat")
    return 0 if fine else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        print(json.dumps(vars(send(Path(sys.argv[2]), sys.argv[3]))))
    else:
        sys.exit(main())
