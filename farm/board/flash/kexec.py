"""`kexec`: the golden kernel boots, fetches the variant over the network and jumps into it; recorded as such.

Commands as kexec(8) has them: `kexec -l KERNEL --initrd=FILE --dtb=FILE --command-line=ARGS`, then `kexec -e`.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from typing import Any, Literal

from pexpect import TIMEOUT

from farm.board.bundle import Bundle, Part
from farm.board.flash import tool
from farm.board.flash.method import FlashMethod, FlashReport, Ports
from farm.board.flash.uboot import error
from farm.fleet.env import Kexec


class KexecMethod:
    """Nothing is written to the card; the variant lies in the board's memory until power goes."""

    begins: Literal["bootloader", "off"] = "bootloader"
    needs_power_cycle = False

    def __init__(self, config: Kexec, under: FlashMethod) -> None:
        self.config, self.under = config, under

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Boot the golden image, fetch every part and compare its SHA-256 on the board."""
        began = time.monotonic()
        written, shell = ports.golden_shell(self.under)
        tftp = tool.need(ports.tftp, "a TFTPProvider and a TFTPProviderDriver")
        for part in bundle.parts:
            # not str.format: the command may have braces of its own
            fetch = self.config.fetch.replace("{name}", shlex.quote(tftp.stage(str(part.path))))
            fetch = fetch.replace("{path}", self._path(part))
            self._run(ports, shell, fetch, deadline_s)
            said = self._run(ports, shell, f"sha256sum {self._path(part)}", 60)
            wanted = hashlib.sha256(part.path.read_bytes()).hexdigest()
            if not any(line.startswith(wanted) for line in said):
                raise error(ports, f"{part.name} did not arrive whole on the board")
        return FlashReport(
            "kexec",
            bundle.digest,
            written,
            "SHA-256 of each file in the board's memory; started by the golden kernel, not by the firmware",
            time.monotonic() - began,
        )

    def _path(self, part: Part) -> str:
        return f"{self.config.folder}/farm-{part.name}"

    def _run(self, ports: Ports, shell: Any, command: str, timeout_s: float) -> list[str]:
        try:
            lines, _, status = shell.run(command, timeout=timeout_s)
        except TIMEOUT:
            raise error(ports, f"the board did not finish {command!r} within {timeout_s:.0f} s") from None
        if status:
            raise error(
                ports, f"{command!r} failed on the board ({status}): {(lines or ['nothing said'])[-1]}"
            )
        return [str(line) for line in lines]

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Load the variant beside the running kernel and jump into it."""
        words = ["kexec", "-l"]
        for part in bundle.parts:
            words.append(self._path(part) if part.name == "kernel" else f"--{part.name}={self._path(part)}")
        words.append(f"--command-line={bundle.args}")
        self._run(ports, ports.shell, shlex.join(words), 60)
        ports.console.sendline("kexec -e")
