"""From what a trial printed to what counts: samples, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from farm.board.batch import JobResult
from farm.parse.dd import parse_dd
from farm.parse.dmesg import FATAL, parse_dmesg
from farm.parse.fio import parse_fio
from farm.parse.measurement import Measurement, Parsed
from farm.store.records import SampleRecord, TrialRecord
from farm.workload.model import DdWorkload, Workload


@dataclass(frozen=True)
class Judgement:
    """A trial ready for the store, and the MMC events that the kernel reported while it ran."""

    trial: TrialRecord
    events: tuple[Mapping[str, object], ...]


def _samples(measured: Iterable[Measurement]) -> tuple[SampleRecord, ...]:
    return tuple(
        SampleRecord(one.rw or "", metric, value)
        for one in measured
        for metric, value in one.metrics().items()
    )


def _parse(workload: Workload, text: str) -> Parsed:
    if isinstance(workload, DdWorkload):
        return parse_dd(text, block_size=workload.bs)
    return parse_fio(text)


def _idle_disk(measured: Iterable[Measurement], node: str) -> bool:
    """fio's disk_util knows the device and saw no I/O on it: the numbers came from somewhere else."""
    for one in measured:
        entries = one.extra.get("disk_util")
        if not isinstance(entries, (list, tuple)):
            continue
        own = [
            entry
            for entry in entries
            if isinstance(entry, Mapping) and node.startswith(str(entry.get("name", "?")))
        ]
        if own and not any(entry.get("read_ios") or entry.get("write_ios") for entry in own):
            return True
    return False


_COMPLAINS = ("error", "fio:", "dd:", "failed", "not found")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if any(word in line.lower() for word in _COMPLAINS):
            return line[:200]
    return lines[-1][:200] if lines else "no output"


def judge(
    workload: Workload, rep: int, result: JobResult, command: str, started: float, node: str
) -> Judgement:
    """The trial's record. `started` is UTC epoch seconds; `node` is the disk's name such as `mmcblk0`."""
    text = result.raw.get("out", b"").decode("utf-8", "replace")
    kernel = result.raw.get("kernel", b"").decode("utf-8", "replace")
    parsed = _parse(workload, text)
    status, reason = "ok", ""
    if result.skipped is not None:
        status, reason = "failed", f"not run: {result.skipped}"
    elif result.timed_out:
        status, reason = "failed", f"hung: no end within {workload.timeout_s:.0f} s"
    elif result.rc is None:
        status, reason = "failed", "its exit status was lost"
    elif "out" in result.cut:
        status, reason = "void", "it printed more than is kept"
    elif result.rc != 0:
        status, reason = "failed", f"exit status {result.rc}: {_first_line(text)}"
    elif not parsed.samples:
        why = "; ".join(problem.message for problem in parsed.problems) or "nothing that could be read"
        status, reason = "void", f"no measurement: {why}"
    elif _idle_disk(parsed.samples, node):
        status, reason = "void", f"fio saw no I/O on {node}"
    else:
        seconds = max((one.seconds for one in parsed.samples if one.seconds is not None), default=None)
        if seconds is not None and seconds < workload.floor_s:
            status, reason = "void", f"ran {seconds:.3f} s, shorter than its floor of {workload.floor_s:g} s"
    said = [event for event in parse_dmesg(kernel) if not event.is_state]
    fatal = next((event for event in said if event.is_fatal), None)
    if status == "ok" and fatal is not None:
        status, reason = "void", f"{FATAL[fatal.kind]} while it ran: {fatal.line[:200]}"
    events = tuple(
        {"kind": event.kind, "line": event.line, "workload": workload.name, "rep": rep} for event in said
    )
    facts: dict[str, object] = {}
    if parsed.samples:
        facts = {key: value for key, value in parsed.samples[0].extra.items() if key != "disk_util"}
    if notes := [f"{problem.code}: {problem.message}" for problem in parsed.problems]:
        facts["notes"] = notes
    trial = TrialRecord(
        workload=workload.name,
        rep=rep,
        status=status,  # type: ignore[arg-type]
        reason=reason,
        command=command,
        started=started,
        seconds=result.seconds,
        samples=_samples(parsed.samples) if status == "ok" else (),
        raw=result.raw,
        facts=facts,
    )
    return Judgement(trial, events)
