"""1,000 boots x 100 workloads in a store: what reading and comparing them costs. Run by `make bench`.

    python tests/bench/store_scale.py [--boots N] [--workloads N] [--db FILE]

Prints one line per figure and exits with 1 if values() takes 2 s or more, the comparison 10 s, or memory 500 MB.
With --db the store is kept, for `FARM_HOME=DIR farm compare latest`.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from farm.report.compare_view import compare_table
from farm.report.terminal import print_compare
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

RUN = "20261130-000000-scale"
LIMITS = {"values": 2.0, "compare": 10.0}
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
    """Read and compare in this process, which has done nothing else; print the figures; 1 if one is over its limit."""
    took = {}
    with Store.open(path) as store:
        began = time.perf_counter()
        rows = len(store.values(RUN))
        took["values"] = time.perf_counter() - began
        began = time.perf_counter()
        page = io.StringIO()
        print_compare(compare_table(store, RUN), Console(file=page))
        took["compare"] = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows       {rows}")
    for name, seconds in took.items():
        print(f"{name:<10} {seconds:.2f} s (limit {LIMITS[name]:g} s)")
    print(f"memory     {peak:.0f} MB (limit {LIMIT_MB} MB)")
    return int(peak >= LIMIT_MB or any(seconds >= LIMITS[name] for name, seconds in took.items()))


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
        fill(path, options.boots, options.workloads)
        print(
            f"filled     {time.perf_counter() - began:.1f} s, {path.stat().st_size / 1e6:.0f} MB on disk",
            flush=True,
        )
        # A process of its own, so that its peak memory is that of reading.
        return subprocess.run([sys.executable, __file__, "--measure", str(path)]).returncode


if __name__ == "__main__":
    sys.exit(main())
