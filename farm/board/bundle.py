"""A variant made ready for one board: the files to flash, the arguments, and the banner that will prove it."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from farm import cpio
from farm.board.kernel_image import banner
from farm.errors import UserError
from farm.paths import stamp


@dataclass(frozen=True)
class Part:
    """One file to flash: where it lies here, its size in bytes and its CRC-32 as U-Boot's `crc32` prints it."""

    name: str
    path: Path
    size: int
    crc32: int


@dataclass(frozen=True)
class Bundle:
    """What one variant puts on one board. `digest` (SHA-256) covers every byte of it and the arguments."""

    parts: tuple[Part, ...]
    args: str
    banner: str
    digest: str

    def part(self, name: str) -> Part | None:
        """The part called `kernel`, `initrd` or `dtb`, or None where the variant has none."""
        return next((part for part in self.parts if part.name == name), None)


@dataclass(frozen=True)
class _Content:
    size: int
    crc32: int
    sha256: bytes


def _content(path: Path, remedy: str = "") -> _Content:
    """Size and sums of a file. Raises UserError where it cannot be read."""
    try:
        return _sums(path, stamp(path))
    except OSError as problem:
        raise UserError(f"cannot be read ({problem.strerror}){remedy}", file=path) from None


@lru_cache(maxsize=256)
def _sums(path: Path, as_of: tuple[int, int, int]) -> _Content:
    # once for all boards and variants that share the file
    length, crc32, sha256 = 0, 0, hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(1 << 20):
            length, crc32 = length + len(data), zlib.crc32(data, crc32)
            sha256.update(data)
    return _Content(length, crc32, sha256.digest())


def _part(name: str, path: Path) -> Part:
    content = _content(path, f"; give the {name} to flash")
    if not content.size:
        raise UserError(f"is empty; give the {name} to flash", file=path)
    return Part(name, path, content.size, content.crc32)


def _tar_as_cpio(path: Path) -> Iterator[bytes]:
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = os.path.normpath(member.name).lstrip("/")
                if name in (".", "") or name.startswith(".."):
                    continue
                if member.isdir():
                    yield cpio.entry(name, stat.S_IFDIR | member.mode, links=2)
                elif member.issym():
                    yield cpio.entry(name, stat.S_IFLNK | 0o777, member.linkname.encode())
                elif member.isfile():
                    stream = tar.extractfile(member)
                    yield cpio.entry(name, stat.S_IFREG | member.mode, stream.read() if stream else b"")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as problem:
        raise UserError(f"is not a tarball of modules ({problem})", file=path) from None
    yield cpio.TRAILER


def _with_modules(initrd: Path, modules: Path, work: Path) -> Path:
    """The initrd with the modules behind it as a second cpio, which the kernel unpacks over the first."""
    key = hashlib.sha256(_content(initrd).sha256 + _content(modules).sha256).hexdigest()[:24]
    target = work / f"initrd-{key}.img"
    if target.exists():
        return target
    head = initrd.read_bytes()
    if modules.name.endswith((".cpio", ".cpio.gz", ".cpio.xz")):
        tail = modules.read_bytes()
    else:
        # mtime=0 and a fixed level: the same modules give the same bytes, and so the same digest
        tail = gzip.compress(b"".join(_tar_as_cpio(modules)), compresslevel=6, mtime=0)
    work.mkdir(parents=True, exist_ok=True)
    part = work / f".{target.name}.{os.getpid()}"
    # the kernel finds the second archive at a 4-byte boundary
    part.write_bytes(head + b"\0" * (-len(head) % 4) + tail)
    part.replace(target)
    return target


def make(
    *,
    kernel: Path,
    initrd: Path | None,
    dtb: Path | None,
    modules: Path | None,
    args: str,
    work: Path,
    modules_in_initrd: bool = True,
) -> Bundle:
    """The bundle of these files; `work` keeps initrds that had to be joined with modules.

    Raises UserError where a file is missing or is not what it has to be.
    """
    proof = banner(kernel)
    if modules is not None and modules_in_initrd:
        if initrd is None:
            raise UserError(
                "modules go behind an initrd as a second cpio, but there is no initrd", file=modules
            )
        initrd = _with_modules(initrd, modules, work)
    named = (("kernel", kernel), ("initrd", initrd), ("dtb", dtb))
    parts = tuple(_part(name, path) for name, path in named if path is not None)
    digest = hashlib.sha256(args.encode())
    for part in parts:
        digest.update(part.name.encode() + _content(part.path).sha256)
    return Bundle(parts, args, proof, digest.hexdigest())
