"""Units are always printed, and nothing that a terminal obeys survives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.report.figures import format_time, format_value, one_line, visible


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("bw_bytes", 61.86e6, "61.9 MB/s"),
        ("bytes", 1048576, "1 MiB"),
        ("iops", 4980.4, "4980 IOPS"),
        ("iops", 3.14159, "3.14 IOPS"),
        ("iops", 2_345_678.0, "2345678 IOPS"),
        ("seconds", 0.012345, "0.0123 s"),
        ("seconds", 3661.0, "3661 s"),
        ("lat_p99_ns", 999.0, "999 ns"),
        ("lat_p99_ns", 999.9, "1 us"),
        ("lat_mean_ns", 812_300.0, "812 us"),
        ("lat_p99.9_ns", 12_345_678.0, "12.3 ms"),
        ("lat_max_ns", 2.5e9, "2.5 s"),
        ("lat_mean_ns", 0.0, "0 ns"),
        ("iops", None, "-"),
    ],
)
def test_values_have_their_unit(metric: str, value: float | None, shown: str) -> None:
    assert format_value(metric, value) == shown


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        (b"a\x00b\x7f\x07", "a^@b^?^G"),
        (b"\xff\xfe ok", "\\xff\\xfe ok"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb\u2028c\u200bd", "a\\u202eb\\u2028c\\u200bd"),
        ("\ud800", "\\ud800"),
        (b"line\r\nnext\rover", "line\nnext^Mover"),
        ("grün 日本 é", "grün 日本 é"),
        ("a\tb", "a    b"),
        ("<b>[red]x[/red]</b>", "<b>[red]x[/red]</b>"),
    ],
)
def test_hostile_text_is_written_out(hostile: str | bytes, shown: str) -> None:
    assert visible(hostile) == shown


@given(st.one_of(st.text(), st.binary()))
def test_nothing_that_a_terminal_obeys_is_left(text: str | bytes) -> None:
    assert re.fullmatch(
        r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]*", visible(text)
    )


def test_a_line_stays_one_line_and_may_be_cut() -> None:
    assert one_line("a\nb\n") == "a^Jb"
    assert one_line("abcdefgh", 6) == "abc..."
    assert one_line("abcdef", 6) == "abcdef"


def test_times_are_utc_whatever_the_clock_said() -> None:
    assert format_time(0.0) == "1970-01-01 00:00:00 UTC"
    assert format_time(1796063013.4) == "2026-11-30 18:23:33 UTC"
    assert format_time(None) == "-"
    assert format_time(1e300).endswith(" s")
    assert format_time(float("nan")) == "nan s"
