"""Figures and foreign text as people see them: units always printed, nothing that a terminal would obey."""

from __future__ import annotations

import re
import time

from farm.units import format_rate, format_size

NONE = "-"
"""Stands where there is no figure."""

_TEXT = re.compile(r"[^\x20-\x7e\n]")


def format_value(metric: str, value: float | None) -> str:
    """A value of a metric of the store (see SampleRecord) with its unit: `61.9 MB/s`, `812 us`, `4980 IOPS`."""
    if value is None:
        return NONE
    if metric == "bw_bytes":
        return format_rate(value)
    if metric == "bytes":
        return format_size(value)
    if metric == "iops":
        return f"{_digits(value)} IOPS"
    if metric == "seconds":
        return f"{_digits(value)} s"
    if metric.endswith("_ns"):
        for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
            if abs(value) < 999.5 * size:
                return f"{_digits(value / size)} {unit}"
        return f"{_digits(value / 1e9)} s"
    return _digits(value)


def _digits(value: float) -> str:
    """Three digits, more only before the point, never an exponent for what a board can measure."""
    if value == 0 or not 1e-6 <= abs(value) < 1e15:
        return f"{value:.3g}"
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"


def format_ratio(ratio: float | None) -> str:
    """A ratio with three decimals: `1.281`."""
    return NONE if ratio is None else f"{ratio:.3f}"


def format_percent(share: float | None) -> str:
    """A share as percent without the sign, which stands once a column: 0.0512 is `5.1`."""
    return NONE if share is None else f"{100 * share:.1f}"


def format_time(seconds: float | None) -> str:
    """UTC epoch seconds as `2026-11-30 18:22:33 UTC`."""
    if seconds is None:
        return NONE
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):  # a board's or an import's clock may say anything
        return f"{seconds:.0f} s"


def visible(text: str | bytes) -> str:
    """Text with every character that a terminal would obey or hide written out; lines stay lines.

    Escape becomes `^[`, NUL `^@`, a byte that is not UTF-8 `\\xff`, a C1 control `\\x9b`, a bidirectional override
    `\\u202e`. A carriage return before a newline is left out, since every serial line ends with it.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return _TEXT.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 0) -> str:
    """`visible` text on one line, cut to `limit` characters where that is not 0."""
    plain = visible(text).strip("\n").replace("\n", "^J")
    return plain if not limit or len(plain) <= limit else plain[: limit - 3] + "..."


def _written_out(found: re.Match[str]) -> str:
    sign = found[0]
    code = ord(sign)
    if sign == "\t":
        return "    "
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if sign.isprintable():
        return sign
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
