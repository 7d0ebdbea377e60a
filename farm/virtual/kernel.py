"""A guest kernel: the plain Image of a Debian package, and the few modules that a virtual board needs."""

from __future__ import annotations

import lzma
import re
from dataclasses import dataclass
from pathlib import Path

from farm.cpio import Cpio
from farm.errors import BoardError
from farm.virtual import apt
from farm.virtual.elf import module_depends

IMAGE = "Image"
MODULES = "modules.cpio.gz"

# The card, the flash, the network, and file systems for the card.
_MODULES = (
    *("sdhci_pci", "mmc_block", "virtio_blk", "virtio_net", "virtio_mmio"),
    *("ext4", "vfat", "nls_cp437", "nls_iso8859_1", "nls_ascii", "crc32c_generic"),
)
# Documentation/arch/arm64/booting.rst and arch/riscv/boot-image-header.rst: a magic number at offset 56.
_MAGIC = {"arm64": b"ARM\x64", "riscv64": b"RSC\x05"}

_VERSIONED = re.compile(r"linux-image-\d")


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", name)]


@dataclass(frozen=True)
class KernelRecipe:
    """Which distribution kernel, and which of its modules (those that are built in need not exist).

    `previous`: not the suite's present kernel but an older one, which a suite keeps for a while and may drop any day.
    """

    name: str
    arch: str
    suite: str
    package: str
    modules: tuple[str, ...] = _MODULES
    previous: bool = False
    format: int = 1  # raise when something else is made of the same packages

    def choose(self, archive: apt.Archive) -> list[apt.Package]:
        """The package with the kernel itself; what it depends on is for machines that install it.

        Raises BoardError where the suite has none, or no older one though that is wanted.
        """
        named = [name for name in archive.depends(self.package) if _VERSIONED.match(name)]
        if len(named) != 1:
            raise BoardError(f"{self.package} of {self.suite} names {len(named)} kernels, not one")
        if self.previous:
            # linux-image-6.12.107+deb13-riscv64: of the same flavour, so only the numbers differ
            form = re.compile(re.sub(r"\d+", r"\\d+", re.escape(named[0])))
            older = [name for name in archive.names("linux-image-") if form.fullmatch(name)]
            older = [name for name in older if _numbers(name) < _numbers(named[0])]
            if not older:
                raise BoardError(
                    f"{self.suite} has only one kernel for {self.arch} now; name one of your own in the campaign"
                )
            named = [max(older, key=_numbers)]
        return archive.find(named)

    def make(self, files: list[Path], made: Path) -> dict[str, object]:
        """Write `Image`, and `modules.cpio.gz` with a list `boot` of the modules in their loading order."""
        modules: dict[str, tuple[str, bytes]] = {}
        release = ""
        for member, content in apt.members(files[0]):
            if content is None:
                continue
            if member.name.startswith("boot/vmlinu"):
                release = member.name.partition("-")[2]
                image = content.read()
                if image[56:60] != _MAGIC[self.arch]:
                    raise BoardError(f"{self.package} of {self.suite} is no plain Image as booti needs it")
                (made / IMAGE).write_bytes(image)
            elif member.name.endswith((".ko", ".ko.xz")):
                path = member.name.removeprefix("usr/").removesuffix(".xz")
                modules[Path(path).stem.replace("-", "_")] = (path, content.read())
        if not release:
            raise BoardError(f"{files[0].name} holds no kernel")
        return {"release": release, "modules": self._write_modules(modules, release, made / MODULES)}

    def _write_modules(self, modules: dict[str, tuple[str, bytes]], release: str, target: Path) -> list[str]:
        archive = Cpio()
        order: list[str] = []
        top = f"lib/modules/{release}/"

        def add(name: str) -> None:
            path, packed = modules[name]
            if path.removeprefix(top) in order:
                return
            plain = lzma.decompress(packed) if packed.startswith(b"\xfd7zXZ") else packed
            for other in module_depends(plain):
                add(other.replace("-", "_"))
            archive.file(path, plain)
            order.append(path.removeprefix(top))

        for name in self.modules:
            if name in modules:
                add(name)
        archive.file(f"{top}boot", "".join(f"{path}\n" for path in order).encode())
        archive.write(target)
        return order
