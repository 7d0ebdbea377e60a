"""The same samples as the corpus, the way that terminals, loggers, mail programs and web pages hand them on."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.parse.fio import parse_fio
from farm.parse.text import parse_any
from tests.parse.corpus_expected import CASES, same

CORPUS = Path(__file__).parents[1] / "corpus"
HEAD = "# ---- sample follows ----\n"
MEASURED = sorted(name for name, case in CASES.items() if case.samples and not name.startswith("perf-table"))
HUMAN = [name for name in MEASURED if "json" not in name and "terse" not in name]
KERNEL = "[   37.369462] systemd-journald[159]: Time jumped backwards, rotating."


def body(name: str) -> str:
    return (CORPUS / name).read_text().split(HEAD, 1)[1]


def each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(line) + "\n" for line in text.splitlines())


def wrapped(text: str) -> str:
    lines = []
    for line in text.splitlines():
        lines += textwrap.wrap(
            line, 75, drop_whitespace=True, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines) + "\n"


DISGUISES: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "crcrlf": lambda text: text.replace("\n", "\r\r\n"),
    "lfcr": lambda text: text.replace("\n", "\n\r"),
    "quoted once": each_line(lambda line: f"> {line}"),
    "quoted twice": each_line(lambda line: f"> > {line}"),
    "quoted thrice without blanks": each_line(lambda line: f">>> {line}"),
    "colours": each_line(lambda line: f"\x1b[32m{line}\x1b[0m\x1b[K"),
    "cursor questions": each_line(lambda line: f"{line}\x1b[6n"),
    "nul": lambda text: text.replace(" ", "\0 "),
    "no-break spaces": lambda text: text.replace("  ", " \u00a0"),
    "web page": lambda text: f"<html><body><pre>{html.escape(text)}</pre></body></html>",
    "web page with br": lambda text: html.escape(text).replace("\n", "<br/>\n"),
    "stamped by a logger": each_line(lambda line: f"[   12.345678] {line}"),
    "stamped by a clock": each_line(lambda line: f"[12:34:56.789] {line}"),
    "stamped by a date": each_line(lambda line: f"2026-11-30T18:31:36.123456+00:00 {line}"),
    "journald": each_line(lambda line: f"Nov 30 18:31:36 board sh[123]: {line}"),
    "byte order mark": lambda text: "\ufeff" + text,
    "quoted and crlf": lambda text: each_line(lambda line: f"> > {line}")(text).replace("\n", "\r\n"),
    "talk around it": lambda text: (
        f"Hi,\n\nplease see below (it took 3 s, at 100 MB/s).\n\n{text}\n-- \nRegards\n"
    ),
}
LOOSE: dict[str, Callable[[str], str]] = {
    "wrapped": wrapped,
    "wrapped and quoted twice": lambda text: each_line(lambda line: f"> > {line}")(wrapped(text)),
    "kernel lines between": each_line(lambda line: f"{line}\n{KERNEL}"),
}


def check(name: str, text: str) -> None:
    got = parse_any(text)
    want = CASES[name].samples
    assert len(got.samples) == len(want), got.problems
    for sample, expected in zip(got.samples, want, strict=True):
        same(sample, expected)


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", MEASURED)
def test_disguised(name: str, disguise: str) -> None:
    check(name, DISGUISES[disguise](body(name)))


@pytest.mark.parametrize("disguise", LOOSE)
@pytest.mark.parametrize("name", HUMAN)
def test_text_for_people_may_be_wrapped_and_interrupted(name: str, disguise: str) -> None:
    check(name, LOOSE[disguise](body(name)))


@pytest.mark.parametrize("name", [name for name in HUMAN if name.startswith("fio")])
def test_fio_report_flattened_into_one_line(name: str) -> None:
    check(name, " ".join(body(name).split()))


@pytest.mark.parametrize(
    "name", ["dd-bsd-macos-bytes-per-sec.txt", "dd-coreutils-9.1-1M.txt", "dd-coreutils-old-and-new-in-one-mail.txt",
             "dd-toybox-git2026-large.txt", "dd-coreutils-9.1-time-bash.txt"]
)  # fmt: skip
def test_dd_flattened_into_one_line(name: str) -> None:
    check(name, " ".join(body(name).split()))


@pytest.mark.parametrize("name", sorted(name for name in CASES if name.startswith(("perf-table", "time-"))))
@pytest.mark.parametrize("disguise", ["quoted twice", "crlf", "web page", "journald", "flat"])
def test_tables_and_times(name: str, disguise: str) -> None:
    check(name, " ".join(body(name).split()) if disguise == "flat" else DISGUISES[disguise](body(name)))


@pytest.mark.parametrize("name", sorted(name for name in CASES if name.startswith("debugfs-ios")))
@pytest.mark.parametrize("disguise", [*DISGUISES, "flat"])
def test_ios_disguised(name: str, disguise: str) -> None:
    text = " ".join(body(name).split()) if disguise == "flat" else DISGUISES[disguise](body(name))
    ios = parse_any(text).facts["ios"]
    assert isinstance(ios, dict)
    want = CASES[name].facts["ios"]
    assert {key: ios[key] for key in want} == want


JSON = [name for name in MEASURED if "-json" in name]


@pytest.mark.parametrize("name", JSON)
def test_json_may_be_flattened(name: str) -> None:
    check(name, " ".join(body(name).split()))


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("line", [KERNEL, "mmc0: running CQE recovery", '{ "fio version" : "fio-3.33",'])
def test_interleaved_json_is_never_a_value(name: str, line: str) -> None:
    lines = body(name).splitlines()
    opened = next(index for index, one in enumerate(lines) if one.startswith("{"))
    for at in range(opened + 1, len(lines) - 1, 37):
        got = parse_any("\n".join([*lines[:at], line, *lines[at:]]))
        assert not got.samples, (at, lines[at])
        assert "fio-json-broken" in {problem.code for problem in got.problems}


@pytest.mark.parametrize(
    ("name", "step"), [("fio-3.33-json-read-libaio-qd8.txt", 1), ("fio-3.33-json-mixed-randrw.txt", 13)]
)
def test_json_truncated_anywhere_is_never_a_value(name: str, step: int) -> None:
    text = body(name).rstrip()
    for end in range(0, len(text), step):
        got = parse_fio(text[:end])
        assert not got.samples, end
        assert got.problems


def test_json_with_bytes_lost_is_never_another_value() -> None:
    """A serial line that drops characters: the result is refused or untouched, or a digit less fits nothing else."""
    name = "fio-3.33-json-read-libaio-qd8.txt"
    text = body(name)
    start = text.index('"io_bytes"')
    for at in range(start, start + 120):
        for sample in parse_any(text[:at] + text[at + 1 :]).samples:
            assert sample.bytes is not None
            assert sample.bw_bytes is not None
            assert sample.bytes == pytest.approx(2087976960, rel=0.05)
            assert sample.bw_bytes == pytest.approx(2085891068, rel=0.05)


@pytest.mark.parametrize("name", HUMAN)
def test_text_for_people_truncated_anywhere_gives_no_wrong_value(name: str) -> None:
    """What is left of a cut text may hold some of the samples, but no other ones."""
    text = body(name)
    want = CASES[name].samples
    step = max(1, len(text) // 300)
    for end in range(0, len(text), step):
        got = parse_any(text[:end]).samples
        assert len(got) <= len(want)
        for sample in got:
            assert any(
                sample.rw in (one.rw, None)
                and (one.bw is None or sample.bw_bytes == pytest.approx(one.bw, rel=max(one.near, 1e-6)))
                and (one.seconds is None or sample.seconds == pytest.approx(one.seconds))
                for one in want
            ), (end, sample)
