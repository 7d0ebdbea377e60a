"""Seconds for 10,000 permutations of 100 workloads x 20 boots on one core: `python -m tests.bench.compare_speed`.

Also with 5 % of the cells missing, where nearly every workload has boots of its own, and for 1,000 boots.
"""

from __future__ import annotations

import os
import resource
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from farm.analysis.compare import compare

LIMIT = 2.0
"""Seconds that the issue allows for the first case."""


def seconds(boots: int, missing: float) -> float:
    """CPU seconds of one comparison of 100 workloads."""
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(18, 0.02, (boots, 100)))
    values[rng.random(values.shape) < missing] = np.nan
    variants = list("abba" * (boots // 4))
    began = time.process_time()
    compare(
        values, np.arange(boots) * 300.0, variants, "a", workloads=[f"w{i}" for i in range(100)], draws=10_000
    )
    return time.process_time() - began


def main() -> int:
    first = seconds(20, 0.0)
    print(f"20 boots x 100 workloads, 10,000 permutations: {first:.2f} s (at most {LIMIT:.0f})")
    print(f"the same with 5 % of the cells missing: {seconds(20, 0.05):.2f} s")
    print(f"1000 boots x 100 workloads: {seconds(1000, 0.0):.2f} s")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    return int(first > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
