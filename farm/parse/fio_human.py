"""fio's normal report, 2.x and 3.x: job blocks, `Run status group` lines and disk statistics, or any part of
them.

Formats from show_ddir_status(), show_group_stats() and diskutil.c of fio. White space between words may be a
line break, since mail programs wrap and people flatten. A group's sample comes from its job blocks; where
they are missing or damaged, from the `Run status` line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product

from farm.parse.clean import PROMPT
from farm.parse.finding import near
from farm.parse.fio_group import JobResult, add_up
from farm.parse.measurement import Findings
from farm.parse.quantity import COUNT, RATE, SIZE, Quantity, quantity, readings, settle

_BANNER = re.compile(
    r"^[ \t]*fio-\d{1,3}\.\d{1,4}\S{0,60}[ \t]*$|(?<!\S)fio-\d{1,3}\.\d{1,4}(?=\s+Starting\s)", re.MULTILINE
)
_STARTING = re.compile(
    r"(?<!\S)Starting\s(\d{1,6})\s(?:process|thread)(?:es|s)?(?:\sand\s(\d{1,6})\sthreads?)?"
)
_START_LINE = re.compile(
    r"\(g=(?P<group>\d{1,6})\):\srw=(?P<rw>\w{1,20}),\sbs=(?P<bs>.{1,160}?),\sioengine=(?P<ioengine>[\w.:/-]{1,60}),"
    r"\siodepth=(?P<iodepth>\d{1,9})",
    re.DOTALL,
)
_COMMAND = re.compile(r"(?<![\w-])fio\s{1,3}-{1,2}[a-z]")
_JOB = re.compile(
    r"\(groupid=(?P<group>\d{1,6}),\sjobs=(?P<jobs>\d{1,6})\):\serr=\s{0,3}(?P<err>-?\d{1,6})\s?"
    r"(?:\((?:[^\n]|\n(?!\n)){0,300}?\))?:\s+pid=(?P<pid>\d{1,10})"
    r"(?::\s+[A-Z][a-z]{2}\s+(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s+(?P<clock>\d\d:\d\d:\d\d)\s+(?P<year>\d{4}))?"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# fio prints the blocks of a run one after another when it ends, each with the time of printing.
_PRINTING_S = 5.0
_SIDE = re.compile(
    rf"(?<!\w)(?P<rw>read|write|trim|mixed)\s?:\s+(?:IOPS=(?P<iops>{COUNT}),\s+BW=(?P<bw>{RATE})\s+\((?P<alt>{RATE})\)"
    rf"\s*\((?P<io>{SIZE})/(?P<ms>\d{{1,12}})msec\)"
    rf"|io=(?P<io2>{SIZE}),\s+bw=(?P<bw2>{RATE}),\s+iops=\s?(?P<iops2>{COUNT})\s?,\s+runt=\s{{0,8}}(?P<ms2>\d{{1,12}})\s?msec)"
)
_GROUP = re.compile(r"Run\s+status\s+group\s+(\d{1,6})\s+\(all\s+jobs\)")
_TOTAL = re.compile(
    rf"(?<!\w)(?P<rw>READ|WRITE|TRIM|MIXED):\s+(?:bw=(?P<bw>{RATE})\s+\((?P<alt>{RATE})\),\s{RATE}-\s*{RATE}\s+"
    rf"\({RATE}-\s*{RATE}\),\s+io=(?P<io>{SIZE})\s+\((?P<ioalt>{SIZE})\),\s+run=\d{{1,12}}-\s*(?P<ms>\d{{1,12}})msec"
    rf"|io=(?P<io2>{SIZE}),\s+aggrb=(?P<bw2>{RATE}),\s+minb={RATE},\s+maxb={RATE},\s+mint=\d{{1,12}}msec,"
    r"\s+maxt=(?P<ms2>\d{1,12})msec)"
)
_DAMAGED = re.compile(
    r"(?<!\w)(?:(?:READ|WRITE|TRIM|MIXED):\s+(?:bw|io)=|(?:read|write|trim|mixed)\s?:\s+(?:IOPS|io)=)[1-9]"
)
_REPORT_WORDS = ("groupid=", "pid=", "jobs=", "lat (", "IO depths", "Starting ", "issued ")
_DISKS = re.compile(r"Disk\sstats\s\(read/write\):")
_DISK = re.compile(r"(?<!\S)(?P<name>[\w.!-]{1,64}):\sios=(?P<read>\d{1,18})/(?P<write>\d{1,18}),")
_LATENCY = re.compile(
    rf"(?<!\w)(?P<kind>clat|lat)\s\((?P<unit>[num]sec)\)\s?:\s+min=\s*(?P<min>{COUNT})\s?,\s+max=\s*(?P<max>{COUNT})\s?,"
    rf"\s+avg=\s*(?P<mean>{COUNT}),\s+stdev=\s*(?P<stddev>{COUNT})"
)
_PERCENTILES = re.compile(r"(?<!\w)(?P<kind>clat|lat)\spercentiles\s\((?P<unit>[num]sec)\):")
_RANK = re.compile(r"(?<![\d.])(\d{1,3}\.\d{1,8})th=\[\s{0,20}(\d{1,18})\],?")
_ISSUED = re.compile(
    r"issued\s(?:rwts?:\stotal=(?P<list>\d{1,18},\d{1,18},\d{1,18})|\s{0,8}:\stotal=(?P<pairs>r=\d{1,18}/w=\d{1,18}/d=\d{1,18}))"
)
_NS = {"nsec": 1.0, "usec": 1000.0, "msec": 1_000_000.0}


@dataclass
class _Invocation:
    """What is known of one run of fio, or of one of its interim reports."""

    at: int
    implicit: bool = False  # nothing says that fio was started anew
    version: str = ""
    starting: int = 0
    options: dict[int, dict[str, object]] = field(default_factory=dict)
    pids: list[tuple[str, str]] = field(default_factory=list)
    results: list[JobResult] = field(default_factory=list)
    members: int = 0
    totals: list[JobResult] = field(default_factory=list)
    disks: list[dict[str, object]] = field(default_factory=list)
    ended: bool = False
    group: int = 0
    printed: datetime | None = None  # its last job block

    @property
    def reported(self) -> bool:
        return bool(self.pids or self.totals or self.ended)


def scan(text: str) -> Findings:
    """Samples of every human report in a cleaned text."""
    found = Findings()
    runs = list(_invocations(text, found))
    for index, run in enumerate(runs):
        after = runs[index + 1] if index + 1 < len(runs) else None
        if after and after.implicit and run.pids and run.pids == after.pids:
            found.problem(
                run.at, "fio-interim", "a report is an interim one of a run that goes on (status-interval)"
            )
        elif run.reported:
            _finish(run, found)
    return found


def _tokens(text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    results = (
        ("job", _JOB, ("(groupid=",)),
        ("group", _GROUP, ("status",)),
        ("total", _TOTAL, ("READ:", "WRITE:", "TRIM:", "MIXED:")),
    )
    tokens = [
        (found.start(), kind, found) for kind, form, words in results for found in near(form, text, *words)
    ]
    if not tokens:
        return
    others = (
        ("banner", _BANNER, "fio-"),
        ("starting", _STARTING, "Starting"),
        ("line", _START_LINE, "(g="),
        ("start", _COMMAND, "fio"),
        ("disks", _DISKS, "Disk"),
    )
    tokens += [
        (found.start(), kind, found) for kind, form, word in others for found in near(form, text, word)
    ]
    tokens += [(match.start(), "start", match) for match in PROMPT.finditer(text)]
    yield from sorted(tokens, key=lambda token: token[0])


def _invocations(text: str, found: Findings) -> Iterator[_Invocation]:
    tokens = list(_tokens(text))
    if not tokens:
        _damaged(text, found, [])
        return
    run = _Invocation(0)
    readable: list[tuple[int, int]] = []
    for index, (at, kind, match) in enumerate(tokens):
        if run.reported and kind in ("banner", "starting", "line", "start"):
            yield run
            run = _Invocation(at)
        elif run.reported and _begins_again(run, kind, match, text):
            yield run
            run = _Invocation(
                at, implicit=True, version=run.version, options=run.options, starting=run.starting
            )
        if kind in ("job", "total") and not run.reported:
            run.at = at
        if kind == "banner":
            run.version = match[0].strip()
        elif kind == "starting":
            run.starting = int(match[1]) + int(match[2] or 0)
        elif kind == "line":
            run.options[int(match["group"])] = {"name": _name(text, match), **_options(match)}
        elif kind == "job":
            limit = tokens[index + 1][0] if index + 1 < len(tokens) else len(text)
            readable += _job(run, text, match, limit, found)
        elif kind == "group":
            run.group = int(match[1])
        elif kind == "total":
            run.totals.append(_total(match, run.group, run.options))
            readable.append(match.span())
        elif kind == "disks":
            run.ended = True
            limit = tokens[index + 1][0] if index + 1 < len(tokens) else len(text)
            for disk in _DISK.finditer(text, match.end(), min(match.end() + 4000, limit)):
                name, reads, writes = disk["name"], int(disk["read"]), int(disk["write"])
                run.disks.append({"name": name, "read_ios": reads, "write_ios": writes})
    yield run
    _damaged(text, found, readable)


def _begins_again(run: _Invocation, kind: str, match: re.Match[str], text: str) -> bool:
    """Whether a report starts where the one before had ended, or had named this group or job already."""
    if kind == "job":
        printed = _printed(match)
        later = run.printed and printed and abs((printed - run.printed).total_seconds()) > _PRINTING_S
        return bool(later or run.ended or run.totals) or (_name(text, match), match["pid"]) in run.pids
    if kind == "group":
        return run.ended or any(total.group >= int(match[1]) for total in run.totals)
    if kind == "total":
        return run.ended or any(t.group == run.group and t.rw == match["rw"].lower() for t in run.totals)
    return False


def _printed(match: re.Match[str]) -> datetime | None:
    """When a job block was printed, where it says so."""
    if match["month"] not in _MONTHS:
        return None
    month = _MONTHS.index(match["month"]) + 1
    try:
        return datetime.fromisoformat(f"{match['year']}-{month:02}-{int(match['day']):02}T{match['clock']}")
    except ValueError:
        return None


def _name(text: str, match: re.Match[str]) -> str:
    """The job's name, which stands before `: (g=0)` or `: (groupid=0, ...)` on the same line."""
    before = text[max(0, match.start() - 100) : match.start()]
    line = before.rsplit("\n", 1)[-1].rstrip().removesuffix(":").rsplit(": ", 1)[-1].strip()
    flattened = len(before) == 100 and "\n" not in before
    return line.rsplit(" ", 1)[-1] if flattened else line


