"""Result tables as people post them: `Speed: a b c` under headings, and m:ss times under headings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from farm.parse.clean import clean
from farm.parse.measurement import Findings, Measurement, Parsed, Problem

_NUMBER = r"\d{1,9}(?:\.\d{1,6})?"
_UNIT = r"(?:[kKMG]i?[Bb](?:/[sS]|ps)|[KMG]i?B/[sS])"
_SPEEDS = re.compile(
    rf"^\s*Speed\s?:\s*(?P<list>{_NUMBER}\s?{_UNIT}?(?:[\s,;/]+{_NUMBER}\s?{_UNIT}?){{0,99}})\s*$",
    re.IGNORECASE,
)
_AVERAGE = re.compile(
    rf"^\s*Average(?: speed)?\s?:\s*(?P<value>{_NUMBER})\s?(?P<unit>{_UNIT})?(?:\s.*)?$", re.IGNORECASE
)
_ENTRY = re.compile(rf"({_NUMBER})\s?({_UNIT})?", re.IGNORECASE)
_FACTORS = {"k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_SECTION = re.compile(r"^\s*(\d{1,2}\.\s?\S.{0,100}?)\s*$")
_CASE = re.compile(r"^\s*\d{1,2}\)\s*(\S.{0,100}?)\s*:?\s*$")
_TIME = re.compile(r"^\s*(\d{1,3}):(\d{2})([.:])(\d{2,3})\s*$")
# Where flattened text is broken again: before a heading, `Speed:` or `Average speed:`; around m:ss times and
# labels.
_CONTINUED = re.compile(r"(Speed\s?:[^\n]{1,200},)[ \t]{0,8}\n[ \t]{0,8}(?=\d)")
_SPEED_BREAK = re.compile(r"\s(?=(?:Average\s[Ss]|S)peed\s?:|\d{1,2}\)\s?[A-Za-z]|\d{1,2}\.\s?[A-Z])")
_DOTTED_TIME = re.compile(r"(?<!\S)\d{1,3}:\d{2}\.\d{2,3}(?!\S)")
_TIME_BREAK = re.compile(
    r"\s(?=\d{1,3}:\d{2}[.:]\d{2,3}(?!\S))|(?<=\d[.:]\d\d)\s|(?<=[A-Za-z\d]:)\s(?=[A-Za-z])"
)
_LABEL = re.compile(r"^\s*(\S.{0,60}?)\s*:\s*$")
_SPREAD_OF_ROUNDING = 0.006


@dataclass
class _Speeds:
    at: int
    job: str
    rw: str | None
    entries: list[tuple[float, str]] = field(default_factory=list)


def parse_table(text: str) -> Parsed:
    """Every posted speed (bytes/second) and time (seconds) in a text, one sample each. Never raises."""
    found = scan(clean(text))
    if not found.samples and not found.problems:
        return Parsed(problems=(Problem("table-no-output", "there is no table of results in the text"),))
    return found.parsed()


def scan(text: str) -> Findings:
    """Samples of posted tables in a cleaned text."""
    found = Findings()
    if "peed" not in text and "PEED" not in text and not _DOTTED_TIME.search(text):
        return found
    section = case = ""
    pending: _Speeds | None = None
    times = _Times()
    at = 0
    for line in _unflattened(text).split("\n"):
        times.line(at, line)
        if len(line) > 2000 or not line:
            pass
        elif match := _SPEEDS.match(line):
            _finish(pending, None, found)
            job = " / ".join(part for part in (section, case) if part)
            entries = [
                (float(entry[1]), (entry[2] or "").lower()) for entry in _ENTRY.finditer(match["list"])
            ]
            pending = _Speeds(at, job, direction(case or section), entries)
        elif average := _AVERAGE.match(line):
            _finish(pending, average, found)
            pending = None
        elif heading := _CASE.match(line):
            case = heading[1].rstrip(":").strip()
        elif heading := _SECTION.match(line):
            section, case = heading[1].strip(), ""
        at += len(line) + 1
    _finish(pending, None, found)
    times.end(found)
    return found


def _unflattened(text: str) -> str:
    """The text with line breaks where a table needs them, one blank for one break, so that places stay."""
    text = _CONTINUED.sub(lambda found: found[1] + " " * (len(found[0]) - len(found[1])), text)
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if len(line) > 60 and "peed" in line and not _SPEEDS.match(line):
            lines[index] = _SPEED_BREAK.sub("\n", line)
        elif len(line) > 30 and len(_DOTTED_TIME.findall(line)) >= 3:
            lines[index] = _TIME_BREAK.sub("\n", line)
    return "\n".join(lines)


def direction(text: str) -> str | None:
    """`read` or `write` if the words name just one of them."""
    words = set(re.findall(r"read|write", text.lower()))
    return words.pop() if len(words) == 1 else None


def _factor(unit: str) -> int | None:
    prefix = re.match(r"([kmg]i?)b(?:/s|ps)$", unit)
    return _FACTORS[prefix[1]] if prefix else None


def _finish(speeds: _Speeds | None, average: re.Match[str] | None, found: Findings) -> None:
    """One sample for each number; the unit may stand behind the average only."""
    if speeds is None:
        return
    shared = (average["unit"] or "").lower() if average else ""
    values = []
    for value, unit in speeds.entries:
        factor = _factor(unit or shared)
        if factor is None:
            found.problem(
                speeds.at, "table-no-unit", f"speed {value:g} of {speeds.job or 'a table'} has no unit"
            )
            return
        values.append(value * factor)
    if average and (factor := _factor(shared or speeds.entries[-1][1])):
        mean, printed = sum(values) / len(values), float(average["value"]) * factor
        if abs(mean - printed) > _SPREAD_OF_ROUNDING * printed:
            text = (
                f"{speeds.job}: the mean of the speeds is {mean / factor:.4g}, posted is {average['value']}"
            )
            found.problem(speeds.at, "table-average-differs", text)
    for index, value in enumerate(values):
        if value > 0:
            extra = {"repeat": index, "of": len(values)}
            sample = Measurement("table", rw=speeds.rw, job=speeds.job or None, bw_bytes=value, extra=extra)
            found.sample(speeds.at + index, sample)
        else:
            found.problem(speeds.at, "table-zero", f"speed 0 of {speeds.job or 'a table'} is no measurement")


class _Times:
    """m:ss.hh lines under labels; a group label (`DUT1:`) is followed by another label and ends with a blank
    line.
    """

    def __init__(self) -> None:
        self.group, self.label, self.last_was_label = "", "", False
        self.used: set[str] = set()
        self.lines: list[tuple[int, str, str, re.Match[str]]] = []

    def line(self, at: int, line: str) -> None:
        """Take one line; times are handed out only once a table is seen, not for a clock that stands alone."""
        if len(line) > 2000:
            self.last_was_label = False
        elif match := _TIME.match(line):
            job = " / ".join(part for part in (self.group, self.label) if part)
            self.lines.append((at, line.strip(), job, match))
            self.last_was_label = False
        elif not line.strip():
            self.group = self.label = ""
            self.last_was_label = False
        elif label := _LABEL.match(line):
            if self.last_was_label:
                self.group = self.label
                self.used = set()
            elif label[1] in self.used:
                self.group, self.used = (
                    "",
                    set(),
                )  # the same label again: another group, whose name is not given
            self.label, self.last_was_label = label[1], True
            self.used.add(label[1])
        else:
            self.last_was_label = False

    def end(self, found: Findings) -> None:
        """Samples and refusals of the table, if there were at least three times with a point (12:34:56 alone
        is a clock).
        """
        if sum(match[3] == "." for _, _, _, match in self.lines) < 3:
            return
        for at, text, job, match in self.lines:
            minutes, seconds = int(match[1]), int(match[2])
            if match[3] == ":":
                reason = "a colon where the point belongs: minutes or hours?"
            elif seconds >= 60:
                reason = f"{seconds} seconds do not exist"
            elif minutes == seconds == int(match[4]) == 0:
                reason = "zero is no measurement"
            else:
                value = minutes * 60 + float(f"{seconds}.{match[4]}")
                found.sample(
                    at, Measurement("table", job=job or None, seconds=value, extra={"printed": text})
                )
                continue
            found.problem(at, "table-bad-time", f"{text} ({job or 'no heading'}) gives no value: {reason}")
