"""Add up what the jobs of one fio group report, and refuse what is no measurement.

Used for all of fio's formats. A group is what runs at the same time; without `group_reporting` fio prints its
jobs one by one, and their bandwidths must be added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farm.parse.measurement import Findings, Measurement, total

# fio counts whole milliseconds: a run of fewer than these says more about the clock than about the card.
SHORTEST_S = 0.010


@dataclass(frozen=True)
class JobResult:
    """One direction of one job as printed; bytes, seconds, bytes/second, ns. `step_bytes` is how finely bytes
    are printed.
    """

    job: str
    group: int
    rw: str
    bytes: int | None
    seconds: float | None
    bw_bytes: float | None
    iops: float | None = None
    total_ios: int | None = None
    lat_ns: Mapping[str, float] = field(default_factory=dict)
    lat_samples: float | None = None
    error: int = 0
    index: int = 0
    step_bytes: float = 1024.0
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """No I/O in this direction, which for a read job's write side is as it should be."""
        return not self.bytes and not self.total_ios and not self.bw_bytes


def add_up(
    at: int,
    results: Sequence[JobResult],
    found: Findings,
    *,
    disk_util: Sequence[Mapping[str, object]] = (),
    errors: Sequence[int] = (),
    context: Mapping[str, object] | None = None,
) -> None:
    """One sample per group and direction into `found`, or the problem that forbids it.

    `errors` are errno values that fio printed outside the results; `disk_util` what the disks did meanwhile.
    """
    groups: dict[int, list[JobResult]] = {}
    for result in results:
        groups.setdefault(result.group, []).append(result)
    if not groups:
        found.problem(at, "fio-no-io", "fio reports no read, write or trim at all")
    for group, members in groups.items():
        names = "+".join(dict.fromkeys(member.job for member in members))[:200]
        shown = f"job {names}" if names else f"group {group}"
        failed = next((member.error for member in members if member.error), 0) or next(iter(errors), 0)
        if failed:
            found.problem(
                at, "fio-error", f"{shown} ended with error {failed}: its counters are no measurement"
            )
            continue
        if all(member.idle for member in members):
            found.problem(at, "fio-no-io", f"{shown} did no I/O at all, whatever its error field says")
            continue
        dead = {member.index for member in members} - {member.index for member in members if not member.idle}
        if dead:
            found.problem(
                at,
                "fio-job-without-io",
                f"{len(dead)} jobs of {shown} did no I/O: the sum would be too low",
            )
            continue
        for rw in dict.fromkeys(member.rw for member in members if not member.idle):
            jobs = [member for member in members if member.rw == rw and not member.idle]
            reason = _refusal(rw, jobs, disk_util)
            if reason:
                found.problem(at, reason[0], f"{shown}, {rw}: {reason[1]}")
            else:
                found.sample(at, _sample(names, rw, jobs, group, context or {}))


def _refusal(
    rw: str, jobs: Sequence[JobResult], disks: Sequence[Mapping[str, object]]
) -> tuple[str, str] | None:
    if any(job.total_ios == 0 or job.bytes == 0 for job in jobs):
        return "fio-no-io", "a job counts no finished I/O"
    longest = max((job.seconds for job in jobs if job.seconds is not None), default=None)
    if longest is None or any(job.seconds is None or job.bytes is None for job in jobs):
        return "fio-incomplete", "bytes or runtime are missing or no numbers"
    if longest < SHORTEST_S:
        return "fio-too-short", f"ran for {longest * 1000:.0f} ms, which is no measurement"
    for job in jobs:
        if not job.bw_bytes:
            return "fio-incomplete", "the bandwidth is missing or 0 although bytes were moved"
        if contradicts(job.bytes or 0, job.seconds or 0.0, job.bw_bytes, job.step_bytes):
            return "fio-inconsistent", "bytes / runtime and the printed bandwidth contradict each other"
    keys = {"read": ("read_ios",), "write": ("write_ios",), "mixed": ("read_ios", "write_ios")}.get(rw, ())
    if keys and disks and not any(disk.get(key) for disk in disks for key in keys):
        names = ", ".join(str(disk.get("name")) for disk in disks)
        return "fio-no-device-io", f"disk_util shows no {rw} on {names[:80]}: the device was not measured"
    return None


def contradicts(count: float, seconds: float, bw: float, step: float) -> bool:
    """Whether bytes / seconds lies further from the printed bytes/second than rounding (1 ms, `step` bytes)
    explains.
    """
    low = max(count - step, 0.0) / (seconds + 0.001)
    high = (count + step) / max(seconds - 0.001, 0.0005)
    return not low * 0.98 - 1024 <= bw <= high * 1.02 + 1024


def _sample(
    names: str, rw: str, jobs: Sequence[JobResult], group: int, context: Mapping[str, object]
) -> Measurement:
    options = jobs[0].options
    seconds = max(job.seconds or 0.0 for job in jobs)
    extra: dict[str, object] = {
        **context,
        "group": group,
        "jobs": len(jobs),
        "job_options": dict(options),
        "error": 0,
        "runtime_ms": round(seconds * 1000),
    }
    for key in ("rw", "bs", "iodepth", "numjobs", "ioengine"):
        if key in options:
            extra["option_rw" if key == "rw" else key] = options[key]
    ios = total(None if job.total_ios is None else float(job.total_ios) for job in jobs)
    if ios is not None:
        extra["total_ios"] = int(ios)
    return Measurement(
        tool="fio",
        rw=rw,
        job=names or None,
        bytes=sum(job.bytes or 0 for job in jobs),
        seconds=seconds,
        bw_bytes=total(job.bw_bytes for job in jobs),
        iops=total(job.iops for job in jobs),
        lat_ns=_merged_latency(jobs),
        extra=extra,
    )


def _merged_latency(jobs: Sequence[JobResult]) -> dict[str, float]:
    """One job's latency as it is; of several: min, max and the pooled mean and deviation. Percentiles cannot
    be pooled.
    """
    if len(jobs) == 1:
        return dict(jobs[0].lat_ns)
    if any(not job.lat_ns or "min" not in job.lat_ns or "max" not in job.lat_ns for job in jobs):
        return {}
    merged = {
        "min": min(job.lat_ns["min"] for job in jobs),
        "max": max(job.lat_ns["max"] for job in jobs),
    }
    weights = [job.lat_samples or job.total_ios or 0 for job in jobs]
    if all(weights) and all("mean" in job.lat_ns for job in jobs):
        count = sum(weights)
        mean = sum(job.lat_ns["mean"] * weight for job, weight in zip(jobs, weights, strict=True)) / count
        merged["mean"] = mean
        if count > 1 and all("stddev" in job.lat_ns for job in jobs):
            # fio prints the deviation of a sample (n - 1), each job's around its own mean.
            squares = sum(
                job.lat_ns["stddev"] ** 2 * (weight - 1) + weight * (job.lat_ns["mean"] - mean) ** 2
                for job, weight in zip(jobs, weights, strict=True)
            )
            merged["stddev"] = math.sqrt(squares / (count - 1))
    return {key: value for key, value in merged.items() if math.isfinite(value)}
