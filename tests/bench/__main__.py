"""`make bench`: the README's figures of speed and memory, each against its limit; exits with 1 where one is missed."""

from __future__ import annotations

import subprocess
import sys

PARTS = (
    "tests.bench.store_scale",
    "tests.bench.compare_speed",
    "tests.bench.influx_rate",
    "tests.bench.trend_otava",
    "tests.bench.boot_cost",
    "tests.bench.fleet_scale",
)


def main() -> int:
    """Run the parts one after the other, each in a process of its own."""
    wanted = sys.argv[1:] or PARTS
    missed = []
    for part in wanted:
        name = part if part.startswith("tests.") else f"tests.bench.{part}"
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", name], check=False).returncode:
            missed.append(name)
    if missed:
        print(f"limits were missed in: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
