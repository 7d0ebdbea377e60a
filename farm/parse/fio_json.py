"""fio's JSON and JSON+ output, every version, also several documents with other text around them.

Formats from fio's stat.c: `bw` is KiB/s in every version, `bw_bytes` exists from 3.2, `io_bytes` is KiB
before 3.0 (where `io_kbytes` was added beside it), latencies are microseconds (`clat`) before 3.0 and
nanoseconds after (`clat_ns`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from farm.parse.fio_group import JobResult, add_up
from farm.parse.measurement import Findings, number

_START = re.compile(r'\{\s*"fio version"')
_VERSION = re.compile(r'"fio version"\s*:\s*"([^"\n]{1,80})"')
_HEAD = re.compile(r'"(timestamp_ms|timestamp|jobname|elapsed)"\s*:\s*(?:"([^"\n]{0,200})"|(\d{1,18}))')
_FAILED = re.compile(r"^fio: pid=\d+, err=(\d+)[^\n]*", re.MULTILINE)
_COMMAND = re.compile(r"(?:^|[/\s#$;&|])fio\s+-", re.MULTILINE)
_LONE = re.compile(r'"fio version"\s*:')
# Keys that fio writes once in an object. (Options may be given, and are printed, twice.)
_ONCE = frozenset({"fio version", "jobname", "io_bytes", "total_ios", "read_ios"})
DIRECTIONS = ("read", "write", "trim", "mixed")


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number that fio prints")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs) and not _ONCE.isdisjoint(result):
        raise ValueError("a key stands twice in an object: two outputs are mixed")
    return result


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)


@dataclass(frozen=True)
class Document:
    """One JSON document and where it stands; `body` is None if it is broken, `why` says how."""

    start: int
    end: int
    body: Mapping[str, object] | None
    why: str = ""


def documents(text: str) -> Iterator[Document]:
    """Every document that starts with `{"fio version"`. A start inside another one breaks the outer: linear
    in time.
    """
    starts = [found.start() for found in _START.finditer(text)]
    for start, limit in pairwise([*starts, len(text)]):
        piece = text[start:limit]
        try:
            body, length = _DECODER.raw_decode(piece)
        except (ValueError, RecursionError) as error:
            yield Document(start, limit, None, _reason(error, piece, limit < len(text)))
        else:
            jobs = body.get("jobs", body.get("client_stats")) if isinstance(body, dict) else None
            if isinstance(jobs, list) and jobs and all(isinstance(job, dict) for job in jobs):
                yield Document(start, start + length, body)
            else:
                yield Document(start, start + length, None, "it has no list of jobs")


def _reason(error: Exception, piece: str, another: bool) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error)[:120] if isinstance(error, ValueError) else "its brackets are nested too deep"
    left = piece[error.pos :].strip()
    if not left or error.msg.startswith("Unterminated string"):
        return "it ends in the middle" + (", where another document starts" if another else " (truncated)")
    line = piece.count("\n", 0, error.pos) + 1
    shown = left.split("\n", 1)[0][:60]
    return f"line {line} of the document is no JSON: {shown!r} (other text in between, or damaged)"


def scan(text: str) -> tuple[Findings, list[tuple[int, int]]]:
    """Samples of all final documents of a cleaned text, and the (start, end) of all documents, broken ones
    too.
    """
    found = Findings()
    docs = list(documents(text))
    for index, doc in enumerate(docs):
        after = docs[index + 1] if index + 1 < len(docs) else None
        before = text[docs[index - 1].end if index else 0 : doc.start]
        between = text[doc.end : after.start] if after else text[doc.end :]
        if doc.body is None:
            version = _VERSION.search(text, doc.start, min(doc.end, doc.start + 200))
            name = version[1] if version else "fio"
            found.problem(
                doc.start, "fio-json-broken", f"a JSON document of {name} gives no value: {doc.why}"
            )
            continue
        found.facts["fio_version"] = str(doc.body.get("fio version"))
        if after and not _COMMAND.search(between) and _continues(doc, after, text):
            found.problem(
                doc.start,
                "fio-interim",
                "a JSON document is an interim report of a run, the next one goes on with it (status-interval)",
            )
            continue
        errors = _FAILED.findall(before[-20_000:]) + ([] if after else _FAILED.findall(between[:20_000]))
        _samples(doc, found, [int(code) for code in errors if len(code) < 9])
    at = 0
    for start, end in [*((doc.start, doc.end) for doc in docs), (len(text), len(text))]:
        if lone := _LONE.search(text, at, start):
            found.problem(
                lone.start(), "fio-json-broken", "a JSON document of fio does not start as one (damaged)"
            )
        at = end
    return found, [(doc.start, doc.end) for doc in docs]


def _continues(doc: Document, after: Document, text: str) -> bool:
    """Whether `after` reports the same run as `doc`, only later: same jobs, same start, nothing lost.

    The start is the time of the report minus the longest runtime; where fio prints no time (before 2.2)
    counters that only grow must do. A broken document is compared by its head.
    """
    if doc.body is None:
        return False
    if after.body is None:
        head = {
            found[1]: found[2] or found[3]
            for found in _HEAD.finditer(text, after.start, min(after.end, after.start + 4000))
        }
        jobs = _jobs(doc.body)
        stamp, elapsed, stamp_before = (
            head.get("timestamp"),
            head.get("elapsed"),
            number(doc.body.get("timestamp")),
        )
        if not (stamp and elapsed and stamp_before and head.get("jobname") == jobs[0].get("jobname")):
            return False
        elapsed_before = number(jobs[0].get("elapsed")) or 0.0
        return (
            int(elapsed) >= elapsed_before
            and abs(int(stamp) - int(elapsed) - (stamp_before - elapsed_before)) <= 1
        )
    first, second = _jobs(doc.body), _jobs(after.body)
    if _identity(doc.body) != _identity(after.body):
        return False
    if any(now < then for now, then in zip(_bytes(after.body), _bytes(doc.body), strict=True)):
        return False
    began, began_after = _began_ms(doc.body), _began_ms(after.body)
    if began is None or began_after is None:
        then, now = number(first[0].get("elapsed")), number(second[0].get("elapsed"))
        return then is not None and now is not None and now > then
    return abs(began - began_after) <= min(500.0, 0.5 * max(_runtime_ms(doc.body), 20.0))


def _jobs(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    jobs = body.get("jobs", body.get("client_stats"))
    assert isinstance(jobs, list)
    # A fio client adds up its servers in one more entry of this name.
    single = [job for job in jobs if job.get("jobname") != "All clients"]
    return single or jobs


def _identity(body: Mapping[str, object]) -> tuple[object, ...]:
    jobs = [(job.get("jobname"), job.get("groupid"), job.get("job options")) for job in _jobs(body)]
    return (body.get("fio version"), body.get("global options"), jobs)


def _sides(job: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    return [(rw, side) for rw in DIRECTIONS if isinstance(side := job.get(rw), dict)]


def _bytes(body: Mapping[str, object]) -> list[float]:
    return [
        sum(number(side.get("io_bytes")) or 0.0 for rw, side in _sides(job) if rw != "mixed")
        for job in _jobs(body)
    ]


def _runtime_ms(body: Mapping[str, object]) -> float:
    return max(
        (number(side.get("runtime")) or 0.0 for job in _jobs(body) for _, side in _sides(job)), default=0.0
    )


def _began_ms(body: Mapping[str, object]) -> float | None:
    stamp = number(body.get("timestamp_ms"))
    if stamp is None:
        seconds = number(body.get("timestamp"))
        stamp = None if seconds is None else seconds * 1000 + 500
    return None if stamp is None else stamp - _runtime_ms(body)


def _samples(doc: Document, found: Findings, errors: list[int]) -> None:
    assert doc.body is not None
    version = str(doc.body.get("fio version", ""))
    shared = doc.body.get("global options")
    disks = doc.body.get("disk_util")
    disk_util = tuple(
        {key: value for key, value in disk.items() if isinstance(value, str) or number(value) is not None}
        for disk in (disks if isinstance(disks, list) else [])
        if isinstance(disk, dict)
    )
    results: list[JobResult] = []
    for index, job in enumerate(_jobs(doc.body)):
        options = {**(shared if isinstance(shared, dict) else {})}
        own = job.get("job options")
        options |= own if isinstance(own, dict) else {}
        results += _results(job, version, options, index)
    context: dict[str, object] = {"fio_version": version, "disk_util": disk_util, "format": "json"}
    if (stamp := number(doc.body.get("timestamp"))) is not None:
        context["timestamp"] = int(stamp)
    add_up(doc.start, results, found, disk_util=disk_util, errors=errors, context=context)


def _results(
    job: Mapping[str, object], version: str, options: Mapping[str, object], index: int
) -> Iterator[JobResult]:
    sides = _sides(job)
    if any(number(side.get("total_ios")) for rw, side in sides if rw != "mixed"):
        sides = [
            (rw, side) for rw, side in sides if rw != "mixed"
        ]  # unified_rw_reporting=both: mixed is the sum
    codes = [job.get("error", 0), job.get("first_error", 0)]
    error = next((int(code) for code in map(number, codes) if code), 0)
    if "error" in job and number(job["error"]) is None:
        error = -1
    for rw, side in sides:
        yield _result(job, rw, side, version, options, error, index)


def _result(
    job: Mapping[str, object],
    rw: str,
    side: Mapping[str, object],
    version: str,
    options: Mapping[str, object],
    error: int,
    index: int,
) -> JobResult:
    io, runtime = number(side.get("io_bytes")), number(side.get("runtime"))
    if io is not None and _io_bytes_is_kib(side, version):
        io *= 1024
    bw = number(side.get("bw_bytes"))
    if bw is None:
        kib = number(side.get("bw"))
        bw = None if kib is None else kib * 1024
    ios = number(side.get("total_ios"))
    lat, samples = _latency(side)
    group = number(job.get("groupid"))
    return JobResult(
        job=str(job.get("jobname", ""))[:200],
        group=int(group) if group is not None else 0,
        rw=rw,
        bytes=None if io is None else int(io),
        seconds=None if runtime is None else runtime / 1000,
        bw_bytes=bw,
        iops=number(side.get("iops")),
        total_ios=None if ios is None else int(ios),
        lat_ns=lat,
        lat_samples=samples,
        error=error,
        index=index,
        # Printed with no more than these steps: 1 KiB and 1 KiB/s before 3.0, 1 ms always.
        step_bytes=1024.0,
        options=options,
    )


def _io_bytes_is_kib(side: Mapping[str, object], version: str) -> bool:
    if "io_kbytes" in side:
        return False
    digits = re.search(r"(\d+)\.\d+", version)
    return digits is not None and int(digits[1][:4]) < 3


def _latency(side: Mapping[str, object]) -> tuple[dict[str, float], float | None]:
    """Completion latency in ns, else total latency; empty where fio did not measure it (all zero, N = 0)."""
    blocks = [
        (side.get(key), scale)
        for key, scale in (("clat_ns", 1.0), ("clat", 1e3), ("lat_ns", 1.0), ("lat", 1e3))
    ]
    lat: dict[str, float] = {}
    samples: float | None = None
    for block, scale in blocks:
        if not isinstance(block, dict):
            continue
        count = number(block.get("N"))
        values = {name: number(block.get(name)) for name in ("min", "mean", "max", "stddev")}
        if count == 0 or not values["max"]:
            continue
        if not lat:
            lat, samples = {name: value * scale for name, value in values.items() if value is not None}, count
        percentiles = block.get("percentile")
        if isinstance(percentiles, dict) and not any(name.startswith("p") for name in lat):
            lat |= _percentiles(percentiles, scale)  # of lat where fio was told lat_percentiles=1
    return lat, samples


def _percentiles(percentiles: Mapping[str, object], scale: float) -> dict[str, float]:
    result = {}
    for key, value in percentiles.items():
        try:
            rank = float(key)
        except ValueError:
            continue
        nanoseconds = number(value)
        if 0 < rank <= 100 and nanoseconds is not None:  # 2.x fills the list up with "0.00" : 0
            result[f"p{rank:g}"] = nanoseconds * scale
    return result
