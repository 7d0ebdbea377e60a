"""What every parser hands back: measurements, facts and problems, as plain data in bytes, seconds and
nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Measurement:
    """One measured transfer in one direction; what the text does not say is None, never 0.

    `bytes` and `seconds` are totals over all jobs (seconds: the longest), `bw_bytes` is bytes/second,
    `lat_ns` holds min, mean, max, stddev and percentiles (`p50`, `p99`, `p99.9`) in nanoseconds, completion
    latency where there is one.
    """

    tool: str
    rw: str | None = None
    job: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    bw_bytes: float | None = None
    iops: float | None = None
    lat_ns: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """What is known, by the names that metrics have in the store."""
        known = {
            "bw_bytes": self.bw_bytes,
            "iops": self.iops,
            "seconds": self.seconds,
            "bytes": self.bytes,
            **{f"lat_{name}_ns": value for name, value in self.lat_ns.items()},
        }
        return {metric: float(value) for metric, value in known.items() if value is not None}


@dataclass(frozen=True)
class Problem:
    """Why something in the text is no value, or a caution about one; `code` is kebab-case and stable."""

    code: str
    message: str


@dataclass(frozen=True)
class Parsed:
    """Samples and problems in the order of the text, and the facts that it states."""

    samples: tuple[Measurement, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class Findings:
    """Collects what scanners find at which place of a text, and hands it out in the order of the text."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, Measurement]] = []
        self.problems: list[tuple[int, Problem]] = []
        self.facts: dict[str, object] = {}

    def sample(self, at: int, measurement: Measurement) -> None:
        """Add a measurement found at offset `at`."""
        self.samples.append((at, measurement))

    def problem(self, at: int, code: str, message: str) -> None:
        """Add a problem found at offset `at`; an endless message from a hostile text is cut."""
        self.problems.append((at, Problem(code, message if len(message) <= 300 else message[:297] + "...")))

    def update(self, other: Findings) -> None:
        """Add everything that another scanner of the same text found."""
        self.samples += other.samples
        self.problems += other.problems
        self.facts.update(other.facts)

    def parsed(self, *, problem_limit: int = 1000) -> Parsed:
        """Everything in the order of the text; equal problems are told once, and no more than
        `problem_limit`.
        """
        told: dict[Problem, None] = {}
        for _, problem in sorted(self.problems, key=lambda found: found[0]):
            told.setdefault(problem)
        problems = list(told)
        if len(problems) > problem_limit:
            left = len(problems) - problem_limit
            problems[problem_limit:] = [Problem("too-many-problems", f"{left} more problems are not listed")]
        samples = sorted(self.samples, key=lambda found: found[0])
        return Parsed(tuple(one for _, one in samples), self.facts, tuple(problems))


def number(value: object) -> float | None:
    """`value` as a finite number that is not negative, or None; a bool or a text is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) and result >= 0 else None


def total(values: Iterable[float | None]) -> float | None:
    """The sum, or None where one is unknown or there is none."""
    known = list(values)
    if not known or any(value is None for value in known):
        return None
    return math.fsum(value for value in known if value is not None)
