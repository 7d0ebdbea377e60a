"""A guest userland: programs of Debian packages with the libraries that they need, and an init of ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from farm.cpio import Cpio
from farm.errors import BoardError
from farm.virtual import apt
from farm.virtual.elf import Elf
from farm.virtual.stub import stub_library

INITRD = "initrd.cpio.gz"


def guest_file(name: str) -> bytes:
    """A file of `guest/`, which is what virtual boards run of ours."""
    return resources.files("farm.virtual").joinpath("guest", name).read_bytes()


INIT = "init.sh"


@dataclass(frozen=True)
class UserlandRecipe:
    """Which packages, libraries' included, and what of them goes where in the initramfs.

    `programs` are pairs of a path in a package and a path in the initramfs, `links` of a symbolic link and its target,
    `files` of a path and a text. `opened` are libraries that programs open at run time, `stubs` those that they are
    linked with but do not use here (see `stub.py`).
    """

    name: str
    arch: str
    suite: str
    packages: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    opened: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    format: int = 1  # raise when something else is made of the same packages

    def choose(self, archive: apt.Archive) -> list[apt.Package]:
        """The packages named: an initramfs configures nothing, so what they depend on otherwise is not needed."""
        return archive.find(self.packages)

    def make(self, files: list[Path], made: Path) -> dict[str, object]:
        """Write `initrd.cpio.gz`: the programs, the libraries that they need, directly or not, and /init."""
        programs = dict(self.programs)
        found: dict[str, tuple[bytes, int]] = {}
        libraries: dict[str, bytes] = {}
        links: dict[str, str] = {}
        for package in files:
            for member, content in apt.members(package):
                base = Path(member.name).name
                if content is not None and member.name in programs:
                    found[member.name] = (content.read(), member.mode)
                elif ".so" not in base or "/lib" not in f"/{member.name}":
                    continue
                elif member.issym():
                    links.setdefault(base, Path(member.linkname).name)
                elif content is not None:
                    libraries.setdefault(base, content.read())
        if lacking := sorted(set(programs) - set(found)):
            raise BoardError(f"the packages of {self.suite} do not hold {', '.join(lacking)}")

        archive = Cpio()
        archive.device("dev/console", 5, 1)
        archive.file("init", guest_file(INIT), 0o755)
        for path, target in self.links:
            archive.symlink(path, target)
        for path, text in self.files:
            archive.file(path, text.encode())
        archive.file("etc/passwd", b"root::0:0:root:/root:/bin/sh\n")
        archive.file("etc/group", b"root:x:0:\n")
        carried: dict[str, Elf] = {}

        def carry(names: Iterable[str]) -> None:
            for name in names:
                if name in carried or name in self.stubs:
                    continue
                target = name
                while target in links and target not in libraries:
                    target = links[target]
                if target not in libraries:
                    raise BoardError(f"no package of {self.suite} holds the library {name}")
                carried[name] = Elf(libraries[target])
                archive.file(f"lib/{name}", libraries[target], 0o755)
                carry(carried[name].needed())

        carry(self.opened)
        stubbed: dict[str, dict[str, str]] = {}
        for inside, place in self.programs:
            image, mode = found[inside]
            archive.file(place, image, mode & 0o777)
            program = Elf(image)
            carry(program.needed())
            for name, symbols in _stub_symbols(program, self.stubs, carried.values()).items():
                stubbed.setdefault(name, {}).update(symbols)
                archive.file(
                    f"lib/{name}",
                    stub_library(name, stubbed[name], machine=program.machine, flags=program.flags),
                    0o755,
                )
        archive.write(made / INITRD)
        return {"libraries": sorted(carried), "stubs": sorted(stubbed)}


def _stub_symbols(program: Elf, stubs: Iterable[str], carried: Iterable[Elf]) -> dict[str, dict[str, str]]:
    """What the program wants of each stub: symbol -> version."""
    wanted: dict[str, dict[str, str]] = {name: {} for name in program.needed() if name in stubs}
    if not wanted:
        return {}
    provided = {symbol.name for library in carried for symbol in library.symbols() if symbol.defined}
    for symbol in program.symbols():
        if symbol.defined or symbol.weak or (not symbol.library and symbol.name in provided):
            continue
        # A symbol without a version names no library: any stub will do.
        library = symbol.library or next(iter(wanted))
        if library in wanted:
            wanted[library][symbol.name] = symbol.version
    return wanted
