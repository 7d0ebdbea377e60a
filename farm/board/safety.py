"""What may be written, decided on the board right before the first write; nothing here is ever guessed."""

from __future__ import annotations

from farm.board.facts import DiskState, Partition
from farm.errors import BoardError
from farm.fleet.env import Area, Disk
from farm.units import format_size


class UnsafeError(BoardError):
    """The board is not what its env says, so farm writes nothing to it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"will not touch the disk: {reason}", step="safety")


def check_disk(declared: Disk, found: DiskState) -> None:
    """The disk found has to be the one that the env declares. Raises UnsafeError with what differs."""
    if not found.candidates:
        raise UnsafeError(
            f"no card or eMMC behind controller {declared.controller!r}; check disk.controller and the card"
        )
    if len(found.candidates) > 1:
        raise UnsafeError(
            f"{len(found.candidates)} disks ({', '.join(found.candidates)}) match controller {declared.controller!r}; "
            "make disk.controller longer"
        )
    if found.size != declared.size:
        raise UnsafeError(
            f"{found.node} has {found.size} bytes ({format_size(found.size)}), but the env declares {declared.size} "
            f"({format_size(declared.size)}); correct disk.size or insert the right card"
        )
    if found.type != declared.type:
        raise UnsafeError(
            f"{found.node} is of type {found.type or 'unknown'}, but the env declares {declared.type}"
        )
    if declared.cid is not None and found.cid != declared.cid:
        raise UnsafeError(
            f"{found.node} has CID {found.cid or 'unknown'}, but the env declares {declared.cid}"
        )


def _partition(area: Area, found: DiskState) -> Partition:
    there = next((entry for entry in found.partitions if entry.number == area.partition), None)
    if there is None:
        numbers = ", ".join(str(entry.number) for entry in found.partitions) or "none"
        raise UnsafeError(f"{found.node} has no partition {area.partition} (there: {numbers})")
    if (there.start, there.size) != (area.start, area.size):
        raise UnsafeError(
            f"{there.node} starts at {there.start} with {there.size} bytes, but the env declares start {area.start} "
            f"and size {area.size}"
        )
    return there


def writable(area: Area, declared: Disk, found: DiskState) -> str:
    """The device node of a scratch area, once everything about it is as the env declares.

    A raw area must not be mounted, swapped to or held by another driver; a file area may be mounted at its own
    mount point and nowhere else. Raises UnsafeError.
    """
    check_disk(declared, found)
    if found.read_only:
        raise UnsafeError(f"{found.node} is read-only (write protection switch, or worn out)")
    if area.partition is None:
        if area.size > found.size:
            raise UnsafeError(f"scratch of {area.size} bytes is larger than {found.node} with {found.size}")
        node, touched = found.node, [found.node, *(entry.node for entry in found.partitions)]
        held = found.held or any(entry.held for entry in found.partitions)
    else:
        there = _partition(area, found)
        # the disk itself counts too: a file system or a mapping over all of it covers the partition
        node, touched, held = there.node, [there.node, found.node], there.held or found.held
    for source, point in found.mounts:
        if source in touched and (source, point) != (node, area.mount):
            raise UnsafeError(f"{source} is mounted at {point}; scratch must not be in use")
    if in_use := [swap for swap in found.swaps if swap in touched]:
        raise UnsafeError(f"{in_use[0]} is used for swap")
    if held:
        raise UnsafeError(f"{node} is held by another driver (device mapper, RAID or loop)")
    return node
