"""Everything that fio prints: JSON, the human report of 2.x and 3.x, terse lines, notes and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from farm.parse import fio_human, fio_json, fio_terse
from farm.parse.clean import clean
from farm.parse.finding import near
from farm.parse.measurement import Findings, Measurement, Parsed, Problem

_MESSAGE = re.compile(r"^[ \t]*fio: (?![=\-])[^\n]{1,300}", re.MULTILINE)
_CAPPED = re.compile(
    r"note:\s+both\s+iodepth\s+>=\s+1\s+and\s+synchronous\s+I/O\s+engine\s+are\s+selected,\s+queue\s+depth\s+will\s+be\s+capped"
)


def parse_fio(text: str) -> Parsed:
    """Everything that fio measured in a text, in order, one sample per group of jobs and direction.

    Never raises. What is truncated, interleaved, unfinished, failed, without I/O or too short is a problem,
    not a sample.
    """
    found, _ = scan(clean(text))
    if not found.samples and not found.problems:
        return Parsed(problems=(Problem("fio-no-output", "there is no fio result in the text"),))
    return found.parsed()


def scan(text: str) -> tuple[Findings, str]:
    """As `parse_fio`, for a text that is clean already; also the text with its JSON documents blanked out."""
    found, spans = fio_json.scan(text)
    rest = _blank(text, spans)
    found.update(fio_human.scan(rest))
    found.update(fio_terse.scan(rest))
    _drop_repeated(found)
    notes(rest, found)
    return found, rest


def _drop_repeated(found: Findings) -> None:
    """Keep one sample of a run that fio reported in several formats at once (`--output-format=normal,json`)."""
    kept: list[tuple[int, Measurement]] = []
    for form in ("json", "human", "terse"):
        finer: dict[tuple[object, ...], list[int]] = {}
        for _, sample in kept:
            finer.setdefault((sample.rw, sample.extra["runtime_ms"]), []).append(sample.bytes or 0)
        for at, sample in found.samples:
            if sample.extra["format"] == form:
                others = finer.get((sample.rw, sample.extra["runtime_ms"]), [])
                if not any(abs(other - (sample.bytes or 0)) <= 0.005 * other for other in others):
                    kept.append((at, sample))
    found.samples = kept


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with blanks in place of each (start, end), so that nothing inside is taken for something else."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def notes(text: str, found: Findings) -> None:
    """fio's own messages as problems, and its note that an iodepth had no effect as a fact and a caution."""
    for message in near(_MESSAGE, text, "fio: ", before=80, after=400):
        found.problem(message.start(), "fio-message", message[0].strip())
    if capped := _CAPPED.search(text):
        found.facts["iodepth_capped"] = True
        found.problem(
            capped.start(),
            "iodepth-capped",
            "fio capped the queue depth at 1, since its engine is synchronous: iodepth had no effect",
        )
