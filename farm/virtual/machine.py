"""What a virtual board is, and the QEMU command line that makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from farm.quantity import Size, overlapping
from farm.units import SECTOR, format_size

Content = Literal["blank", "ext2", "ext4"]

MIB = 1024**2

# QEMU's names for what a card may be made to be: speed limits, and how the host's file is used.
_LIMIT = re.compile(r"throttling\.(bps|iops)-(total|read|write)(-max|-max-length)?|throttling\.iops-size")
_LIMIT_VALUE = re.compile(r"[1-9][0-9]{0,14}")
_HOST_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cache": ("none", "writeback", "writethrough", "directsync", "unsafe"),
        "discard": ("ignore", "unmap"),
        "detect-zeroes": ("off", "on", "unmap"),
    }
)


# Which of the userlands in recipes.py each architecture has.
USERLANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"arm64": ("busybox", "toybox"), "riscv64": ("gnu",)}
)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Partition(_Model):
    """One primary partition of the card, aligned to a MiB; `size` in bytes."""

    size: Size
    content: Content = "blank"
    label: str = Field(default="", pattern=r"[A-Za-z0-9_-]{0,16}", description="file system label")

    @field_validator("size")
    @classmethod
    def _whole_mib(cls, size: int) -> int:
        if size < MIB or size % MIB:
            raise ValueError(f"a partition is a whole number of MiB, not {format_size(size)}")
        return size


class Card(_Model):
    """The SD card under test; `options` are QEMU drive options that give it its character."""

    size: Size = 1024 * MIB
    options: str = ""
    partitions: tuple[Partition, ...] = Field(default=(), max_length=4)

    @field_validator("size")
    @classmethod
    def _power_of_two(cls, size: int) -> int:
        if size < 32 * MIB or size & (size - 1):
            raise ValueError(f"an SD card's size is a power of two from 32 MiB on, not {format_size(size)}")
        return size

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: str) -> str:
        for option in options.split(",") if options else ():
            key, _, value = option.partition("=")
            good = (
                _LIMIT_VALUE.fullmatch(value) if _LIMIT.fullmatch(key) else value in _HOST_KEYS.get(key, ())
            )
            if not good:
                raise ValueError(
                    f"{option!r} is not a card option; write throttling.iops-total=NUMBER, "
                    f"throttling.bps-total=NUMBER or one of {', '.join(_HOST_KEYS)}"
                )
        return options

    @model_validator(mode="after")
    def _partitions_fit(self) -> Card:
        used = MIB + sum(part.size for part in self.partitions)
        if self.partitions and used > self.size:
            raise ValueError(
                f"the partitions need {format_size(used)} with the first MiB for the table, "
                f"the card has {format_size(self.size)}"
            )
        return self


class FlashRange(_Model):
    """A partition of the boot flash; bytes, whole sectors."""

    start: Size
    size: Size = Field(gt=0)

    @field_validator("start", "size")
    @classmethod
    def _whole_sectors(cls, value: int) -> int:
        if value % SECTOR:
            raise ValueError(f"{value} is not a multiple of {SECTOR} bytes")
        return value


class VirtualFastboot(_Model):
    """That the board can be flashed by fastboot, on $LG_VIRTUAL_NET.`address`, and where its partitions are."""

    address: int = Field(
        ge=2, le=254, description="last number of the board's address; no other board has it"
    )
    partitions: Mapping[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,36}$")], FlashRange]

    @model_validator(mode="after")
    def _no_overlap(self) -> VirtualFastboot:
        ranges = {name: (part.start, part.size) for name, part in self.partitions.items()}
        if found := overlapping(ranges):
            raise ValueError(f"partitions {found[0]} and {found[1]} overlap; move one of them")
        return self


class VirtualBoard(_Model):
    """The `farm: virtual:` block of an environment file. Sizes in bytes, baud in bits per second."""

    arch: Literal["arm64", "riscv64"] = "arm64"
    cpus: int = Field(default=1, ge=1, le=8)
    memory: Size = 1024 * MIB
    flash_size: Size = 256 * MIB
    card: Card = Card()
    baud: int | None = Field(default=None, ge=300, le=12_000_000)
    icount: int | None = Field(
        default=None, ge=0, le=10, description="guest time follows instructions: 2**icount ns each"
    )
    userland: Literal["", "busybox", "toybox", "gnu"] = Field(
        default="", validate_default=True, description="by default the first that the architecture has"
    )
    fastboot: VirtualFastboot | None = None
    ssh: int | None = Field(
        default=None,
        ge=2,
        le=254,
        description="last number of the board's address at whose port 2222 is the guest's port 22; no other board has it",
    )

    @property
    def addresses(self) -> Mapping[str, int]:
        """Last numbers of the board's addresses on $LG_VIRTUAL_NET, by what answers there."""
        found = {"fastboot": self.fastboot.address if self.fastboot else None, "ssh": self.ssh}
        return {name: number for name, number in found.items() if number is not None}

    @field_validator("memory")
    @classmethod
    def _enough_memory(cls, memory: int) -> int:
        if not 256 * MIB <= memory <= 16384 * MIB or memory % MIB:
            raise ValueError(f"memory is a whole number of MiB from 256 MiB to 16 GiB, not {memory} bytes")
        return memory

    @field_validator("flash_size")
    @classmethod
    def _enough_flash(cls, flash_size: int) -> int:
        if not 16 * MIB <= flash_size <= 16384 * MIB or flash_size % MIB:
            raise ValueError(
                f"flash_size is a whole number of MiB from 16 MiB to 16 GiB, not {flash_size} bytes"
            )
        return flash_size

    @field_validator("userland")
    @classmethod
    def _userland_of_the_architecture(cls, userland: str, info: ValidationInfo) -> str:
        there = USERLANDS.get(info.data.get("arch", ""), ())
        if userland and there and userland not in there:
            raise ValueError(
                f"{info.data['arch']} boards have the userland {' or '.join(there)}, not {userland}"
            )
        return userland or (there[0] if there else "")

    @model_validator(mode="after")
    def _one_cpu_for_icount(self) -> VirtualBoard:
        if self.icount is not None and self.cpus != 1:
            raise ValueError("icount counts the instructions of one CPU; write cpus: 1")
        return self

    @model_validator(mode="after")
    def _partitions_fit(self) -> VirtualBoard:
        for name, part in self.fastboot.partitions.items() if self.fastboot else ():
            if part.start + part.size > self.flash_size:
                raise ValueError(
                    f"fastboot partition {name} ends at byte {part.start + part.size}, the flash has {self.flash_size}"
                )
        return self


