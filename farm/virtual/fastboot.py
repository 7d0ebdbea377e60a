"""A stand-in for a bootloader's fastboot: Debian's U-Boot for QEMU has none, so the lab answers in its place.

Real is the client, the protocol (AOSP, system/core/fastboot/README.md) and what it writes: the partitions that the board's
virtual block declares, in the same flash that the board's U-Boot reads. Not real is who writes: the lab and not the
board, so no command at U-Boot's prompt starts it. It answers while the board has power, on an address of the board's own.

Over TCP both sides say FB01 first; then each message has its length, 8 bytes big endian, in front. Images larger than
`max-download-size` come in Android's sparse format (AOSP, system/core/libsparse/sparse_format.h).
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from farm.virtual.machine import FLASH_FILE, FlashRange, VirtualFastboot

log = logging.getLogger("lab")

PORT = 5554  # fastboot's own
#: Bytes that a client may send at once: what U-Boot's CONFIG_FASTBOOT_BUF_SIZE is on many boards. Kernels are larger.
BUFFER = 32 << 20
_LONGEST_COMMAND = 4096
_SLICE = 1 << 20  # bytes after which other boards get their turn
_HANDSHAKE = b"FB01"

_SPARSE_MAGIC = 0xED26FF3A
_SPARSE_HEADER = struct.Struct("<IHHHHIIII")
_CHUNK_HEADER = struct.Struct("<HHII")
_RAW, _FILL, _SKIP, _CRC = 0xCAC1, 0xCAC2, 0xCAC3, 0xCAC4


class _Refused(Exception):
    """What the client is told behind FAIL."""


def pieces(image: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and content of what an image, raw or sparse, writes. Raises ValueError for a sparse one that is damaged."""
    if image[:4] != struct.pack("<I", _SPARSE_MAGIC):
        yield 0, image
        return
    try:
        _, major, _, header, chunk_header, block, _, chunks, _ = _SPARSE_HEADER.unpack_from(image)
        if major != 1 or block == 0 or header < _SPARSE_HEADER.size or chunk_header < _CHUNK_HEADER.size:
            raise ValueError("sparse image of an unknown version")
        at, target = header, 0
        for _ in range(chunks):
            kind, _, blocks, total = _CHUNK_HEADER.unpack_from(image, at)
            body = image[at + chunk_header : at + total]
            size = blocks * block if kind in (_RAW, _FILL, _SKIP) else 0
            if total < chunk_header or len(body) != total - chunk_header:
                raise ValueError("sparse image is cut off")
            if kind == _RAW and len(body) == size:
                yield target, body
            elif kind == _FILL and len(body) == 4:
                for start in range(0, size, _SLICE):
                    yield target + start, body * (min(_SLICE, size - start) // 4)
            elif kind not in (_SKIP, _CRC):
                raise ValueError(f"sparse image has a chunk {kind:#06x} of {len(body)} bytes")
            at, target = at + total, target + size
    except struct.error:
        raise ValueError("sparse image is cut off") from None


class FastbootStandIn:
    """The fastboot of one board. `reboot` restarts the board; `address` is the one it answers on."""

    def __init__(
        self, config: VirtualFastboot, directory: Path, address: str, reboot: Callable[[], Awaitable[None]]
    ) -> None:
        self._partitions, self._flash, self._address = config.partitions, directory / FLASH_FILE, address
        self._reboot = reboot
        self._name = directory.name
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._image = b""
        self._slot = "a"

    async def start(self) -> None:
        """The board has power: begin to answer. Raises OSError where the address is taken."""
        self._server = await asyncio.start_server(self._serve, self._address, PORT)

    def stop(self) -> None:
        """Power went: hang up in the middle of whatever it was."""
        if self._server:
            self._server.close()
        self._server, self._image = None, b""
        for client in self._clients:
            client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            writer.write(_HANDSHAKE)
            if not (await reader.readexactly(4)).startswith(b"FB"):
                return
            while True:
                command = (await self._message(reader, _LONGEST_COMMAND)).decode("ascii", "replace")
                after = None
                try:
                    answer, after = await self._obey(command, reader, writer)
                except (_Refused, ValueError) as problem:
                    answer = f"FAIL{problem}"
                self._say(writer, answer)
                await writer.drain()
                if after:
                    writer.close()
                    await after()
                    return
        except (OSError, EOFError):  # IncompleteReadError is an EOFError
            pass
        finally:
            self._clients.discard(writer)
            writer.close()

    @staticmethod
    async def _message(reader: asyncio.StreamReader, longest: int) -> bytes:
        (length,) = struct.unpack(">Q", await reader.readexactly(8))
        if length > longest:
            raise EOFError("no client of ours sends that")
        return await reader.readexactly(length)

    @staticmethod
    def _say(writer: asyncio.StreamWriter, text: str) -> None:
        words = text.encode("ascii", "replace")
        writer.write(struct.pack(">Q", len(words)) + words)

    async def _obey(
        self, command: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, Callable[[], Awaitable[None]] | None]:
        """The answer to a command, and what is to be done once it was given."""
        verb, _, rest = command.partition(":")
        if verb == "getvar":
            return f"OKAY{self._variable(rest)}", None
        if verb == "download":
            await self._download(rest, reader, writer)
        elif verb == "flash":
            await self._write(rest, pieces(self._image))
        elif verb == "erase":
            size = self._partition(rest).size
            zeros = ((start, bytes(min(_SLICE, size - start))) for start in range(0, size, _SLICE))
            await self._write(rest, zeros)
        elif verb == "set_active" and rest in self._slots():
            self._slot = rest
        elif verb in ("reboot", "reboot-bootloader"):
            return "OKAY", self._reboot
        else:
            raise _Refused(f"unknown command {command[:40]}")
        return "OKAY", None

    async def _download(
        self, size_text: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            size = int(size_text, 16)
        except ValueError:
            raise _Refused("the size of a download is hexadecimal") from None
        if not 0 < size <= BUFFER:
            raise _Refused(f"{size} bytes do not fit into the buffer of {BUFFER}")
        self._say(writer, f"DATA{size:08x}")
        await writer.drain()
        data = bytearray()
        while len(data) < size:
            data += await self._message(reader, size - len(data))
        self._image = bytes(data)

    async def _write(self, name: str, parts: Iterator[tuple[int, bytes]]) -> None:
        place = self._partition(name)
        flash = os.open(self._flash, os.O_WRONLY | os.O_CLOEXEC)
        written = 0
        try:
            for offset, content in parts:
                if offset + len(content) > place.size:
                    raise _Refused(f"image is larger than partition {name} of {place.size} bytes")
                for start in range(0, len(content), _SLICE):
                    piece = content[start : start + _SLICE]
                    os.pwrite(flash, piece, place.start + offset + start)
                    written += len(piece)
                    await asyncio.sleep(0)
        finally:
            os.close(flash)
        log.info("%s: fastboot wrote %d bytes of partition %s", self._name, written, name)

    def _slots(self) -> list[str]:
        return sorted({name[-1] for name in self._partitions if name.endswith(("_a", "_b"))})

    def _partition(self, name: str) -> FlashRange:
        place = self._partitions.get(name)
        if place is None:
            raise _Refused(f"no partition {name[:40]}")
        return place

    def _variable(self, name: str) -> str:
        """What `getvar` says; raises _Refused for what this board does not know, as the protocol wants it."""
        key, _, argument = name.partition(":")
        slots = self._slots()
        if key in ("partition-size", "partition-type"):
            place = self._partition(argument)
            return f"{place.size:#x}" if key == "partition-size" else "raw"
        known = {
            "version": "0.4",
            "product": self._name,
            "max-download-size": f"{BUFFER:#x}",
            "is-userspace": "no",
            "slot-count": str(len(slots)),
            "current-slot": self._slot if slots else "",
            "has-slot": "yes" if f"{argument}_a" in self._partitions else "no",
        }
        if key not in known:
            raise _Refused(f"unknown variable {name[:40]}")
        return known[key]
