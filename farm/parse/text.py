"""One console log, saved file or pasted mail with anything in it, read once by every scanner."""

from __future__ import annotations

import re
from dataclasses import replace

from farm.parse import dd, dmesg, extcsd, fio, ios, kernel, table
from farm.parse.clean import clean
from farm.parse.measurement import Findings, Measurement, Parsed, Problem

_READ_AHEAD = re.compile(r"read_ahead_kb\s*\n\s*(\d{1,9})\s*$", re.MULTILINE)
_SECTION = re.compile(
    r"^[ \t]*((?:before|after|without|with(?! E?SMTP)|baseline|patched|unpatched|original|vanilla|old|new)\b"
    r"[^\n:;{}=\"]{0,60}:?)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def parse_any(text: str) -> Parsed:
    """All measurements of a text in its order, the facts that it states, and every reason why something is no
    value.

    Each sample's `extra["section"]` is the heading above it (`Before:`, `After the patch:`), where there is
    one. A text without a usable measurement has at least one problem. Never raises; time is linear in the
    length of the text.
    """
    stamped = clean(text, stamps=False)
    cleaned = clean(text)
    found, rest = fio.scan(cleaned)
    for scanner in (dd.scan, ios.scan, extcsd.scan, kernel.scan, table.scan):
        found.update(scanner(rest))
    found.update(dmesg.scan(stamped))
    ahead = [int(match[1]) for match in _READ_AHEAD.finditer(rest)]
    if ahead:
        found.facts["read_ahead_kb"] = ahead[:100]
    _sections(rest, found)
    if not found.samples:
        what = "facts only" if found.facts else "nothing that farm knows"
        found.problems.append(
            (len(cleaned), Problem("no-measurement", f"the text holds {what}: no measurement"))
        )
    return found.parsed()


def _sections(text: str, found: Findings) -> None:
    if not found.samples:
        return
    headings = [
        (match.start(), match[1].strip()) for match in _SECTION.finditer(text) if _is_heading(match, text)
    ]
    if not headings:
        return
    labelled: list[tuple[int, Measurement]] = []
    index, current = 0, ""
    for at, sample in sorted(found.samples, key=lambda one: one[0]):
        while index < len(headings) and headings[index][0] <= at:
            current = headings[index][1]
            index += 1
        extra = {**sample.extra, "section": current} if current else sample.extra
        labelled.append((at, replace(sample, extra=extra)))
    found.samples = labelled


def _is_heading(match: re.Match[str], text: str) -> bool:
    """Whether the line ends with a colon, or is a few words behind an empty line; prose begins with `with` too."""
    line = match[1].rstrip()
    above = text[max(0, match.start() - 200) : match.start()]
    first = not above.strip() or above[len(above.rstrip()) :].count("\n") > 1
    return line.endswith(":") or (first and len(line.split()) <= 5 and line[-1] not in ".,")
