"""`fastboot`: partitions written by the host's fastboot over USB or TCP, whole or sparse, with or without A/B slots.

The protocol has no way to read a partition back. So every boot, when U-Boot has loaded the partitions and before it
starts them, compares their CRC-32 in memory with those of the files. A U-Boot without crc32 (`crc32: false`) leaves the
device's own OKAY for every transfer. The kernel proves itself by its banner after boot either way.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from farm.board.bundle import Bundle, Part
from farm.board.flash import tool, uboot
from farm.board.flash.method import FlashReport, Ports
from farm.errors import UserError
from farm.fleet.env import Fastboot

#: Bytes of a block of the sparse images that fastboot makes of large files.
BLOCK = 4096


def _padded(part: Part) -> int:
    return -(-part.size // BLOCK) * BLOCK


@contextmanager
def _whole_blocks(part: Part) -> Iterator[Path]:
    """A part's file, with zeros up to a whole block: of other files fastboot makes sparse images that lack a chunk.

    It says "don't care size ... is not a multiple of the block size" and sends them all the same (Debian 12's 29.0.6).
    """
    if part.size == _padded(part):
        yield part.path
        return
    with tempfile.NamedTemporaryFile(prefix="farm-") as copy:
        copy.write(part.path.read_bytes())
        copy.truncate(_padded(part))
        copy.flush()
        yield Path(copy.name)


class FastbootMethod:
    """Writes the partitions of the env; one that this process has written with the same bytes is not worn again."""

    begins: Literal["bootloader", "off"] = "bootloader"
    needs_power_cycle = True

    def __init__(self, config: Fastboot) -> None:
        self.config = config
        self._written: dict[str, tuple[int, int]] = {}

    def partition(self, part: Part) -> str:
        """The partition of a part, with its A/B suffix. Raises UserError where the env names none."""
        name = self.config.partitions.get(part.name)  # type: ignore[call-overload]
        if name is None:
            raise UserError(
                f"the variant has a {part.name}, but flash.partitions has no place for it",
                key=f"flash.partitions.{part.name}",
            )
        return f"{name}_{self.config.slot}" if self.config.slot else str(name)

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Write the partitions that this process has not written with the same bytes last."""
        began = time.monotonic()
        driver = tool.need(ports.fastboot, "an AndroidFastbootDriver with its AndroidUSBFastboot")
        todo = [
            part
            for part in bundle.parts
            if self._written.get(self.partition(part)) != (part.size, part.crc32)
        ]
        ranges = []
        if todo:
            tool.enter(ports, self.config.enter)
            tool.appear(ports, driver, lambda: [*driver._get_fastboot_prefix(), "getvar", "version"])
        prefix = driver._get_fastboot_prefix()
        for part in todo:
            name = self.partition(part)
            self._written.pop(name, None)
            with _whole_blocks(part) as image:
                path = tool.there(image, driver.fastboot)
                tool.run(ports, [*prefix, "flash", name, path], deadline_s)
            self._written[name] = (part.size, part.crc32)
            ranges.append(f"{part.name}: {part.size} bytes in partition {name}")
        if todo and self.config.slot:
            tool.run(ports, [*prefix, "set_active", self.config.slot], 30)
        return FlashReport(
            "fastboot",
            bundle.digest,
            sum(_padded(part) for part in todo),
            "CRC-32 of what U-Boot loads, before each start"
            if self.config.crc32
            else "accepted by the device; fastboot cannot read back",
            time.monotonic() - began,
            tuple(ranges),
        )

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Have U-Boot load the partitions, check them, and start the kernel with the variant's arguments.

        Raises BoardError where a partition does not hold what was flashed; it is written anew the next time.
        """
        for text in self.config.read:
            uboot.command(ports, text, 60)
        for part in bundle.parts if self.config.crc32 else ():
            found = uboot.crc32(ports, uboot.address(self.config.load, part), part.size)
            if found != part.crc32:
                name = self.partition(part)
                self._written.pop(name, None)
                raise uboot.error(
                    ports,
                    f"{part.name} loaded from partition {name} has CRC {found:08x} instead of {part.crc32:08x}",
                )
        uboot.start(ports, bundle, self.config.load, self.config.boot)
