"""Sizes, rates and times between what people write and the bytes, seconds and bytes/second used inside."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?b?)", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Bytes of a size as fio writes it: `4k`, `4KiB` and `4kb` are 4096 (fio's kb_base=1024).

    Raises ValueError for anything else, a negative number, or a fraction of a byte.
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size; write for example 4k, 512M or 1073741824")
    found = _SIZE.fullmatch(str(text).strip())
    if not found:
        raise ValueError(f"{text!r} is not a size; write for example 4k, 512M or 1073741824")
    value = float(found[1]) * 1024 ** _POWER[found[2].lower()]
    if value >= 2**63:
        raise ValueError(f"{str(text)[:20]}... is not a size of this world; the largest is 8 EiB")
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(value)


def format_size(value: float) -> str:
    """Bytes for people, 1024-based with the unit printed: `64 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def format_rate(value: float) -> str:
    """Bytes/second for people, 10^6-based with the unit printed: `61.9 MB/s`."""
    for unit in ("B/s", "kB/s", "MB/s"):
        # what would be printed as 1e+03 belongs to the next unit
        if abs(value) < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3f} GB/s" if abs(value) < 10 else f"{value:.1f} GB/s"


def format_duration(seconds: float) -> str:
    """Seconds for people: `12 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_percent(share: float) -> str:
    """A share for people, in percent without the sign: `7.5`, `13`, `150`."""
    return f"{100 * share:.{1 if abs(share) < 0.0995 else 0}f}"