def _options(match: re.Match[str]) -> dict[str, object]:
    """rw, ioengine, iodepth and, if one size holds for all directions, bs in bytes."""
    options: dict[str, object] = {key: match[key] for key in ("rw", "ioengine", "iodepth")}
    sizes = set(
        re.findall(r"\d{1,12}(?:\.\d{1,3})?(?:[KMG](?:iB)?|[kMG]?B)", re.sub(r"\([RWT]\)", " ", match["bs"]))
    )
    exact = [quantity(size, binary=True).value for size in sizes if not size.endswith(("kB", "MB", "GB"))]
    if len(sizes) == len(exact) == 1:
        options["bs"] = str(round(exact[0]))
    return options


def _job(
    run: _Invocation, text: str, match: re.Match[str], limit: int, found: Findings
) -> list[tuple[int, int]]:
    """Add the results of one job block to `run`; the places of its readable lines."""
    name, group = _name(text, match), int(match["group"])
    run.pids.append((name, match["pid"]))
    run.printed = _printed(match) or run.printed
    run.members += int(match["jobs"])
    sides = list(_SIDE.finditer(text, match.end(), min(limit, match.end() + 40_000)))
    if not sides and int(match["err"]):
        found.problem(
            match.start(), "fio-error", f"job {name[:100]} ended with error {match['err']} without results"
        )
    elif not sides:
        found.problem(
            match.start(), "fio-damaged", f"the block of job {name[:100]} has no readable line of results"
        )
    block_end = min(limit, match.end() + 40_000)
    issued = _ISSUED.search(text, match.end(), block_end)
    for index, side in enumerate(sides):
        end = sides[index + 1].start() if index + 1 < len(sides) else block_end
        result = _side(side, name, group, int(match["err"]), len(run.pids), _issued(issued, side["rw"]))
        lat = _latency(text, side.end(), end)
        options = {**run.options.get(group, {}), "numjobs": match["jobs"]}
        run.results.append(replace(result, lat_ns=lat, options=options))
    return [side.span() for side in sides]


