"""`rockusb`: rkdeveloptool writes the slots over USB and reads every sector back.

Commands as `rkdeveloptool -h` lists them: db <Loader>, wl <BeginSec> <File>, rl <BeginSec> <SectorLen> <File>, rd.
Numbers may be written in hex, which it reads with strtoul(..., 0).

Tested without a board: the argument vectors against what rkdeveloptool says of itself, with a program in its place
that keeps a file.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Literal

from farm.board.bundle import Bundle, Part
from farm.board.flash import tool
from farm.board.flash.method import FlashReport, Ports
from farm.board.flash.slots import Slots
from farm.board.flash.uboot import error
from farm.fleet.env import Rockusb
from farm.units import SECTOR


class RockusbMethod:
    """Writes only the slots of the env; a slot that already holds the right bytes is not worn again."""

    begins: Literal["bootloader", "off"] = "bootloader"
    needs_power_cycle = True

    def __init__(self, config: Rockusb) -> None:
        self.config, self.slots = config, Slots(config)

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Write the parts that the device does not hold yet, and read each of them back."""
        began = time.monotonic()
        self.slots.check(bundle)
        driver = tool.need(ports.rockusb, "an RKUSBLoader resource with an RKUSBDriver")
        loader = driver.loader
        rk = [*loader.command_prefix, self.config.tool]
        self.slots.select(ports)
        todo = [part for part in bundle.parts if not self.slots.holds(ports, part, deadline_s)]
        ranges = []
        if todo:
            tool.enter(ports, self.config.enter)
            # `td` answers only where a device in rockusb mode does
            tool.appear(ports, driver, lambda: [*rk, "td"])
            if self.config.loader:
                tool.run(ports, [*rk, "db", tool.there(Path(self.config.loader), loader)], 60)
        for part in todo:
            slot = self.slots.of(part)
            first = f"{slot.start // SECTOR:#x}"
            tool.run(ports, [*rk, "wl", first, tool.there(part.path, loader)], deadline_s)
            self._verify(ports, rk, first, part, deadline_s)
            ranges.append(f"{part.name}: {part.size} bytes at {slot.start}")
        return FlashReport(
            "rockusb",
            bundle.digest,
            sum(-(-part.size // SECTOR) * SECTOR for part in todo),
            "every byte read back over USB" if todo else "CRC-32 read back from the boot device",
            time.monotonic() - began,
            tuple(ranges),
        )

    def _verify(self, ports: Ports, rk: list[str], first: str, part: Part, deadline_s: float) -> None:
        count = -(-part.size // SECTOR)
        with tempfile.TemporaryDirectory() as folder:
            back = Path(folder) / "back"
            tool.run(ports, [*rk, "rl", first, f"{count:#x}", str(back)], deadline_s)
            same = back.exists() and back.read_bytes()[: part.size] == part.path.read_bytes()
        if not same:
            raise error(ports, f"{part.name} read back over USB is not what was written")

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Have U-Boot read the slots and start the kernel."""
        self.slots.boot(ports, bundle)
