"""The files behind a board's flash and card: sparse, with an MBR written by ourselves."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from farm.errors import BoardError
from farm.units import SECTOR
from farm.virtual.machine import CARD_FILE, FLASH_FILE, MIB, Card, Partition, VirtualBoard

_TYPES = {"blank": 0xDA, "ext2": 0x83, "ext4": 0x83}  # 0xda: "non-FS data"


def partition_starts(partitions: Sequence[Partition]) -> list[int]:
    """Byte offset of each partition: one behind the other from the first MiB on."""
    starts, at = [], MIB
    for part in partitions:
        starts.append(at)
        at += part.size
    return starts


def mbr(partitions: Sequence[Partition]) -> bytes:
    """The 512-byte master boot record with up to four primary partitions.

    Entry: status, CHS of first sector, type, CHS of last, LBA of first, sector count (little endian). The CHS
    fields hold FE FF FF, "beyond what CHS can say", as all partitioners write for LBA-only disks.
    """
    table = bytearray(SECTOR)
    for number, (part, start) in enumerate(zip(partitions, partition_starts(partitions), strict=True)):
        entry = struct.pack(
            "<B3sB3sII",
            0,
            b"\xfe\xff\xff",
            _TYPES[part.content],
            b"\xfe\xff\xff",
            start // SECTOR,
            part.size // SECTOR,
        )
        table[446 + 16 * number : 462 + 16 * number] = entry
    table[510:] = b"\x55\xaa"
    return bytes(table)


def _find(tool: str) -> str | None:
    # The sbin directories are missing in an ordinary user's PATH on Debian.
    return shutil.which(tool, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _format(image: Path, part: Partition, start: int) -> None:
    """Make the partition's file system inside the image. Raises BoardError if the host has no mkfs for it."""
    if part.content == "blank":
        return
    tool = f"mkfs.{part.content}"
    found = _find(tool)
    if not found:
        raise BoardError(f"{tool} is missing on this machine; install the package e2fsprogs")
    done = subprocess.run(
        [
            found,
            "-q",
            "-F",
            "-L",
            part.label,
            "-E",
            f"offset={start},nodiscard",
            str(image),
            str(part.size // 1024),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BoardError(f"{tool} could not format a partition of the virtual card: {why}")


def make_card(path: Path, card: Card) -> None:
    """Create the card's image: `card.size` bytes, partition table, file systems. Replaces an older one at once."""
    fresh = path.with_suffix(".new")
    try:
        with fresh.open("wb") as image:
            image.truncate(card.size)
            if card.partitions:
                image.write(mbr(card.partitions))
        for part, start in zip(card.partitions, partition_starts(card.partitions), strict=True):
            _format(fresh, part, start)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def prepare(directory: Path, board: VirtualBoard) -> None:
    """Make the board's flash and card unless they are there with the same geometry: what was written stays."""
    made = directory / "disks.json"
    geometry = json.dumps(
        {
            "flash_size": board.flash_size,
            "card": {"size": board.card.size, "partitions": [p.model_dump() for p in board.card.partitions]},
        },
        sort_keys=True,
    )
    flash, card = directory / FLASH_FILE, directory / CARD_FILE
    if made.exists() and made.read_text() == geometry and flash.exists() and card.exists():
        return
    made.unlink(missing_ok=True)
    flash.unlink(missing_ok=True)
    with flash.open("wb") as image:
        image.truncate(board.flash_size)
    make_card(card, board.card)
    made.write_text(geometry)