def _issued(issued: re.Match[str] | None, rw: str) -> int | None:
    if issued is None or rw == "mixed":
        return None
    numbers = [int(one) for one in re.findall(r"\d+", issued["list"] or issued["pairs"])]
    return numbers[("read", "write", "trim").index(rw)]


def _side(side: re.Match[str], name: str, group: int, err: int, index: int, ios: int | None) -> JobResult:
    io, seconds, bw = _moved(side)
    printed = readings(side["iops"] or side["iops2"])
    iops = printed[0].value
    if ios and seconds > 0 and any(one.low <= ios / seconds <= one.high + 1 for one in printed):
        iops = ios / seconds
    return JobResult(
        job=name, group=group, rw=side["rw"], bytes=round(io.value), seconds=seconds, bw_bytes=bw,
        iops=iops, total_ios=ios, error=err, index=index, step_bytes=io.step,
    )  # fmt: skip


def _moved(line: re.Match[str]) -> tuple[Quantity, float, float | None]:
    """Bytes, seconds and bytes/second of a line of results: the readings of its numbers that agree best."""
    old = line["io2"] is not None
    seconds = int(line["ms2"] if old else line["ms"]) / 1000
    names = ("io2", "bw2") if old else ("io", "bw", "alt")
    every = [readings(line[name], binary=old) for name in names]
    agreeing = [
        (abs(io.value / max(seconds, 0.001) / bw - 1), io, bw)
        for io, *rates in product(*every)
        if (bw := _rate(io, seconds, rates))
    ]
    if not agreeing:
        return every[0][0], seconds, None
    _, io, bw = min(agreeing, key=lambda one: one[0])
    return io, seconds, bw


