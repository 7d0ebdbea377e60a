"""Sizes, rates and durations as people read them, with values worked out by hand."""

import pytest

from farm.units import format_duration, format_percent, format_rate, format_size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B/s"),
        (999, "999 B/s"),
        (999.96, "1 kB/s"),
        (61.86e6, "61.9 MB/s"),
        (999.4e6, "999 MB/s"),
        (999.7e6, "1.000 GB/s"),
        (2.5e9, "2.500 GB/s"),
        (14.5e9, "14.5 GB/s"),
    ],
)
def test_format_rate(value, text) -> None:
    assert format_rate(value) == text


def test_format_size() -> None:
    assert [format_size(n) for n in (0, 512, 4096, 64 << 20, 3 << 30, 5 << 40)] == [
        "0 B", "512 B", "4 KiB", "64 MiB", "3 GiB", "5 TiB",
    ]  # fmt: skip


def test_format_duration() -> None:
    assert [format_duration(n) for n in (0.4, 12, 59.6, 200, 3600, 7500)] == [
        "0 s", "12 s", "1 min 00 s", "3 min 20 s", "1 h 00 min", "2 h 05 min",
    ]  # fmt: skip


def test_format_percent() -> None:
    assert [format_percent(n) for n in (0, 0.075, 0.0994, 0.0996, 0.131, 1.5)] == [
        "0.0",
        "7.5",
        "9.9",
        "10",
        "13",
        "150",
    ]
