"""1,000 boots x 100 workloads in a store: what reading and comparing them costs. Run by `make bench`.

    python -m tests.bench.store_scale [--boots N] [--workloads N] [--db FILE]

Prints one line per figure and exits with 1 if values() takes 2 s or more, `farm compare` or `farm report` 10 s, or
any of them 500 MB. With --db the store is kept; it has to be called farm.db.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

RUN = "20261130-000000-scale"
LIMITS = {"values": 2.0, "compare": 10.0, "report": 10.0}
LIMIT_MB = 500


def fill(path: Path, boots: int, workloads: int) -> None:
    """A run of synthetic boots with the metrics and about the output (2 kB) of a fio trial; one in 50 trials is void."""
    rng = random.Random(20261130)
    names = [f"randread-{4 << (n % 8)}k-qd{1 << (n % 6)}-j{1 + n // 48}-{n}" for n in range(workloads)]
    settings = {"baseline": "before", "variants": ["before", "after"], "workloads": names}
    output = bytes(rng.choices(b'{}":, 0123456789abcdefghijklmnopqrstuvwxyz\n', k=2000))
    with Store.open(path, create=True) as store:
        store.begin_run(RunRecord(RUN, "scale", "synthetic", 1, 0.0, settings=settings))
        for index in range(boots):
            after = index % 4 in (1, 2)
            trials = []
            for number, name in enumerate(names):
                speed = 50e6 * (1 + number) * (1.05 if after else 1.0) * rng.lognormvariate(0, 0.02)
                metrics = {"bw_bytes": speed, "iops": speed / 4096, "seconds": 5.0, "bytes": 5 * speed}
                metrics |= {
                    f"lat_{part}_ns": 4096e9 / speed for part in ("mean", "p50", "p99", "p99.9", "max")
                }
                void = rng.random() < 0.02
                trials.append(
                    TrialRecord(
                        name, 0, "void" if void else "ok", "ran shorter than its floor" if void else "",
                        f"fio --name={name}", 100.0 * index, 5.0,
                        samples=tuple(SampleRecord("read", metric, value) for metric, value in metrics.items()),
                        raw={"out": output},
                    )
                )  # fmt: skip
            store.commit_boot(
                BootRecord(
                    RUN, "virt-a", index, index // 4, "after" if after else "before", 0, "ok", "", 100.0 * index,
                    100.0 * index + 90, trials=tuple(trials),
                )
            )  # fmt: skip


def measure(path: Path) -> int:
    """Read in this process, which has done nothing else; print the figures; 1 if one is over its limit."""
    with Store.open(path) as store:
        began = time.perf_counter()
        rows = len(store.values(RUN))
        took = time.perf_counter() - began
    print(f"rows       {rows}")
    return _said("values", took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def command(path: Path, name: str, *arguments: str) -> int:
    """A command as people call it, start to end, with its own peak of memory."""
    environment = {**os.environ, "FARM_HOME": str(path.parent)}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "farm", name, RUN, *arguments], env=environment, stdout=subprocess.DEVNULL
    ) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - began
    return max(_said(name, took, used.ru_maxrss), abs(child.returncode))


def _said(name: str, seconds: float, peak_kib: int) -> int:
    peak = peak_kib / 1024
    print(
        f"{name:<10} {seconds:.2f} s (limit {LIMITS[name]:g} s), {peak:.0f} MB (limit {LIMIT_MB} MB)",
        flush=True,
    )
    return int(seconds >= LIMITS[name] or peak >= LIMIT_MB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--boots", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--db", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure)
    with tempfile.TemporaryDirectory() as scratch:
        path = options.db or Path(scratch) / "farm.db"
        began = time.perf_counter()
        if not path.exists():
            fill(path, options.boots, options.workloads)
        print(
            f"filled     {time.perf_counter() - began:.1f} s, {path.stat().st_size / 1e6:.0f} MB on disk",
            flush=True,
        )
        # Processes of their own, so that each one's peak of memory is that of its work.
        missed = subprocess.run([sys.executable, "-m", __spec__.name, "--measure", str(path)]).returncode
        missed |= command(path, "compare")
        missed |= command(path, "report", "--output", str(Path(scratch) / "run.html"))
        size = (Path(scratch) / "run.html").stat().st_size
        print(f"report is  {size / 1e6:.2f} MB")
        return missed


if __name__ == "__main__":
    sys.exit(main())
