"""What may be written: every single difference between env and board is a refusal."""

from dataclasses import replace

import pytest

from farm.board.facts import DiskState, Partition
from farm.board.safety import UnsafeError, check_disk, writable
from farm.fleet.env import Area, Disk

MIB = 1 << 20
DISK = Disk(controller="fe2b0000.mmc", type="SD", size=1024 * MIB, cid="aa" * 16)
RAW = Area(partition=1, start=MIB, size=512 * MIB)
FILES = Area(partition=2, start=513 * MIB, size=256 * MIB, filesystem="ext2", mount="/mnt/scratch")
FOUND = DiskState(
    candidates=("mmcblk0",),
    node="/dev/mmcblk0",
    size=1024 * MIB,
    type="SD",
    cid="aa" * 16,
    read_only=False,
    held=False,
    partitions=(
        Partition("/dev/mmcblk0p1", 1, MIB, 512 * MIB, held=False),
        Partition("/dev/mmcblk0p2", 2, 513 * MIB, 256 * MIB, held=False),
        Partition("/dev/mmcblk0p3", 3, 769 * MIB, 32 * MIB, held=False),
    ),
    mounts=(),
    swaps=(),
)


def test_what_is_as_declared_may_be_written() -> None:
    assert writable(RAW, DISK, FOUND) == "/dev/mmcblk0p1"
    assert writable(FILES, DISK, FOUND) == "/dev/mmcblk0p2"


def test_mounts_elsewhere_on_the_disk_do_not_matter() -> None:
    root = replace(FOUND, mounts=(("/dev/mmcblk0p3", "/"), ("/dev/mmcblk0p2", "/mnt/scratch")))
    assert writable(RAW, DISK, root) == "/dev/mmcblk0p1"
    assert writable(FILES, DISK, root) == "/dev/mmcblk0p2"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"candidates": ()}, "no card or eMMC behind controller 'fe2b0000.mmc'"),
        ({"candidates": ("mmcblk0", "mmcblk1")}, r"2 disks \(mmcblk0, mmcblk1\) match"),
        ({"size": 2048 * MIB}, "2147483648 bytes .* declares 1073741824"),
        ({"type": "MMC"}, "of type MMC, but the env declares SD"),
        ({"cid": "bb" * 16}, "has CID bbbb"),
        ({"cid": ""}, "has CID unknown"),
    ],
)
def test_another_card_is_refused(change, said) -> None:
    with pytest.raises(UnsafeError, match=said):
        check_disk(DISK, replace(FOUND, **change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"read_only": True}, "is read-only"),
        ({"held": True}, "held by another driver"),
        ({"mounts": (("/dev/mmcblk0p1", "/data"),)}, "mmcblk0p1 is mounted at /data"),
        ({"mounts": (("/dev/mmcblk0", "/data"),)}, "mmcblk0 is mounted at /data"),
        ({"swaps": ("/dev/mmcblk0p1",)}, "used for swap"),
        ({"partitions": FOUND.partitions[1:]}, r"has no partition 1 \(there: 2, 3\)"),
        (
            {"partitions": (Partition("/dev/mmcblk0p1", 1, 2 * MIB, 512 * MIB, held=False),)},
            "starts at 2097152",
        ),
        (
            {"partitions": (Partition("/dev/mmcblk0p1", 1, MIB, 511 * MIB, held=False),)},
            "with 535822336 bytes",
        ),
        (
            {"partitions": (Partition("/dev/mmcblk0p1", 1, MIB, 512 * MIB, held=True),)},
            "held by another driver",
        ),
    ],
)
def test_a_partition_that_differs_or_is_in_use_is_refused(change, said) -> None:
    with pytest.raises(UnsafeError, match=said):
        writable(RAW, DISK, replace(FOUND, **change))


def test_a_file_area_mounted_elsewhere_is_refused() -> None:
    with pytest.raises(UnsafeError, match="mounted at /home"):
        writable(FILES, DISK, replace(FOUND, mounts=(("/dev/mmcblk0p2", "/home"),)))


@pytest.mark.parametrize("source", ["/dev/mmcblk0p3", "/dev/mmcblk0"])
def test_a_whole_disk_with_anything_mounted_is_refused(source) -> None:
    with pytest.raises(UnsafeError, match="is mounted at /"):
        writable(Area(size=1024 * MIB), DISK, replace(FOUND, mounts=((source, "/"),)))


def test_a_whole_disk_without_use_may_be_written() -> None:
    assert writable(Area(size=1024 * MIB), DISK, FOUND) == "/dev/mmcblk0"
    with pytest.raises(UnsafeError, match="larger than"):
        writable(Area(size=1025 * MIB), DISK, FOUND)