@dataclass(frozen=True)
class Firmware:
    """QEMU, its machine and the Debian package's U-Boot for one architecture."""

    qemu: str
    machine: tuple[str, ...]
    boot: tuple[str, ...]
    uboot: Path
    bus: str  # suffix of the virtio devices that this U-Boot sees
    tty: str


FIRMWARE: Mapping[str, Firmware] = MappingProxyType(
    {
        "arm64": Firmware(
            qemu="qemu-system-aarch64",
            machine=("-M", "virt", "-cpu", "cortex-a57"),
            boot=("-bios",),
            uboot=Path("/usr/lib/u-boot/qemu_arm64/u-boot.bin"),
            bus="pci",
            tty="ttyAMA0",
        ),
        "riscv64": Firmware(
            qemu="qemu-system-riscv64",
            machine=("-M", "virt", "-bios", "default"),
            boot=("-kernel",),
            uboot=Path("/usr/lib/u-boot/qemu-riscv64_smode/u-boot.bin"),
            bus="device",
            tty="ttyS0",
        ),
    }
)

FLASH_FILE = "flash.img"
CARD_FILE = "card.img"
TFTP_DIR = "tftp"
QMP_SOCKET = "qmp.sock"
SSH_PORT = 2222  # an ordinary user cannot have 22


def qemu_argv(board: VirtualBoard, console_fd: int, network: str = "127.0.0") -> list[str]:
    """QEMU's argument vector, to be run in the board's directory with `console_fd` an inherited stream socket.

    All paths are relative to that directory: socket paths stay below the kernel's 107 bytes and no path of
    the user's can break QEMU's comma syntax. The guest's network ends in QEMU (DHCP and TFTP only); with `ssh` its SSH
    port can be reached from this machine, on the loopback `network` (127.A.B).
    """
    made = FIRMWARE[board.arch]
    card = f"if=none,id=card,format=raw,file={CARD_FILE}"
    # Power cuts are killed processes, so the host's page cache is as good as its disk, and far quieter.
    card += "" if "cache=" in board.card.options else ",cache=unsafe"
    card += f",{board.card.options}" if board.card.options else ""
    # Fixed slots keep the guest's device paths the same for all boards; U-Boot needs no boot ROM.
    net, flash = (",romfile=,addr=0x1", ",addr=0x2") if made.bus == "pci" else ("", "")
    ssh = f",hostfwd=tcp:{network}.{board.ssh}:{SSH_PORT}-:22" if board.ssh else ""
    argv = [
        made.qemu,
        *made.machine,
        *("-smp", str(board.cpus), "-m", f"{board.memory // MIB}M"),
        *(*made.boot, str(made.uboot)),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-chardev", f"socket,id=console,fd={console_fd}", "-serial", "chardev:console"),
        *("-qmp", f"unix:{QMP_SOCKET},server=on,wait=off"),
        *("-netdev", f"user,id=net,restrict=on,tftp={TFTP_DIR}{ssh}"),
        *("-device", f"virtio-net-{made.bus},netdev=net{net}"),
        *("-drive", f"if=none,id=flash,format=raw,file={FLASH_FILE},cache=unsafe"),
        *("-device", f"virtio-blk-{made.bus},drive=flash,werror=report,rerror=report{flash}"),
        *("-drive", card),
        *("-device", "sdhci-pci,id=sdhci,addr=0x3", "-device", "sd-card,drive=card"),
    ]
    if board.icount is not None:
        argv += ["-icount", f"shift={board.icount},sleep=off"]
    return argv
