"""`uboot-write`: TFTP, write the allowed slots with U-Boot, read back, compare CRCs, boot from the device."""

from __future__ import annotations

import time

from farm.board.bundle import Bundle, Part
from farm.board.flash import uboot
from farm.board.flash.method import FlashReport, Ports
from farm.errors import UserError
from farm.fleet.env import SECTOR, Slot, UBootWrite


class UBootWriteMethod:
    """Writes only the slots of the env; a slot that already holds the right bytes is not worn again."""

    needs_power_cycle = True

    def __init__(self, config: UBootWrite) -> None:
        self.config = config

    def _slot(self, part: Part) -> Slot:
        slot = self.config.slots.get(part.name)
        if slot is None:
            raise UserError(
                f"the variant has a {part.name}, but flash.slots has no place for it",
                key=f"flash.slots.{part.name}",
            )
        if part.size > slot.size:
            raise UserError(
                f"{part.path} has {part.size} bytes, but slot {part.name} only {slot.size}; make the slot larger",
                key=f"flash.slots.{part.name}",
            )
        return slot

    def _transfer(self, ports: Ports, verb: str, part: Part, timeout_s: float) -> None:
        """Move a part between memory and its slot, whole sectors, numbers in hex as U-Boot reads them."""
        slot = self._slot(part)
        count = -(-part.size // SECTOR)
        where = uboot.address(self.config.load, part)
        words = f"{self.config.interface} {verb} {where:#x} {slot.start // SECTOR:#x} {count:#x}"
        uboot.command(ports, words, timeout_s)

    def _holds(self, ports: Ports, part: Part, timeout_s: float) -> bool:
        self._transfer(ports, "read", part, timeout_s)
        return uboot.crc32(ports, uboot.address(self.config.load, part), part.size) == part.crc32

    def _select(self, ports: Ports) -> None:
        if self.config.interface == "virtio":
            uboot.command(ports, "virtio scan", 30)
        uboot.command(ports, f"{self.config.interface} dev {self.config.device}", 30)

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Write the parts that the device does not hold yet, and read each of them back from the device."""
        began = time.monotonic()
        for part in bundle.parts:
            self._slot(part)  # complain before anything is written
        self._select(ports)
        written, ranges = 0, []
        up = False
        for part in bundle.parts:
            if self._holds(ports, part, deadline_s):
                continue
            if not up:
                uboot.network(ports, self.config.network)
                up = True
            uboot.fetch(ports, part, uboot.address(self.config.load, part), deadline_s)
            self._transfer(ports, "write", part, deadline_s)
            # other bytes than the file's in memory, so that the read back cannot find what was fetched
            words = -(-part.size // 4)
            uboot.command(ports, f"mw.l {uboot.address(self.config.load, part):#x} 0xa5a5a5a5 {words:#x}", 60)
            if not self._holds(ports, part, deadline_s):
                raise uboot.error(
                    ports, f"{part.name} read back from the boot device is not what was written"
                )
            slot = self._slot(part)
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
        self._select(ports)
        for part in bundle.parts:
            self._transfer(ports, "read", part, 60)
        uboot.start(ports, bundle, self.config.load, self.config.boot)
