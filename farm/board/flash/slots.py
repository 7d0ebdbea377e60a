"""Slots: ranges of the boot device that may be written, read and started by U-Boot."""

from __future__ import annotations

from farm.board.bundle import Bundle, Part
from farm.board.flash import uboot
from farm.board.flash.method import Ports
from farm.errors import UserError
from farm.fleet.env import Rockusb, SdMux, Slot, UBootWrite
from farm.units import SECTOR


class Slots:
    """The slots of one board's boot device."""

    def __init__(self, config: UBootWrite | Rockusb | SdMux) -> None:
        self.config = config

    def of(self, part: Part) -> Slot:
        """The slot of a part. Raises UserError where the env has none, or one that is too small."""
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

    def check(self, bundle: Bundle) -> None:
        """Raises UserError unless every part has its slot."""
        for part in bundle.parts:
            self.of(part)

    def transfer(self, ports: Ports, verb: str, part: Part, timeout_s: float) -> None:
        """Move a part between memory and its slot, whole sectors, numbers in hex as U-Boot reads them."""
        slot = self.of(part)
        count = -(-part.size // SECTOR)
        where = uboot.address(self.config.load, part)
        words = f"{self.config.interface} {verb} {where:#x} {slot.start // SECTOR:#x} {count:#x}"
        uboot.command(ports, words, timeout_s)

    def holds(self, ports: Ports, part: Part, timeout_s: float) -> bool:
        """Whether the slot has the bytes of the part, by their CRC-32; they are in memory afterwards."""
        self.transfer(ports, "read", part, timeout_s)
        return uboot.crc32(ports, uboot.address(self.config.load, part), part.size) == part.crc32

    def select(self, ports: Ports) -> None:
        """Make the boot device U-Boot's current one."""
        if self.config.interface == "virtio":
            uboot.command(ports, "virtio scan", 30)
        uboot.command(ports, f"{self.config.interface} dev {self.config.device}", 30)

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Read the parts from the device and start them."""
        self.select(ports)
        for part in bundle.parts:
            self.transfer(ports, "read", part, 60)
        uboot.start(ports, bundle, self.config.load, self.config.boot)
