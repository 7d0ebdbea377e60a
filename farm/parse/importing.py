"""The JSON object of `farm import --json` for one file. Pure: text in, plain data out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from farm.parse.measurement import Measurement, Parsed
from farm.parse.text import parse_any


def import_object(file: str, data: bytes | str) -> dict[str, object]:
    """`{"file", "samples", "facts", "problems"}` of a file's content; bytes that are no UTF-8 are read all
    the same.
    """
    text = data if isinstance(data, str) else decode(data)
    return as_object(file, parse_any(text))


def decode(data: bytes) -> str:
    """Text of a log file: UTF-8 or UTF-16 by its mark, else UTF-8 with what is damaged marked. Never raises."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8", errors="replace")


def as_object(file: str, parsed: Parsed) -> dict[str, object]:
    """A parse result as JSON data: bytes, seconds, bytes/second, 1/second, nanoseconds; null is unknown."""
    return {
        "file": file,
        "samples": [_sample(sample) for sample in parsed.samples],
        "facts": plain(parsed.facts),
        "problems": [
            {"code": problem.code, "message": plain(problem.message)} for problem in parsed.problems
        ],
    }


def _sample(sample: Measurement) -> dict[str, object]:
    return {
        "tool": sample.tool,
        "rw": sample.rw,
        "job": plain(sample.job),
        "bytes": sample.bytes,
        "seconds": sample.seconds,
        "bw_bytes": sample.bw_bytes,
        "iops": sample.iops,
        "lat_ns": dict(sample.lat_ns),
    }


def plain(value: object) -> object:
    """`value` as JSON can hold it: no tuples, no NaN, no lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(str(key))): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
