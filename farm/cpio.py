"""Writes initramfs archives: cpio in the "newc" format that the kernel unpacks (its buffer-format.rst)."""

from __future__ import annotations

import gzip
import stat
from pathlib import Path


def entry(
    name: str,
    mode: int,
    content: bytes = b"",
    *,
    number: int = 0,
    links: int = 1,
    device: tuple[int, int] = (0, 0),
) -> bytes:
    """One entry; `number` is its inode. An archive is entries, and `TRAILER` behind them."""
    encoded = name.encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


TRAILER = entry("TRAILER!!!", 0)


class Cpio:
    """An archive in memory; parents of what is added are made by themselves. The same content gives the same bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._seen: set[str] = set()

    def directory(self, name: str, mode: int = 0o755) -> None:
        """Add a directory."""
        if name not in self._seen:
            self._add(name, stat.S_IFDIR | mode)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self._add(name, stat.S_IFREG | mode, content)

    def symlink(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int, mode: int = 0o600) -> None:
        """Add a character device."""
        self._add(name, stat.S_IFCHR | mode, device=(major, minor))

    def write(self, path: Path) -> None:
        """Write the archive gzip-compressed, padded to four bytes so that another may follow in one initrd."""
        packed = gzip.compress(b"".join([*self._parts, TRAILER]), compresslevel=9, mtime=0)
        path.write_bytes(packed + bytes(-len(packed) % 4))

    def _add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        parent = name.rpartition("/")[0]
        if parent:
            self.directory(parent)
        self._seen.add(name)
        self._parts.append(entry(name, mode, content, number=len(self._parts) + 1, device=device))
