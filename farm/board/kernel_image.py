"""What a kernel image says of itself: the banner that `/proc/version` must repeat once it runs."""

from __future__ import annotations

import bz2
import contextlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from farm.errors import UserError
from farm.paths import stamp

# linux_banner of init/version-timestamp.c: release, compiler and UTS_VERSION, then a newline. The printk
# formats beside it contain "%s" where the banner has a digit. Since 6.1 init/version.c leaves a weak banner beside
# the real one, whose version is "# SMP ..." without a number.
_BANNER = re.compile(rb"Linux version \d+\.\d+[^\n\0]{8,500}\) #\d+[^\n\0]{0,200}(?=\n\0)")
_UNPACKED_LIMIT = 512 << 20
_LZMA = b"]\x00\x00"


class _Decompressor(Protocol):
    def decompress(self, data: memoryview, max_length: int = ..., /) -> bytes: ...


_PACKED: tuple[tuple[bytes, Callable[[], _Decompressor]], ...] = (
    (b"\x1f\x8b\x08", lambda: zlib.decompressobj(wbits=31)),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    (_LZMA, lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE)),
    (b"BZh", bz2.BZ2Decompressor),
)
# Formats that hold a kernel; the payload may be packed inside (zboot, FIT, Android boot image, uImage).
_CONTAINERS = (
    (0x38, b"ARM\x64"),
    (0x30, b"RISCV"),
    (0, b"MZ"),
    (0, b"ANDROID!"),
    (0, b"\xd0\x0d\xfe\xed"),
    (0, b"\x27\x05\x19\x56"),
    (0, b"\x7fELF"),
    (0x24, b"\x18\x28\x6f\x01"),
)


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Every compressed stream inside `data`, unpacked; a false magic yields nothing."""
    view = memoryview(data)  # a false magic is common, and copying the rest of the image for each is not free
    for magic, start in _PACKED:
        at = data.find(magic)
        while at >= 0:
            if magic != _LZMA or _is_lzma_head(data[at + 1 : at + 5]):
                with contextlib.suppress(zlib.error, lzma.LZMAError, OSError, EOFError, ValueError):
                    yield start().decompress(view[at:], _UNPACKED_LIMIT)
            at = data.find(magic, at + 1)


def _is_lzma_head(dictionary: bytes) -> bool:
    """Whether these four bytes are a dictionary size of `lzma`: a power of two from 64 KiB on."""
    size = int.from_bytes(dictionary, "little")
    return size >= 1 << 16 and size & (size - 1) == 0


def banner(path: Path) -> str:
    """The banner inside a kernel image (Image, zImage, zboot, gzip, FIT, uImage, Android boot image, vmlinux).

    Raises UserError where the file is missing, is no kernel, or holds more than one kernel, since then nobody
    could say which of them has to run.
    """
    try:
        return _banner(path, stamp(path))
    except OSError as problem:
        raise UserError(f"cannot be read ({problem.strerror}); give a kernel image", file=path) from None


@lru_cache(maxsize=64)
def _banner(path: Path, as_of: tuple[int, int, int]) -> str:
    # unpacking a kernel takes a second, and boards and variants share kernels
    data = path.read_bytes()
    found = {match.group() for match in _BANNER.finditer(data)}
    if not found:
        for plain in _unpacked(data):
            found |= {match.group() for match in _BANNER.finditer(plain)}
            if found:
                break
    if len(found) > 1:
        raise UserError(
            f"holds {len(found)} kernels, so none of them can be proven; give an image with one", file=path
        )
    if not found:
        known = any(data[at : at + len(magic)] == magic for at, magic in _CONTAINERS)
        kind = "looks like a kernel but holds no readable banner" if known else "is not a kernel image"
        raise UserError(
            f"{kind}; give an arm64 or riscv64 Image, zImage, vmlinux, FIT, uImage or Android boot image, plain or "
            "packed with gzip, xz, lzma or bzip2",
            file=path,
        )
    return found.pop().decode("latin-1")
