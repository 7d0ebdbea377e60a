"""`sdmux`: the board's power is off, its card is switched to the host, written there and read back, and switched back.

Commands: `usbsdmux SG host|dut` (labgrid's USBSDMuxDriver calls it), and dd of coreutils with offsets in bytes, past
the page cache both ways. A bmap would save nothing: slots hold kernels and initrds, which have no holes.

Tested without a mux: the argument vectors are those of the tools' documentation, and dd wrote a file.
"""

from __future__ import annotations

import time
from typing import Any, Literal

from farm.board.bundle import Bundle, Part
from farm.board.flash import tool
from farm.board.flash.method import FlashReport, Ports
from farm.board.flash.slots import Slots
from farm.board.flash.uboot import error
from farm.fleet.env import SdMux
from farm.units import SECTOR

_MEDIUM_S = 15.0


class SdMuxMethod:
    """Writes only the slots of the env; a slot that already holds the right bytes is not worn again."""

    begins: Literal["bootloader", "off"] = "off"
    needs_power_cycle = False

    def __init__(self, config: SdMux) -> None:
        self.config, self.slots = config, Slots(config)

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Write the parts that the card does not hold yet, and read each of them back from the card."""
        began = time.monotonic()
        self.slots.check(bundle)
        mux = tool.need(ports.mux, "a USBSDMuxDriver with its USBSDMuxDevice")
        storage = tool.need(ports.storage, "a USBStorageDriver on the same USBSDMuxDevice").storage
        written, ranges = 0, []
        ports.activate(ports.mux)
        ports.activate(ports.storage)
        mux.set_mode("host")
        try:
            self._wait(ports, storage)
            for part in bundle.parts:
                if self._holds(ports, storage, part, deadline_s):
                    continue
                slot = self.slots.of(part)
                source = tool.there(part.path, storage)
                tool.run(
                    ports, write_argv(storage.command_prefix, source, storage.path, slot.start), deadline_s
                )
                if not self._holds(ports, storage, part, deadline_s):
                    raise error(ports, f"{part.name} read back from the card is not what was written")
                written += -(-part.size // SECTOR) * SECTOR
                ranges.append(f"{part.name}: {part.size} bytes at {slot.start}")
        finally:
            mux.set_mode("dut")
        verified = "every byte read back from the card by the host"
        return FlashReport("sdmux", bundle.digest, written, verified, time.monotonic() - began, tuple(ranges))

    def _wait(self, ports: Ports, storage: Any) -> None:
        """Until the host sees the card: blockdev says 0 bytes while the reader is empty."""
        end = time.monotonic() + _MEDIUM_S
        while True:
            argv = [*storage.command_prefix, "blockdev", "--getsize64", storage.path]
            if int(tool.run(ports, argv, 10).strip() or b"0") > 0:
                return
            if time.monotonic() > end:
                raise error(ports, f"no card behind the mux within {_MEDIUM_S:.0f} s")
            time.sleep(0.5)

    def _holds(self, ports: Ports, storage: Any, part: Part, deadline_s: float) -> bool:
        size = -(-part.size // SECTOR) * SECTOR
        argv = read_argv(storage.command_prefix, storage.path, self.slots.of(part).start, size)
        return tool.run(ports, argv, deadline_s)[: part.size] == part.path.read_bytes()

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Have U-Boot read the slots and start the kernel."""
        self.slots.boot(ports, bundle)


def write_argv(prefix: list[str], source: str, device: str, start: int) -> list[str]:
    """dd that writes a file at a byte offset of a device, on the card when it ends."""
    words = [f"if={source}", f"of={device}", "bs=1M", "oflag=direct,seek_bytes", f"seek={start}"]
    return [*prefix, "dd", *words, "conv=fdatasync,notrunc", "status=none"]


def read_argv(prefix: list[str], device: str, start: int, size: int) -> list[str]:
    """dd that prints `size` bytes (whole sectors) at a byte offset of a device, from the card, not the page cache."""
    flags = "iflag=direct,skip_bytes,count_bytes,fullblock"
    return [*prefix, "dd", f"if={device}", "bs=1M", flags, f"skip={start}", f"count={size}", "status=none"]
