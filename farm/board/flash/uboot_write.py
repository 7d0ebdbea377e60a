"""`uboot-write`: TFTP, write the allowed slots with U-Boot, read back, compare CRCs, boot from the device."""

from __future__ import annotations

import time
from typing import Literal

from farm.board.bundle import Bundle
from farm.board.flash import uboot
from farm.board.flash.method import FlashReport, Ports
from farm.board.flash.slots import Slots
from farm.fleet.env import UBootWrite
from farm.units import SECTOR


class UBootWriteMethod:
    """Writes only the slots of the env; a slot that already holds the right bytes is not worn again."""

    begins: Literal["bootloader", "off"] = "bootloader"
    needs_power_cycle = True

    def __init__(self, config: UBootWrite) -> None:
        self.config, self.slots = config, Slots(config)

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Write the parts that the device does not hold yet, and read each of them back from the device."""
        began = time.monotonic()
        self.slots.check(bundle)  # complain before anything is written
        self.slots.select(ports)
        written, ranges = 0, []
        up = False
        for part in bundle.parts:
            if self.slots.holds(ports, part, deadline_s):
                continue
            if not up:
                uboot.network(ports, self.config.network)
                up = True
            uboot.fetch(ports, part, uboot.address(self.config.load, part), deadline_s)
            self.slots.transfer(ports, "write", part, deadline_s)
            # other bytes than the file's in memory, so that the read back cannot find what was fetched
            words = -(-part.size // 4)
            uboot.command(ports, f"mw.l {uboot.address(self.config.load, part):#x} 0xa5a5a5a5 {words:#x}", 60)
            if not self.slots.holds(ports, part, deadline_s):
                raise uboot.error(
                    ports, f"{part.name} read back from the boot device is not what was written"
                )
            slot = self.slots.of(part)
            written += -(-part.size // SECTOR) * SECTOR
            ranges.append(f"{part.name}: {part.size} bytes at {slot.start}")
        return FlashReport(
            "uboot-write",
            bundle.digest,
            written,
            "CRC-32 read back from the boot device",
            time.monotonic() - began,
            tuple(ranges),
        )

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Read the parts from the device and start them; nothing comes from the network."""
        self.slots.boot(ports, bundle)
