"""`farm trend` beside Apache Otava on the same generated series, and how long 10,000 series take.

Run alone: `python -m tests.bench.trend_otava`. Otava lives in a virtual environment of its own below the cache;
it is no dependency. Its own false-alarm rate is measured first, on series without any change and on series with one
spike; then farm's `alpha` is set so that it has no more, and both look for the same steps. A step counts as found
within three nights of its place.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import venv

import numpy as np

from farm import paths
from farm.analysis.trend import find_drift, find_steps

OTAVA = "0.8.0"
NIGHTS, NOISE, NEAR = 100, 0.02, 3
KINDS = ("no change", "spike", "drift", "step 3 %", "step 5 %")
SERIES = 10_000
SECONDS = 60.0
# Otava's own options: its command line's defaults (otava.series.AnalysisOptions)
_SCRIPT = """
import json, sys
from otava.analysis import compute_change_points
print(json.dumps([[int(point.index) for point in compute_change_points(series, window_len=50, max_pvalue=0.001)[0]]
                  for series in json.load(sys.stdin)]))
"""


def generate(kind: str, count: int, seed: int) -> tuple[list[list[float]], list[int]]:
    """Series of NIGHTS values with normal noise, and where their step is (0: none)."""
    rng = np.random.default_rng(seed)
    values, places = [], []
    for _ in range(count):
        y, place = rng.normal(0, NOISE, NIGHTS), 0
        if kind.startswith("step"):
            place = int(rng.integers(5, NIGHTS - 4))
            y[place:] += math.log(1 - float(kind.split()[1]) / 100)
        elif kind == "spike":
            y[rng.integers(NIGHTS)] += rng.choice([-0.2, 0.2])
        elif kind == "drift":
            y += np.linspace(0, math.log(0.9), NIGHTS)
        values.append((50e6 * np.exp(y)).tolist())
        places.append(place)
    return values, places


def otava(values: list[list[float]]) -> list[list[int]]:
    """Otava's change points of each series."""
    home = paths.cache() / f"otava-{OTAVA}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, clear=True, with_pip=True)
        install = [
            python,
            "-m",
            "pip",
            "-q",
            "--disable-pip-version-check",
            "install",
            f"apache-otava=={OTAVA}",
        ]
        subprocess.run(install, check=True)
        (home / "ready").touch()
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [python, "-c", _SCRIPT],
            input=json.dumps(values),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=elsewhere,
        )
    return list(json.loads(done.stdout))


def ours(values: list[list[float]], alpha: float) -> list[list[int]]:
    """farm's change points of each series, of any size, as Otava gives them."""
    return [[step.index for step in find_steps(series, alpha=alpha, band=0)] for series in values]


def share_found(found: list[list[int]], places: list[int]) -> float:
    """Steps with a change point near them."""
    return sum(
        any(abs(i - place) <= NEAR for i in each) for each, place in zip(found, places, strict=True)
    ) / len(places)


def share_alarmed(found: list[list[int]]) -> float:
    """Series with any change point."""
    return sum(map(bool, found)) / len(found)


def compare(count: int = 1000) -> bool:
    """Print the table; True if farm, with no more false alarms, finds no fewer steps within two standard errors."""
    made = {kind: generate(kind, count, seed) for seed, kind in enumerate(KINDS)}
    theirs = {kind: otava(values) for kind, (values, _) in made.items()}
    allowed = share_alarmed(theirs["no change"])
    # set on series of their own, so that what is compared below has not been looked at
    trial, _ = generate("no change", count, 99)
    grid = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    alpha = max((a for a in grid if share_alarmed(ours(trial, a)) <= allowed), default=grid[0])
    mine = {kind: ours(values, alpha) for kind, (values, _) in made.items()}
    default = {kind: ours(values, 0.01) for kind, (values, _) in made.items()}
    good = share_alarmed(mine["no change"]) <= allowed + 2 * math.sqrt(2 * allowed * (1 - allowed) / count)
    print(
        f"{count} series of {NIGHTS} nights, noise {NOISE:.0%}; farm at alpha {alpha} and at its default 0.01"
    )
    print(f"{'':12} {'Otava ' + OTAVA:>12} {'farm':>12} {'farm default':>14}")
    for kind in KINDS:
        if kind.startswith("step"):
            shares = [share_found(found[kind], made[kind][1]) for found in (theirs, mine, default)]
            error = math.sqrt(sum(share * (1 - share) / count for share in shares[:2]))
            good = good and shares[1] >= shares[0] - 2 * error
        else:
            shares = [share_alarmed(found[kind]) for found in (theirs, mine, default)]
        label = f"{kind}, found" if kind.startswith("step") else f"{kind}, any"
        print(f"{label:16} {shares[0]:8.3f} {shares[1]:12.3f} {shares[2]:14.3f}")
    return good


def speed(count: int = SERIES) -> float:
    """Seconds that `count` series of 100 nights take, half of them with a step, with what is drawn once."""
    values = generate("no change", count // 2, 1)[0] + generate("step 3 %", count - count // 2, 2)[0]
    started = time.perf_counter()
    for series in values:
        if not find_steps(series):
            find_drift(series)
    return time.perf_counter() - started


def main() -> int:
    """Both; the exit code is 1 where one of them is not reached."""
    seconds = speed()
    print(f"{SERIES} series of {NIGHTS} nights: {seconds:.1f} s (must be below {SECONDS:.0f})")
    good = compare()
    print(
        "at Otava's false-alarm rate no fewer steps are found" if good else "FEWER STEPS FOUND THAN BY OTAVA"
    )
    return 0 if good and seconds < SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
