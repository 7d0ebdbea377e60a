"""A guest userland: programs of Debian packages with the libraries that they need, and an init of ours."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from farm.errors import BoardError
from farm.virtual import apt
from farm.virtual.cpio import Cpio
from farm.virtual.elf import needed

INITRD = "initrd.cpio.gz"


def guest_file(name: str) -> bytes:
    """A file of `guest/`, which is what virtual boards run of ours."""
    return resources.files("farm.virtual").joinpath("guest", name).read_bytes()


@dataclass(frozen=True)
class UserlandRecipe:
    """Which packages, which of their programs (path in the package, path in the initramfs) and which init script."""

    name: str
    arch: str
    suite: str
    packages: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    init: str
    format: int = 1  # raise when something else is made of the same packages

    def choose(self, archive: apt.Archive) -> list[apt.Package]:
        """The packages asked for and, of what they depend on, the libraries: nothing is configured in an initramfs."""
        return [
            package
            for package in archive.resolve(self.packages)
            if package.name in self.packages
            or (package.name.startswith(("lib", "zlib")) and "python" not in package.name)
        ]

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
        archive.file("init", guest_file(self.init), 0o755)
        archive.file("etc/passwd", b"root::0:0:root:/root:/bin/sh\n")
        archive.file("etc/group", b"root:x:0:\n")
        carried: set[str] = set()

        def carry(image: bytes) -> None:
            for name in needed(image):
                if name in carried:
                    continue
                carried.add(name)
                target = name
                while target in links and target not in libraries:
                    target = links[target]
                if target not in libraries:
                    raise BoardError(f"no package of {self.suite} holds the library {name}")
                archive.file(f"lib/{name}", libraries[target], 0o755)
                carry(libraries[target])

        for inside, place in self.programs:
            image, mode = found[inside]
            archive.file(place, image, mode & 0o777)
            carry(image)
        archive.write(made / INITRD)
        return {"libraries": sorted(carried)}