def _rate(io: Quantity, seconds: float, printed: list[Quantity]) -> float | None:
    """bytes / seconds, as far as the rounding of the printed rates allows it; None where they contradict it."""
    if seconds <= 0:
        return printed[0].value
    value = settle(io.value / seconds, *printed)
    if (
        value is None
        and io.low / (seconds + 0.001) <= printed[0].high
        and printed[0].low <= io.high / seconds
    ):
        value = settle(printed[0].value, *printed)
    return value


def _total(match: re.Match[str], group: int, options: Mapping[int, Mapping[str, object]]) -> JobResult:
    io, seconds, bw = _moved(match)
    name = str(options.get(group, {}).get("name", ""))
    return JobResult(
        job=name, group=group, rw=match["rw"].lower(), bytes=round(io.value), seconds=seconds,
        bw_bytes=bw, step_bytes=io.step, options=options.get(group, {}),
    )  # fmt: skip


def _latency(text: str, start: int, end: int) -> dict[str, float]:
    """Completion latency in ns, else total latency, of the lines between two places."""
    lat: dict[str, float] = {}
    kinds = {match["kind"]: match for match in reversed(list(_LATENCY.finditer(text, start, end)))}
    if block := kinds.get("clat", kinds.get("lat")):
        scale = _NS[block["unit"]]
        lat = {key: quantity(block[key]).value * scale for key in ("min", "mean", "max", "stddev")}
    heads = list(_PERCENTILES.finditer(text, start, end))
    wanted = next((head for kind in ("clat", "lat") for head in heads if head["kind"] == kind), None)
    if wanted:
        limit = min((head.start() for head in heads if head.start() > wanted.start()), default=end)
        for rank in _RANK.finditer(text, wanted.end(), limit):
            if 0 < float(rank[1]) <= 100:
                lat[f"p{float(rank[1]):g}"] = int(rank[2]) * _NS[wanted["unit"]]
    return lat


