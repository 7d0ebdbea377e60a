"""fio's terse output (`--minimal`), versions 2 to 5. Format: show_thread_status_terse_all() in fio's stat.c,
HOWTO.

Fields are separated by `;`. Sizes are KiB, rates KiB/s, times ms, latencies microseconds. A direction has 41
fields, 47 in version 5; version 3 has no trim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from farm.parse.finding import near
from farm.parse.fio_group import JobResult, add_up
from farm.parse.measurement import Findings

_LINE = re.compile(
    r"(?<!\S)(?:2;(?!fio-)[^;\n]{1,200};\d{1,9};|[345];(?:fio[- ]\d|2\.0\.\d{1,2};))[^\n]*", re.MULTILINE
)
_LENGTH = {2: 41, 3: 41, 4: 41, 5: 47}
_SIDES = {
    2: ("read", "write", "trim"),
    3: ("read", "write"),
    4: ("read", "write", "trim"),
    5: ("read", "write", "trim"),
}
_PERCENTILE = re.compile(r"(\d{1,3}(?:\.\d{1,8})?)%=(\d{1,18})")
_REST = 34  # 5 fields for CPU, 7 + 22 shares of depth and latency


def scan(text: str) -> Findings:
    """Samples of all terse lines of a cleaned text; lines of one run (neighbours, same group and disks) are
    added up.
    """
    found = Findings()
    run: list[tuple[int, list[JobResult], tuple[str, ...]]] = []
    last_end = -1
    for match in near(_LINE, text, ";fio", ";2.0.", "2;", before=20, after=20_000):
        try:
            line = _parse(match[0])
        except ValueError as error:
            _finish(run, found)
            run = []
            found.problem(match.start(), "fio-terse-broken", f"a terse line gives no value: {error}")
            continue
        results, version, disks = line
        neighbours = run and not text[last_end : match.start()].strip()
        if not (neighbours and run[-1][2] == (version, *disks)):
            _finish(run, found)
            run = []
        run.append((match.start(), results, (version, *disks)))
        last_end = match.end()
    _finish(run, found)
    return found


def _parse(line: str) -> tuple[list[JobResult], str, tuple[str, ...]]:
    """Results per direction, the version and the disk fields of one line. Raises ValueError with the reason."""
    fields = line.strip().split(";")
    version = int(fields[0])
    head = fields[1:4] if version == 2 else fields[2:5]
    at = 4 if version == 2 else 5
    sides, length = _SIDES[version], _LENGTH[version]
    if len(fields) < at + len(sides) * length + _REST:
        raise ValueError(
            f"it has {len(fields)} fields, {at + len(sides) * length + _REST} are the least (truncated?)"
        )
    name, group, error = head[0], _whole(head[1]), _whole(head[2])
    results = [
        _side(fields[at + index * length : at + (index + 1) * length], name, group, error, rw)
        for index, rw in enumerate(sides)
    ]
    disks = tuple(fields[at + len(sides) * length + _REST :])
    return results, fields[1] if version != 2 else "", disks


def _whole(field: str) -> int:
    if not re.fullmatch(r"\d{1,18}", field):
        raise ValueError(f"{field[:40]!r} is no whole number")
    return int(field)


def _number(field: str) -> float:
    if not re.fullmatch(r"\d{1,18}(?:\.\d{1,9})?", field):
        raise ValueError(f"{field[:40]!r} is no number")
    return float(field)


def _side(fields: Sequence[str], name: str, group: int, error: int, rw: str) -> JobResult:
    kib, bw, iops, runtime = (_whole(field) for field in fields[:4])
    lat: dict[str, float] = {}
    minimum, maximum = _whole(fields[8]), _whole(fields[9])
    if maximum:
        lat = {"min": minimum * 1000.0, "max": maximum * 1000.0}
        lat |= {"mean": _number(fields[10]) * 1000, "stddev": _number(fields[11]) * 1000}
        for field in fields[12:32]:
            rank = _PERCENTILE.fullmatch(field)
            if rank is None:
                raise ValueError(f"{field[:40]!r} is no percentile")
            if 0 < float(rank[1]) <= 100:
                lat[f"p{float(rank[1]):g}"] = int(rank[2]) * 1000.0
    return JobResult(
        job=name[:200], group=group, rw=rw, bytes=kib * 1024, seconds=runtime / 1000, bw_bytes=bw * 1024.0,
        iops=float(iops), lat_ns=lat, error=error, step_bytes=1024.0,
    )  # fmt: skip


def _finish(run: list[tuple[int, list[JobResult], tuple[str, ...]]], found: Findings) -> None:
    if not run:
        return
    at, _, (version, *disks) = run[0]
    # name;read_ios;write_ios;read_merges;write_merges;read_ticks;write_ticks;queue_time;util%
    utils: list[dict[str, object]] = [
        {"name": disks[i], "read_ios": int(disks[i + 1]), "write_ios": int(disks[i + 2])}
        for i in range(0, len(disks) - 8, 9)
        if re.fullmatch(r"\d{1,18};\d{1,18}", f"{disks[i + 1]};{disks[i + 2]}")
    ]
    context: dict[str, object] = {"format": "terse", "disk_util": tuple(utils)}
    if version:
        found.facts["fio_version"] = context["fio_version"] = version
    add_up(
        at, [result for _, results, _ in run for result in results], found, disk_util=utils, context=context
    )
