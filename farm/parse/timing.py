"""What shells and `time` programs print: bash, busybox, POSIX `time -p`, mksh, toybox, GNU, BSD, zsh, csh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from farm.parse.clean import PROMPT, clean
from farm.parse.finding import near
from farm.parse.measurement import Findings, Measurement, Parsed, Problem

_N = r"(?P<s>\d{1,9}(?:[.,]\d{1,9})?)"
_FORMS = (
    # bash "real\t0m8.659s", busybox "real\t0m 6.01s" and "real\t1h 2m 03s"
    (re.compile(rf"(?<!\S)real\s{{1,8}}(?:(?P<h>\d{{1,6}})h\s?)?(?P<m>\d{{1,8}})m\s?{_N}s(?!\w)"), "real"),
    # POSIX "real 8.66", toybox "real\t0.004"; only with its "user" behind it, since the words are plain
    (re.compile(rf"(?<!\S)real\s{{1,8}}{_N}s?(?=\s{{1,8}}user\s)"), "real"),
    # mksh "    0m00.00s real     0m00.00s user     0m00.00s system"; bash's "sys 0m0.00s" may stand before "real"
    (
        re.compile(
            rf"(?<!\S)(?P<m>\d{{1,8}})m\s?{_N}s\sreal(?=\s+\d\S{{1,20}}s\suser\s+\d\S{{1,20}}s\ssystem)"
        ),
        "real",
    ),
    # BSD and macOS "        6.01 real         0.00 user         0.01 sys"
    (re.compile(rf"(?<!\S){_N}\sreal(?=\s+\d\S{{0,20}}\suser\s+\d\S{{0,20}}\ssys)"), "real"),
    # GNU time "0.00user 0.00system 0:06.01elapsed", `time -v` "Elapsed (wall clock) time (h:mm:ss or m:ss): 0:06.01"
    (re.compile(rf"(?<!\S)(?:(?P<h>\d{{1,6}}):)?(?P<m>\d{{1,8}}):{_N}elapsed"), "elapsed"),
    (
        re.compile(
            rf"Elapsed\s\(wall\sclock\)\stime\s\(h:mm:ss\sor\sm:ss\):\s+(?:(?P<h>\d{{1,6}}):)?(?P<m>\d{{1,8}}):{_N}(?!\S)"
        ),
        "Elapsed",
    ),
    # csh "0.000u 0.010s 0:06.01 0.1% 0+0k 0+0io 0pf+0w"
    (
        re.compile(
            rf"(?<!\S)[\d.]{{1,12}}u\s[\d.]{{1,12}}s\s(?:(?P<h>\d{{1,6}}):)?(?P<m>\d{{1,8}}):{_N}\s[\d.]{{1,8}}%"
        ),
        "u ",
    ),
    # zsh "0.00s user 0.01s system 50% cpu 6.010 total"
    (re.compile(rf"\bcpu\s(?:(?P<h>\d{{1,6}}):)?(?:(?P<m>\d{{1,8}}):)?{_N}\stotal(?!\S)"), "total"),
)
_COMMAND = re.compile(
    r"(?:^|[#$>] {0,4})(?:sudo )?time +(?:-p +)?([^\n]{1,400}?)(?=\s+real\s|\s+[#$]\s|[ \t]*$)", re.MULTILINE
)
_LENGTH = re.compile(r"(?:-l|--length)[ =]?(\d{1,18})(?!\w)")


@dataclass(frozen=True)
class Timed:
    """One elapsed time in seconds, its place, and the finest step that this form of printing has."""

    at: int
    end: int
    seconds: float
    step: float


def times(text: str) -> Iterator[Timed]:
    """Every elapsed time in a cleaned text, form by form (not in the order of the text)."""
    for form, needle in _FORMS:
        for found in near(form, text, needle, before=60, after=60):
            groups = found.groupdict()
            digits = groups["s"].replace(",", ".")
            seconds = float(digits) + 60 * int(groups.get("m") or 0) + 3600 * int(groups.get("h") or 0)
            decimals = len(digits.partition(".")[2])
            yield Timed(found.start(), found.end(), seconds, 10.0**-decimals)


def parse_time(text: str) -> Parsed:
    """Every elapsed time in a text as a sample without bytes, named by the command where it is shown. Never
    raises.
    """
    cleaned = clean(text)
    found = Findings()
    tokens: list[tuple[int, Timed | str | None]] = [(timed.at, timed) for timed in times(cleaned)]
    tokens += [(match.start(), None) for match in PROMPT.finditer(cleaned)]
    tokens += commands(cleaned)
    command: str | None = None
    for _, token in sorted(tokens, key=lambda token: token[0]):
        if isinstance(token, Timed):
            add(token, command, found)
        else:
            command = token
    if not found.samples and not found.problems:
        return Parsed(problems=(Problem("time-no-output", "there is no output of time in the text"),))
    return found.parsed()


def commands(text: str) -> list[tuple[int, str]]:
    """What was started under `time`, with its place (behind its prompt)."""
    return [
        (match.start(1), match[1].strip()) for match in near(_COMMAND, text, "time ", before=20, after=500)
    ]


def add(timed: Timed, command: str | None, found: Findings) -> None:
    """A sample of tool `time` for something that is no dd; 0.00 s is below what was printed and no
    measurement.
    """
    if timed.seconds <= 0:
        found.problem(
            timed.at, "time-below-resolution", f"real time is 0 at a step of {timed.step:g} s: no measurement"
        )
        return
    discard = bool(command) and (command or "").split()[0].rsplit("/", 1)[-1] == "blkdiscard"
    length = _LENGTH.search(command or "") if discard else None
    count = int(length[1]) if length and int(length[1]) > 0 else None
    found.sample(
        timed.at,
        Measurement(
            tool="time",
            rw="trim" if discard else None,
            job=command[:200] if command else None,
            bytes=count,
            seconds=timed.seconds,
            bw_bytes=count / timed.seconds if count else None,
            extra={"step_s": timed.step, **({"command": command[:400]} if command else {})},
        ),
    )
