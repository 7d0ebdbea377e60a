"""`netboot`: TFTP into memory and boot from there. Nothing is written; the boot device is left alone."""

from __future__ import annotations

import time
from typing import Literal

from farm.board.bundle import Bundle
from farm.board.flash import uboot
from farm.board.flash.method import FlashReport, Ports
from farm.fleet.env import Netboot


class NetbootMethod:
    """Memory holds the variant only until power goes, so `flash` loads and `boot` starts in one life."""

    begins: Literal["bootloader", "off"] = "bootloader"
    needs_power_cycle = False

    def __init__(self, config: Netboot) -> None:
        self.config = config

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Load every part; CRC-32 of the memory is compared with the file's."""
        began = time.monotonic()
        uboot.network(ports, self.config.network)
        for part in bundle.parts:
            uboot.fetch(ports, part, uboot.address(self.config.load, part), deadline_s)
        return FlashReport(
            "netboot", bundle.digest, 0, "CRC-32 of each file in memory", time.monotonic() - began
        )

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Start what `flash` loaded."""
        uboot.start(ports, bundle, self.config.load, self.config.boot)
