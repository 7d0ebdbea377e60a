"""Line protocol: one point, one line. Whatever text comes from a board or a mail, a line stays one line.

Format: docs.influxdata.com/influxdb/v1/write_protocols/line_protocol_reference. InfluxDB itself takes raw newlines
inside quoted strings, but other servers that speak the protocol split at every newline, so that a hostile string
could smuggle in a point of its own. Control characters are therefore written as visible escapes.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from farm.errors import StoreError

Value = float | str | None
"""A field: a number or a text; None is left out. Every number is sent as a float, so that one that happens to be
whole never sets the type of its field."""

MAX_TEXT = 2000
"""Characters of a text field that are sent; the record keeps all of it."""
MAX_TAG = 120
"""Characters of a tag; a tag is an index key, and what is longer is no name that anybody chose."""
MAX_BODY = 256 * 1024 * 1024
"""Bytes up to which the lines of one row of the outbox are unpacked."""

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_NOT_IN_TAGS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\\\\]")
_KEY_ESCAPES = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_TEXT_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})


def line(measurement: str, tags: Mapping[str, str | None], fields: Mapping[str, Value], ms: int) -> str:
    """The line of one point at `ms` milliseconds since the epoch, without a newline.

    Tags and fields that are None or empty, and numbers that are not finite, are left out. Raises ValueError where
    no field is left, because there is no such point.
    """
    return head(measurement, tags) + tail(fields, ms)


def head(measurement: str, tags: Mapping[str, str | None]) -> str:
    """Measurement and tags, sorted by name as servers prefer; the same for all points of a series."""
    text = measurement
    for name in sorted(tags):
        value = tags[name]
        if value and (clean := tag(value)):
            text += f",{_key(name)}={clean}"
    return text


def tail(fields: Mapping[str, Value], ms: int) -> str:
    """Fields and time of a point, to be put behind its `head`. Raises ValueError where no field is left."""
    parts = []
    for name, value in fields.items():
        if value is None or not name:
            continue
        if isinstance(value, str):
            parts.append(f'{_key(name)}="{text_value(value)}"')
        elif (number := _number(value)) is not None:
            parts.append(f"{_key(name)}={number}")
    if not parts:
        raise ValueError("a point needs a field")
    return f" {','.join(parts)} {ms}"


@lru_cache(4096)
def tag(value: str) -> str:
    """A tag's value, escaped. Backslashes cannot be told from escapes in a tag: they become "_", like control
    characters."""
    return _NOT_IN_TAGS.sub("_", value[:MAX_TAG]).translate(_KEY_ESCAPES)


def text_value(value: str) -> str:
    """The inside of a quoted text field: cut at MAX_TEXT, control characters visible, quotes escaped."""
    if len(value) > MAX_TEXT:
        value = value[: MAX_TEXT - 3] + "..."
    return _HIDDEN.sub(_visible, value).translate(_TEXT_ESCAPES)


@lru_cache(4096)
def _key(name: str) -> str:
    return _NOT_IN_TAGS.sub("_", name[:MAX_TAG]).translate(_KEY_ESCAPES)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _number(value: float) -> str | None:
    try:
        number = float(value)
    except OverflowError:  # an int beyond 1e308
        return None
    return repr(number) if math.isfinite(number) else None


def pack(lines: Iterable[str]) -> bytes:
    """Lines as they are kept in the outbox."""
    return zlib.compress("\n".join(lines).encode(), 6)


def unpack(body: bytes) -> list[str]:
    """The lines of a row of the outbox. Raises StoreError where they are damaged or more than MAX_BODY bytes."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, MAX_BODY)
        if not unpacker.eof:
            raise StoreError("the lines of a row of the outbox are cut off or too many")
        return data.decode().split("\n") if data else []
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError(f"the lines of a row of the outbox are damaged: {error}") from error
