"""The two things that image building asks of ELF files: which libraries, and which modules, they need."""

from __future__ import annotations

import re
import struct

_DT_NEEDED, _DT_STRTAB = 1, 5
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def needed(image: bytes) -> tuple[str, ...]:
    """The DT_NEEDED entries of a 64-bit little-endian ELF file; none if it is not one, or static."""
    if image[:6] != b"\x7fELF\x02\x01":
        return ()
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    loads: list[tuple[int, int, int]] = []
    dynamic = (0, 0)
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", image, table + number * size)
        if kind == _PT_LOAD:
            loads.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
    entries = [
        struct.unpack_from("<qQ", image, dynamic[0] + at) for at in range(0, dynamic[1] // 16 * 16, 16)
    ]
    strings = next((value for tag, value in entries if tag == _DT_STRTAB), 0)
    base = next(
        (offset + strings - start for start, offset, size in loads if start <= strings < start + size), 0
    )
    names = [base + value for tag, value in entries if tag == _DT_NEEDED]
    return tuple(image[at : image.index(b"\0", at)].decode() for at in names)


def module_depends(module: bytes) -> tuple[str, ...]:
    """The modules named in an uncompressed kernel module's `depends=`, as written by modpost."""
    found = _DEPENDS.search(module)
    return tuple(found[1].decode().split(",")) if found and found[1] else ()
