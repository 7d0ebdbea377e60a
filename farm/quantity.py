"""Numbers as people write them in YAML files: sizes, durations, shares. Inside they are bytes, seconds and fractions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator

from farm.complaint import printable

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?b?)", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|sec|m|min|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(%?)")


def parse_size(value: object) -> int:
    """Bytes of `4k`, `4KiB` or `4kb`, which are 4096 as fio writes them (kb_base=1024), of `512M` or a number.

    Raises ValueError for anything else, a negative number, a fraction of a byte, or more than any card has.
    """
    found = None
    if not isinstance(value, bool) and isinstance(value, (str, int, float)):
        found = _SIZE.fullmatch(str(value).strip())
    if not found:
        raise ValueError(
            f"'{printable(str(value), 40)}' is not a size; write for example 4k, 512M or 1073741824"
        )
    size = float(found[1]) * 1024 ** _POWER[found[2].lower()]
    if size >= 2**50:
        raise ValueError(
            f"'{printable(str(value), 40)}' is larger than any card; write for example 4k, 512M or 8G"
        )
    if size != int(size):
        raise ValueError(f"'{printable(str(value), 40)}' is not a whole number of bytes")
    return int(size)


def overlapping(ranges: Mapping[str, tuple[int, int]]) -> tuple[str, str] | None:
    """Names of two of these ranges, each a start and a size in bytes, that have bytes in common."""
    ordered = sorted((start, start + size, name) for name, (start, size) in ranges.items())
    for (_, end, first), (start, _, second) in pairwise(ordered):
        if start < end:
            return first, second
    return None


def duration(value: object) -> float:
    """Seconds of `5s`, `500ms`, `2min` or a number of seconds. Raises ValueError."""
    if not isinstance(value, bool) and isinstance(value, (str, int, float)):
        found = _DURATION.fullmatch(str(value).strip())
        if found:
            return round(float(found[1]) * _SECONDS[found[2]], 9)
    raise ValueError(f"'{printable(str(value), 40)}' is not a time; write for example 5s, 500ms, 2min or 5")


def share(value: object) -> float:
    """A fraction between 0 and 1 of `3%` or `0.03`. Raises ValueError."""
    found = None
    if not isinstance(value, bool) and isinstance(value, (str, int, float)):
        found = _SHARE.fullmatch(str(value).strip())
    if not found:
        raise ValueError(f"'{printable(str(value), 40)}' is not a share; write for example 3% or 0.03")
    fraction = float(found[1]) / (100 if found[2] else 1)
    if not 0 < fraction < 1:
        raise ValueError(
            f"'{printable(str(value), 40)}' is not between 0 and 100 %; write for example 3% or 0.03"
        )
    return round(fraction, 12)


def band(value: object) -> float | str:
    """A share, or the word `measured`. Raises ValueError."""
    if value == "measured":
        return "measured"
    try:
        return share(value)
    except ValueError as problem:
        raise ValueError(f"{problem}, or measured") from None


def short_size(value: int) -> str:
    """Bytes as fio and dd take them, in the largest whole unit: 4096 -> `4k`, 536870912 -> `512M`, 1000 -> `1000`."""
    for unit, power in (("G", 3), ("M", 2), ("k", 1)):
        if value and value % 1024**power == 0:
            return f"{value // 1024**power}{unit}"
    return str(value)


Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[float, BeforeValidator(duration)]
Band = Annotated[float | Literal["measured"], BeforeValidator(band)]
