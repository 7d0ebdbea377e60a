"""What a flash method is given, what it has to do, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from farm.board.bundle import Bundle


@dataclass(frozen=True)
class FlashReport:
    """How a variant got onto the board. `written` counts bytes of flash wear; `verified` says how it was checked."""

    method: str
    digest: str
    written: int
    verified: str
    seconds: float
    ranges: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, object]:
        """Plain data for the store."""
        return {
            "method": self.method,
            "digest": self.digest,
            "written": self.written,
            "verified": self.verified,
            "seconds": round(self.seconds, 3),
            "ranges": list(self.ranges),
        }


@dataclass(frozen=True)
class Ports:
    """The labgrid drivers that a flash method may use; None where the env has none."""

    uboot: Any
    tftp: Any
    console: Any
    fastboot: Any = None
    rockusb: Any = None
    mux: Any = None
    storage: Any = None
    activate: Callable[[Any], None] = lambda driver: None
    shell: Any = None
    #: Boots the golden image by another method, to its shell: bytes that were written for it, and the shell.
    golden_shell: Callable[[FlashMethod], tuple[int, Any]] = lambda method: (0, None)


class FlashMethod(Protocol):
    """One way to flash. `flash` begins where `begins` says, `boot` at the bootloader's prompt."""

    begins: Literal["bootloader", "off"]
    needs_power_cycle: bool

    def flash(self, ports: Ports, bundle: Bundle, deadline_s: float) -> FlashReport:
        """Put the bundle onto the board, or find that it is there; verify it. Raises BoardError."""
        ...

    def boot(self, ports: Ports, bundle: Bundle) -> None:
        """Start the kernel that was flashed; returns as soon as the bootloader was told. Raises BoardError."""
        ...
