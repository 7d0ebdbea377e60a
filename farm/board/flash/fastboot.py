"""`fastboot`: partitions written by the host's fastboot over USB or TCP, whole or sparse, with or without A/B slots.

The protocol has no way to read a partition back, so what is verified is the device's own OKAY for every transfer,
whose length and checksum USB and TCP guard. The kernel proves itself by its banner after boot.
"""

from __future__ import annotations

import time
from typing import Literal

from farm.board.bundle import Bundle, Part
from farm.board.flash import tool, uboot
from farm.board.flash.method import FlashReport, Ports
from farm.errors import UserError
from farm.fleet.env import Fastboot


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
            path = tool.there(part.path, driver.fastboot)
            tool.run(ports, [*prefix, "flash", name, path], deadline_s)
            self._written[name] = (part.size, part.crc32)
            ranges.append(f"{part.name}: {part.size} bytes in partition {name}")
        if todo and self.config.slot:
            tool.run(ports, [*prefix, "set_active", self.config.slot], 30)
        return FlashReport(
            "fastboot",
            bundle.digest,
            sum(part.size for part in todo),
            "accepted by the device; fastboot cannot read back",
            time.monotonic() - began,
            tuple(ranges),
        )

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Have U-Boot load the partitions and start the kernel with the variant's arguments."""
        for text in self.config.read:
            uboot.command(ports, text, 60)
        uboot.start(ports, bundle, self.config.load, self.config.boot)
