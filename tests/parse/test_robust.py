"""Parsers never raise, never give nonsense, and take linear time, whatever they are fed."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.parse.dd import parse_dd
from farm.parse.dmesg import parse_dmesg
from farm.parse.extcsd import parse_extcsd
from farm.parse.fio import parse_fio
from farm.parse.importing import decode, import_object
from farm.parse.ios import parse_ios
from farm.parse.table import parse_table
from farm.parse.text import parse_any
from farm.parse.timing import parse_time

CORPUS = {path.name: path.read_text() for path in (Path(__file__).parents[1] / "corpus").iterdir()}
PIECES = sorted({word for text in CORPUS.values() for word in text.split("\n")[:60]})


def sound(text: str) -> None:
    """All parsers on a text: no exception, nothing negative or not finite, a reason where there is no sample."""
    for parse in (parse_any, parse_fio, parse_dd, parse_time, parse_table):
        result = parse(text)
        assert result.samples or result.problems
        for sample in result.samples:
            values = [sample.bytes, sample.seconds, sample.bw_bytes, sample.iops, *sample.lat_ns.values()]
            known = [value for value in values if value is not None]
            assert known
            assert all(math.isfinite(value) and value >= 0 for value in known), sample
            assert sample.bw_bytes is None or sample.bw_bytes > 0
            assert sample.seconds is None or sample.seconds > 0
    parse_ios(text)
    parse_dmesg(text)
    parse_extcsd(text)
    json.dumps(import_object("x", text), allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    sound(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["\n", " ", "\r", "\r\n", "\n> ", ""]))
def test_lines_of_real_output_in_any_order(lines: list[str], joint: str) -> None:
    sound(joint.join(lines))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(CORPUS)), st.data())
def test_real_output_with_damage(name: str, data: st.DataObject) -> None:
    text = CORPUS[name][:6000]
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 40))
    put = data.draw(st.text(alphabet='0123456789.{}[]":,;()/ \n\r\x1b\0kMGx-+%=', max_size=12))
    sound(text[:at] + put + text[at + gone :])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    sound(decode(data))


def test_huge_numbers_are_no_values() -> None:
    nines = "9" * 400
    for name in ("fio-3.33-json-read-libaio-qd8.txt", "dd-coreutils-9.1-1M.txt", "fio-3.33-terse-v3.txt"):
        for number in ("1001", "64+0", "67108864", "66685"):
            sound(CORPUS[name].replace(number, nines))
    sound('{"fio version" : "fio-3.33", "jobs" : [' + "[" * 100_000)
    sound('{"fio version" : "fio-3.33", "jobs" : [{"read" : {"io_bytes" : 1e999, "runtime" : 1e400}}]}')


def test_time_is_linear_in_hostile_text() -> None:
    """Ten times the text takes about ten times as long; thirty is the limit.

    Others' work on the machine only ever adds, so the best counts, of as many rounds as it needs up to ten.
    """
    human = CORPUS["fio-3.16-normal-sd-randread-randwrite-before.txt"]
    for piece in ("\r", " ", "\n", "> ", "a", "\0\x1b[", '{"fio version"', "real 0m1.0s\n", "Speed: 1 2 3\n", "1+0 records in\n",
                  "clock: 1 Hz ", "12345678", "deadbeefdeadbeef\n", "<a ", "#$ ", human, "[    1.234567] mmc0: x ",
                  "a: (groupid=0, jobs=1): err= 0: pid=1: ", "3;fio-3.33;"):  # fmt: skip
        texts = [piece * (size // len(piece) + 1) for size in (20_000, 200_000)]
        best = [math.inf, math.inf]
        for _ in range(10):
            for number, text in enumerate(texts):
                began = time.process_time()
                parse_any(text)
                best[number] = min(best[number], time.process_time() - began)
            if best[1] < 30 * max(best[0], 0.003):
                break
        else:
            pytest.fail(f"{piece[:20]!r}: {best[0]:.4f} s, and {best[1]:.4f} s for ten times as much")