def _damaged(text: str, found: Findings, readable: list[tuple[int, int]]) -> None:
    """What lines outside all reports say, and a problem for each that starts like a result and cannot be used."""
    starts = {start for start, _ in readable}
    for match in near(_DAMAGED, text, "READ:", "WRITE:", "TRIM:", "MIXED:", "IOPS=", "io=", before=40):
        if match.start() in starts:
            continue
        side = _SIDE.match(text, match.start())
        if side and _stands_alone(text, side):
            result = _side(side, _name_before(text, side.start()), 0, 0, 0, None)
            add_up(side.start(), [result], found, context={"format": "human", "disk_util": ()})
            continue
        shown = text[match.start() : match.start() + 60].split("\n")[0]
        why = "stands without the line of its job" if side else "cannot be read"
        found.problem(match.start(), "fio-damaged", f"a line of results {why}: {shown!r}")


def _stands_alone(text: str, side: re.Match[str]) -> bool:
    """Whether someone posted just this line, as `grep IOPS` gives it, rather than a report with a damaged head."""
    if _name_before(text, side.start()):
        return True
    around = text[max(0, side.start() - 1500) : side.end() + 1500]
    return not any(word in around for word in _REPORT_WORDS)


def _name_before(text: str, at: int) -> str:
    """`a.fio` of the line `a.fio:  read: IOPS=...`, as grep prints it for several files."""
    before = text[max(0, at - 100) : at].rsplit("\n", 1)[-1].strip()
    return before.removesuffix(":") if re.fullmatch(r"[\w./+-]{1,80}:", before) else ""


def _finish(run: _Invocation, found: Findings) -> None:
    """Samples of one invocation: job blocks, checked against the group's totals, or the totals alone."""
    if run.version:
        found.facts["fio_version"] = run.version
    context: dict[str, object] = {"format": "human", "disk_util": tuple(run.disks)}
    if run.version:
        context["fio_version"] = run.version
    results: list[JobResult] = []
    for group in dict.fromkeys([one.group for one in run.results] + [one.group for one in run.totals]):
        jobs = _single([one for one in run.results if one.group == group])
        totals = _single([one for one in run.totals if one.group == group])
        if totals and jobs and not _agree(jobs, totals):
            found.problem(
                run.at, "fio-damaged", f"job blocks of group {group} do not add up to its Run status line"
            )
            jobs = []
        if jobs and not run.totals and run.starting > run.members:
            text = f"{run.starting} jobs were started, {run.members} are reported: the sum would be too low"
            found.problem(run.at, "fio-incomplete", text)
            continue
        results += jobs or totals
    if results:
        add_up(run.at, results, found, disk_util=run.disks, context=context)


def _single(results: list[JobResult]) -> list[JobResult]:
    """Without the sum `mixed` where reads and writes stand beside it (unified_rw_reporting=both)."""
    sides = [one for one in results if one.rw != "mixed"]
    return sides or results


def _agree(jobs: list[JobResult], totals: list[JobResult]) -> bool:
    """Whether the bytes of the jobs are those of the totals, direction by direction, within rounding."""
    for rw in {one.rw for one in (*jobs, *totals)}:
        ours = sum(one.bytes or 0 for one in jobs if one.rw == rw)
        theirs = sum(one.bytes or 0 for one in totals if one.rw == rw)
        slack = sum(one.step_bytes for one in (*jobs, *totals) if one.rw == rw)
        if abs(ours - theirs) > 0.01 * max(ours, theirs) + slack:
            return False
    return True
