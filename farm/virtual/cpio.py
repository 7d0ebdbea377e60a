"""Writes initramfs archives: cpio in the "newc" format that the kernel unpacks (its buffer-format.rst)."""

from __future__ import annotations

import gzip
import stat
from pathlib import Path


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
        parts = [*self._parts, self._entry("TRAILER!!!", 0, b"", (0, 0))]
        packed = gzip.compress(b"".join(parts), compresslevel=9, mtime=0)
        path.write_bytes(packed + bytes(-len(packed) % 4))

    def _add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        parent = name.rpartition("/")[0]
        if parent:
            self.directory(parent)
        self._seen.add(name)
        self._parts.append(self._entry(name, mode, content, device))

    def _entry(self, name: str, mode: int, content: bytes, device: tuple[int, int]) -> bytes:
        encoded = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (len(self._parts) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
