"""Lines of a console that belong to a batch: finding them among noise, checking them, putting the stream together.

A line of ours is `@MARKER TEXT DIGEST`, where the digest covers `TEXT` and a newline. The marker is new for every batch
and never stands in one piece in anything that is sent, so an echo cannot be taken for an answer. Kernel lines may fall
anywhere; a line that they have hit fails its digest and is asked for again.

    frame     TEXT = OFFSET LENGTH PAYLOAD      the bytes OFFSET..OFFSET+LENGTH of the packed stream, encoded
    manifest  TEXT = `= SIZE COMPRESSION PRINTK PLACE DIGEST`      size and digest of the whole packed stream
"""

from __future__ import annotations

import base64
import binascii
import bz2
import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any

#: Digest tools a board may have, best first. All are weak against malice except the first; against a console all do.
DIGESTS = ("sha256sum", "md5sum", "cksum")
#: Encoders a board may have, densest first, and how they are called.
ENCODERS = {"base64": "base64", "uuencode": "uuencode -m -", "od": "od -An -v -tx1"}

_FRAME = re.compile(rb"(\d{1,9}) (\d{1,9}) ([!-~]+)")
_UUENCODE = re.compile(rb"begin-base64\d{3}-(.*)====", re.DOTALL)


class Damaged(ValueError):
    """A line of ours that is not what the board sent."""


def chosen(names: Iterable[str], tools: Container[str]) -> str:
    """The first of names that is among tools; raises StopIteration when none is."""
    return next(name for name in names if name in tools)


@dataclass(frozen=True)
class Manifest:
    """What there is to fetch: bytes, how they are packed, console log level while measuring, directory, digest."""

    size: int
    compression: str
    printk: str
    place: str
    digest: str


@dataclass(frozen=True)
class Frame:
    """A verified piece of the packed stream."""

    offset: int
    data: bytes


def digest(data: bytes, tool: str) -> str:
    """Digest of data as the first word that the tool prints for it on standard input; raises KeyError otherwise."""
    return {"sha256sum": _sha256, "md5sum": _md5, "cksum": _cksum}[tool](data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _cksum(data: bytes) -> str:
    """POSIX cksum: CRC-32 of 0x04C11DB7, most significant bit first, over data and its length, complemented."""
    crc = 0
    length = len(data)
    tail = length.to_bytes((length.bit_length() + 7) // 8, "little")
    for byte in data + tail:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1
        crc &= 0xFFFFFFFF
    return str(crc ^ 0xFFFFFFFF)


def verified(text: bytes, tool: str) -> bytes:
    """TEXT of `TEXT DIGEST ...` when the digest fits; raises Damaged otherwise.

    What the digest tool prints behind its digest (a dash, a length) and what noise adds behind that is ignored.
    """
    words = re.escape(b" ") + (rb"(\d{1,10}) \d" if tool == "cksum" else rb"([0-9a-f]{32,64})")
    # The digest is near the end, whatever the payload looks like; trying all would be a hostile line's delight.
    for found in list(re.finditer(words, text))[-4:]:
        body = text[: found.start()]
        if digest(body + b"\n", tool).encode() == found[1]:
            return body
    raise Damaged("digest does not fit")


def read_manifest(body: bytes) -> Manifest:
    """Manifest of a verified TEXT; raises Damaged when it is none."""
    words = body.decode("ascii", "replace").split(" ")
    if len(words) < 6 or words[0] != "=" or not re.fullmatch(r"\d{1,9}", words[1]):
        raise Damaged("not a manifest")
    if not all(re.fullmatch(r"[!-~]{1,200}", word) for word in words):
        raise Damaged("not the words of a manifest")
    return Manifest(int(words[1]), *words[2:6])


def read_frame(body: bytes, encoder: str) -> Frame:
    """Frame of a verified TEXT; raises Damaged when it is none or its payload is not LENGTH bytes."""
    found = _FRAME.fullmatch(body)
    if not found:
        raise Damaged("not a frame")
    data = decode(found[3], encoder)
    if len(data) != int(found[2]):
        raise Damaged(f"{len(data)} bytes where {int(found[2])} were announced")
    return Frame(int(found[1]), data)


def decode(payload: bytes, encoder: str) -> bytes:
    """Bytes of a payload without white space; raises Damaged for anything that the encoder would not print."""
    if encoder == "uuencode":
        found = _UUENCODE.fullmatch(payload)
        if not found:
            raise Damaged("not what uuencode -m prints")
        payload = found[1]
    try:
        return (
            bytes.fromhex(payload.decode()) if encoder == "od" else base64.b64decode(payload, validate=True)
        )
    except (binascii.Error, ValueError) as error:
        raise Damaged(str(error)) from None


def unpack(packed: bytes, compression: str, limit: int) -> bytes:
    """The stream that the board packed with gzip, bzip2, xz or cat; raises Damaged, also beyond limit bytes."""
    if compression == "cat":
        return packed
    unpackers: dict[str, Callable[[], Any]] = {
        "gzip": lambda: zlib.decompressobj(wbits=31),
        "bzip2": bz2.BZ2Decompressor,
        "xz": lambda: lzma.LZMADecompressor(memlimit=256 << 20),
    }
    if compression not in unpackers:
        raise Damaged(f"unknown compression {compression}")
    try:
        unpacker = unpackers[compression]()
        data: bytes = unpacker.decompress(packed, limit + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise Damaged(str(error)) from None
    if len(data) > limit:
        raise Damaged(f"more than {limit} bytes come out of {len(packed)}")
    if not unpacker.eof:
        raise Damaged("the packed stream ends too early")
    return data


@dataclass
class Assembly:
    """The packed stream as far as it has come: verified pieces by offset, never overwritten."""

    size: int
    pieces: dict[int, bytes] = field(default_factory=dict)

    def add(self, frame: Frame) -> None:
        """Keep a frame of this stream; a longer one at the same offset replaces a shorter one."""
        if frame.offset + len(frame.data) <= self.size and len(frame.data) > len(
            self.pieces.get(frame.offset, b"")
        ):
            self.pieces[frame.offset] = frame.data

    def gap(self) -> tuple[int, int] | None:
        """Offset and length of the first bytes that are missing, or None."""
        reached = 0
        for offset in sorted(self.pieces):
            if offset > reached:
                return reached, offset - reached
            reached = max(reached, offset + len(self.pieces[offset]))
        return None if reached >= self.size else (reached, self.size - reached)

    def join(self) -> bytes:
        """The whole stream; only when there is no gap."""
        whole = bytearray(self.size)
        for offset, data in self.pieces.items():
            whole[offset : offset + len(data)] = data
        return bytes(whole)
