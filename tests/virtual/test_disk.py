"""Flash and card images: geometry by our own reading of the format, file systems by their magic numbers."""

import struct
from pathlib import Path

import pytest

from farm.errors import BoardError
from farm.virtual import disk
from farm.virtual.machine import Card, Partition, VirtualBoard

MIB = 1024**2


def card(**fields: object) -> Card:
    return Card.model_validate({"size": "64M", **fields})


def test_the_partition_table_is_an_mbr(tmp_path: Path) -> None:
    parts = [{"size": "16M"}, {"size": "8M", "content": "ext4"}, {"size": "4M", "content": "ext2"}]
    disk.make_card(tmp_path / "card.img", card(partitions=parts))
    image = (tmp_path / "card.img").read_bytes()
    assert len(image) == 64 * MIB
    assert image[510:512] == bytes.fromhex("55aa")
    entries = [image[446 + 16 * number : 462 + 16 * number] for number in range(4)]
    read = [(entry[4], *struct.unpack("<II", entry[8:])) for entry in entries]
    # type, first sector, sectors: 1 MiB is 2048 sectors
    assert read == [(0xDA, 2048, 32768), (0x83, 34816, 16384), (0x83, 51200, 8192), (0, 0, 0)]
    assert disk.partition_starts(card(partitions=parts).partitions) == [1048576, 17825792, 26214400]


def test_file_systems_are_where_the_table_says(tmp_path: Path) -> None:
    parts = [
        {"size": "8M"},
        {"size": "8M", "content": "ext4", "label": "scratch"},
        {"size": "8M", "content": "ext2", "label": "system"},
    ]
    disk.make_card(tmp_path / "card.img", card(partitions=parts))
    image = (tmp_path / "card.img").read_bytes()
    blank, ext4, ext2 = (image[MIB + 8 * MIB * number :][: 8 * MIB] for number in range(3))
    assert not any(blank)
    for superblock, label in ((ext4[1024:2048], b"scratch"), (ext2[1024:2048], b"system")):
        assert superblock[56:58] == b"\x53\xef"  # s_magic
        assert superblock[120:136].rstrip(b"\0") == label  # s_volume_name
    extents = 0x40  # EXT4_FEATURE_INCOMPAT_EXTENTS
    assert struct.unpack("<I", ext4[1024 + 96 : 1024 + 100])[0] & extents
    assert not struct.unpack("<I", ext2[1024 + 96 : 1024 + 100])[0] & extents


def test_a_card_without_partitions_is_blank(tmp_path: Path) -> None:
    disk.make_card(tmp_path / "card.img", card())
    assert not any((tmp_path / "card.img").read_bytes())


def test_what_was_written_stays_until_the_geometry_changes(tmp_path: Path) -> None:
    board = VirtualBoard(flash_size=16 * MIB, card=card())
    disk.prepare(tmp_path, board)
    for name in ("flash.img", "card.img"):
        with (tmp_path / name).open("r+b") as image:
            image.write(b"flashed")
    disk.prepare(tmp_path, board.model_copy(update={"cpus": 2}))
    assert (tmp_path / "flash.img").read_bytes()[:7] == b"flashed"
    assert (tmp_path / "card.img").read_bytes()[:7] == b"flashed"
    disk.prepare(tmp_path, board.model_copy(update={"card": card(partitions=(Partition(size=MIB),))}))
    assert (tmp_path / "card.img").read_bytes()[:7] != b"flashed"


def test_a_host_without_mkfs_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_find", lambda tool: None)
    with pytest.raises(
        BoardError, match=r"mkfs\.ext2 is missing on this machine; install the package e2fsprogs"
    ):
        disk.make_card(tmp_path / "card.img", card(partitions=[{"size": "4M", "content": "ext2"}]))
    assert list(tmp_path.iterdir()) == []
