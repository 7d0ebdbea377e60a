"""What image building asks of ELF files (64 bit, little endian), read by their section headers; see elf(5)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from farm.errors import BoardError

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_VERNEED, _SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_DT_NEEDED = 1
_SHN_UNDEF, _STB_WEAK = 0, 2


@dataclass(frozen=True)
class Symbol:
    """A dynamic symbol; an undefined one may be bound to a `version` of a `library`."""

    name: str
    defined: bool
    weak: bool
    version: str = ""
    library: str = ""


class Elf:
    """A program or shared library. Raises BoardError if it is damaged or of another kind."""

    def __init__(self, image: bytes) -> None:
        if image[:6] != b"\x7fELF\x02\x01":
            raise BoardError("a package holds a program that is not a 64-bit little-endian ELF file")
        self._image = image
        (self.machine,) = struct.unpack_from("<H", image, 18)
        (table,) = struct.unpack_from("<Q", image, 40)
        (self.flags,) = struct.unpack_from("<I", image, 48)
        size, count = struct.unpack_from("<HH", image, 58)
        # name, type, flags, address, offset, size, link, info, alignment, entry size
        self._sections = [
            struct.unpack_from("<IIQQQQIIQQ", image, table + number * size) for number in range(count)
        ]

    def _section(self, kind: int) -> tuple[int, int, int]:
        """Offset and size of the section of this type, and the offset of the strings that it refers to."""
        for section in self._sections:
            if section[1] == kind:
                return section[4], section[5], self._sections[section[6]][4]
        return 0, 0, 0

    def _string(self, at: int) -> str:
        return self._image[at : self._image.index(b"\0", at)].decode()

    def needed(self) -> tuple[str, ...]:
        """Names of the shared libraries that it asks for; none if it is static."""
        at, size, strings = self._section(_SHT_DYNAMIC)
        entries = struct.iter_unpack("<qQ", self._image[at : at + size])
        return tuple(self._string(strings + value) for tag, value in entries if tag == _DT_NEEDED)

    def symbols(self) -> list[Symbol]:
        """Its dynamic symbols."""
        versions = self._needed_versions()
        at, size, strings = self._section(_SHT_DYNSYM)
        index_at, index_size, _ = self._section(_SHT_VERSYM)
        indices = struct.unpack_from(f"<{index_size // 2}H", self._image, index_at)
        found = []
        for number, (name, info, _, where, _, _) in enumerate(
            struct.iter_unpack("<IBBHQQ", self._image[at : at + size])
        ):
            if name:
                library, version = versions.get(indices[number] if indices else 0, ("", ""))
                undefined = where == _SHN_UNDEF
                found.append(
                    Symbol(
                        self._string(strings + name), not undefined, info >> 4 == _STB_WEAK, version, library
                    )
                )
        return found

    def _needed_versions(self) -> dict[int, tuple[str, str]]:
        """Version index -> library and version, from the chain of Verneed and Vernaux records."""
        found = {}
        at, size, strings = self._section(_SHT_VERNEED)
        while size:
            _, count, library, first, following = struct.unpack_from("<HHIII", self._image, at)
            aux = at + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self._image, aux)
                found[index] = (self._string(strings + library), self._string(strings + name))
                aux += step
            if not following:
                break
            at += following
        return found


def module_depends(module: bytes) -> tuple[str, ...]:
    """The modules named in an uncompressed kernel module's `depends=`, as written by modpost."""
    found = _DEPENDS.search(module)
    return tuple(found[1].decode().split(",")) if found and found[1] else ()
