"""Between Python values and what SQLite keeps: text of any kind, JSON, and packed raw output."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from farm.errors import StoreError
from farm.store.records import TrialRecord

MAX_RAW = 256 * 1024 * 1024
"""Bytes up to which one raw output is unpacked unless the caller asks for more."""


def text_in(text: str) -> bytes:
    """Bytes to be bound as `CAST(? AS TEXT)`.

    A str out of a hostile log may hold lone surrogates, which sqlite3 refuses to bind; surrogatepass takes
    every str there is, both ways.
    """
    return text.encode("utf-8", "surrogatepass")


def text_out(data: bytes) -> str:
    """The str that went in, as a connection's text_factory."""
    return data.decode("utf-8", "surrogatepass")


def json_in(value: Mapping[str, Any]) -> str:
    """Compact JSON in ASCII, so that it binds whatever text is in it. Raises TypeError for other values."""
    return json.dumps(dict(value), separators=(",", ":"))


Packed = tuple[str, int, bytes]
"""Kind, size before packing in bytes, zlib stream."""


def pack(trials: Iterable[TrialRecord]) -> list[list[Packed]]:
    """The raw output of each trial, compressed."""
    return [[(kind, len(data), zlib.compress(data)) for kind, data in trial.raw.items()] for trial in trials]


def unpack(stream: bytes, size: int, limit: int, what: str) -> bytes:
    """The `size` bytes in a stream, never more whatever it expands to: a database may come from anywhere.

    Raises StoreError, beginning with `what`, for more than `limit` bytes or a damaged stream.
    """
    if size > limit:
        raise StoreError(f"{what} is {size} bytes long, more than the {limit} that may be unpacked")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(stream, size + 1)
    except zlib.error as error:
        raise StoreError(f"{what} is damaged: {error}") from error
    if len(data) != size or not unpacker.eof:
        raise StoreError(f"{what} is damaged: it does not unpack to the {size} bytes that were stored")
    return data
