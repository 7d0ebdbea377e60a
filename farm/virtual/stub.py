"""Shared libraries in name only, for engines of fio that a storage board never uses.

Debian's fio is linked against the clients of Ceph, Gluster, NFS, NBD, RDMA and persistent memory. With all that they
need they are 20 MB of initramfs, and a second of emulated run-time linking at every start of fio. A stub satisfies
the run-time linker; whoever calls into it gets a segmentation fault, because it holds no code. fio itself is the
package's, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_ALIGN = 0x10000  # the largest page size of the architectures in question


def sysv_hash(name: bytes) -> int:
    """The hash of symbol and version names that the System V ABI prescribes."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def stub_library(soname: str, symbols: Mapping[str, str], *, machine: int, flags: int) -> bytes:
    """An ELF shared library that defines `symbols` (name -> version, or "" for none) without any code behind them.

    `machine` and `flags` are those of the program that is to be satisfied. Formats: System V ABI, "Dynamic Linking",
    and the symbol versioning of the Linux Standard Base.
    """
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        at = len(strings)
        strings.extend(text.encode() + b"\0")
        return at

    versions = sorted(set(symbols.values()) - {""})
    index = {"": 1, **{version: number + 2 for number, version in enumerate(versions)}}

    verdef = b""
    for number, name in enumerate((soname, *versions)):
        last = number == len(versions)
        # version 1, base flag, index, one name, hash, offset of the name, offset of the next; then the name
        verdef += struct.pack(
            "<HHHHIIIII",
            *(1, not number, number + 1, 1, sysv_hash(name.encode()), 20, 0 if last else 28),
            *(string(name), 0),
        )

    # Functions (STB_GLOBAL, STT_FUNC) of a made-up section, all just behind the ELF header.
    dynsym = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", string(name), 0x12, 0, 1, 0x40, 0) for name in symbols
    )
    versym = struct.pack(f"<{len(symbols) + 1}H", 0, *(index[version] for version in symbols.values()))

    buckets, chain = [0] * max(1, len(symbols)), [0] * (len(symbols) + 1)
    for number, name in enumerate(symbols, start=1):
        slot = sysv_hash(name.encode()) % len(buckets)
        chain[number], buckets[slot] = buckets[slot], number
    table = struct.pack(f"<II{len(buckets)}I{len(chain)}I", len(buckets), len(chain), *buckets, *chain)

    own_name = string(soname)
    at, parts, place = 64 + 3 * 56, [], {}
    for label, content in (
        ("hash", table),
        ("dynsym", dynsym),
        ("versym", versym),
        ("verdef", verdef),
        ("strings", bytes(strings)),
    ):
        place[label] = at
        parts.append(content + bytes(-len(content) % 8))
        at += len(parts[-1])
    dynamic = b"".join(
        struct.pack("<qQ", tag, value)
        for tag, value in (
            (14, own_name),  # DT_SONAME
            (4, place["hash"]),  # DT_HASH
            (5, place["strings"]),  # DT_STRTAB
            (6, place["dynsym"]),  # DT_SYMTAB
            (10, len(strings)),  # DT_STRSZ
            (11, 24),  # DT_SYMENT
            (0x6FFFFFF0, place["versym"]),  # DT_VERSYM
            (0x6FFFFFFC, place["verdef"]),  # DT_VERDEF
            (0x6FFFFFFD, len(versions) + 1),  # DT_VERDEFNUM
            (0, 0),
        )
    )
    size = at + len(dynamic)
    # ET_DYN, no section headers, three program headers behind the ELF header
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, flags, 64, 56, 3, 64, 0, 0)
    read_write = 6
    for kind, offset, length, align in (
        (1, 0, size, _ALIGN),
        (2, at, len(dynamic), 8),
        (0x6474E551, 0, 0, 16),
    ):
        # PT_LOAD, PT_DYNAMIC, PT_GNU_STACK (without which the stack would become executable)
        head += struct.pack("<IIQQQQQQ", kind, read_write, offset, offset, offset, length, length, align)
    return head + b"".join(parts) + dynamic
