"""A board's env file: a plain labgrid environment plus the `farm:` block with what labgrid does not know."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from farm import bootargs, yamlfile
from farm.complaint import printable
from farm.errors import UserError
from farm.paths import NAME, stamp
from farm.quantity import Size, overlapping
from farm.units import SECTOR
from farm.virtual.machine import VirtualBoard


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _sector_aligned(value: int) -> int:
    if value % SECTOR:
        raise ValueError(f"{value} is not a multiple of {SECTOR} bytes")
    return value


class Disk(_Block):
    """The device under test, named by where it is plugged in; `mmcblk0` moves between boots."""

    controller: str = Field(min_length=4, description="part of the sysfs path of the SD/MMC host controller")
    type: Literal["SD", "MMC"]
    size: Size
    cid: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$")


class Area(_Block):
    """A part of the disk that may be written: the whole disk, or a partition with the bounds it must have."""

    partition: int | None = Field(default=None, ge=1, le=128)
    start: Annotated[Size, AfterValidator(_sector_aligned)] = 0
    size: Annotated[Size, AfterValidator(_sector_aligned)] = Field(gt=0)
    filesystem: Literal["ext2", "ext4", "vfat", "f2fs"] | None = None
    mount: str | None = Field(default=None, pattern=r"^/[A-Za-z0-9._/-]+$")

    @model_validator(mode="after")
    def _check(self) -> Area:
        if self.partition is None and self.start:
            raise ValueError("start without partition; a whole disk starts at 0")
        if (self.filesystem is None) != (self.mount is None):
            raise ValueError("filesystem and mount belong together; give both or none")
        return self


class Scratch(_Block):
    """Where workloads may write. `raw` is given to device workloads, `files` holds file workloads."""

    raw: Area | None = None
    files: Area | None = None

    @model_validator(mode="after")
    def _check(self) -> Scratch:
        if self.files is not None and self.files.mount is None:
            raise ValueError(
                "files needs filesystem and mount, such as filesystem: ext4, mount: /mnt/scratch"
            )
        areas = {"raw": self.raw, "files": self.files}
        if overlapping({name: (area.start, area.size) for name, area in areas.items() if area}):
            raise ValueError(
                "raw and files overlap, so writes to one would destroy the other; move one of them"
            )
        return self


class Slot(_Block):
    """A range of the boot device that may be flashed."""

    start: Annotated[Size, AfterValidator(_sector_aligned)]
    size: Annotated[Size, AfterValidator(_sector_aligned)]


class Load(_Block):
    """Memory addresses at which the bootloader may place things."""

    kernel: int = Field(ge=0)
    initrd: int | None = Field(default=None, ge=0)
    dtb: int | None = Field(default=None, ge=0)


class Netboot(_Block):
    """TFTP into memory, boot from memory: nothing is written, nothing stays."""

    method: Literal["netboot"]
    load: Load
    network: tuple[str, ...] = ("setenv autoload no", "dhcp")
    boot: str = "booti"


class _Raw(_Block):
    """Ranges of the boot device hold the parts; U-Boot reads them from there into memory and starts them."""

    load: Load
    interface: Literal["virtio", "mmc"]
    device: int = 0
    slots: Mapping[str, Slot]
    boot: str = "booti"

    @model_validator(mode="after")
    def _check(self) -> _Raw:
        if found := overlapping({name: (slot.start, slot.size) for name, slot in self.slots.items()}):
            raise ValueError(f"slots {found[0]} and {found[1]} overlap; move one of them")
        lowest = min(self.slots, key=lambda name: self.slots[name].start, default=None)
        if lowest is not None and self.slots[lowest].start < 34 * SECTOR:
            raise ValueError(
                f"slot {lowest} starts below {34 * SECTOR} bytes, where a partition table lies; move it up"
            )
        if "kernel" not in self.slots:
            raise ValueError("slots have no kernel; say where the kernel may be written")
        return self


class UBootWrite(_Raw):
    """TFTP into memory, write to the boot device with U-Boot, read back, compare CRCs, boot from the device."""

    method: Literal["uboot-write"]
    network: tuple[str, ...] = ("setenv autoload no", "dhcp")


class Rockusb(_Raw):
    """rkdeveloptool on the host writes the slots over USB and reads them back; U-Boot boots from them."""

    method: Literal["rockusb"]
    enter: tuple[str, ...] = Field(
        default=("mmc dev 0", "rockusb 0 mmc 0"), description="at U-Boot's prompt; the last one stays"
    )
    tool: str = "rkdeveloptool"
    loader: str | None = Field(
        default=None, description="a loader file, sent first to a board in maskrom mode"
    )


class SdMux(_Raw):
    """The card is switched over to the host, which writes the slots and reads them back, and back to the board."""

    method: Literal["sdmux"]


Partition = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,36}$")]


class Fastboot(_Block):
    """The host's fastboot writes partitions; U-Boot loads from them, which is how they are verified."""

    method: Literal["fastboot"]
    enter: tuple[str, ...] = Field(
        default=("fastboot usb 0",),
        description="at U-Boot's prompt; the last one stays. Empty for a board that answers by itself",
    )
    partitions: Mapping[Literal["kernel", "initrd", "dtb"], Partition]
    slot: Literal["a", "b"] | None = Field(
        default=None, description="appended to the partitions' names as _a or _b, and made active"
    )
    read: tuple[str, ...] = Field(
        min_length=1, description="U-Boot commands that load the partitions to the addresses of load:"
    )
    crc32: bool = Field(default=True, description="whether U-Boot has crc32, so that what it read is checked")
    load: Load
    boot: str = "booti"

    @model_validator(mode="after")
    def _check(self) -> Fastboot:
        if "kernel" not in self.partitions:
            raise ValueError("partitions have no kernel; say where the kernel may be written")
        return self


class Kexec(_Block):
    """No flash at all: the golden kernel boots, fetches the variant into memory and jumps into it.

    For quick comparisons where firmware does not matter: what the golden kernel did to the hardware is still there.
    """

    method: Literal["kexec"]
    under: Annotated[Netboot | UBootWrite, Field(discriminator="method")]
    fetch: str = Field(
        pattern=r"\{name\}.*\{path\}|\{path\}.*\{name\}",
        description="shell command that brings the staged file {name} to {path}, such as tftp -g -r {name} -l {path} HOST",
    )
    folder: str = Field(default="/tmp", pattern=r"^/[A-Za-z0-9._/-]+$")  # noqa: S108 - on the board


Flash = Annotated[Netboot | UBootWrite | Rockusb | SdMux | Fastboot | Kexec, Field(discriminator="method")]


class Golden(_Block):
    """The image to return to: what the board is known to boot. Names of `images:` or paths."""

    kernel: str
    initrd: str | None = None
    dtb: str | None = None
    modules: str | None = None


class Binary(_Block):
    """A static fio for a board without one, named by its digest."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Deadlines(_Block):
    """Seconds after which a step counts as failed."""

    power: float = Field(default=10, gt=0)
    bootloader: float = Field(default=60, gt=0)
    flash: float = Field(default=300, gt=0)
    boot: float = Field(default=180, gt=0)
    facts: float = Field(default=60, gt=0)
    silence: float | None = Field(
        default=None, gt=0, description="of the board's process, which then is killed; default: worked out"
    )


class FarmBlock(_Block):
    """The `farm:` block of an env file."""

    soc: str
    tags: Mapping[str, str] = Field(
        default={}, description="by which boards are chosen, such as board: rk3568"
    )
    disk: Disk
    scratch: Scratch = Scratch()
    flash: Flash
    golden: Golden
    args: Annotated[str, AfterValidator(bootargs.checked)] = Field(
        default="", description="kernel arguments that every variant gets, such as console="
    )
    modules: Literal["cpio", "none"] = "cpio"
    boot_seconds: float = Field(
        default=60.0, gt=0, description="what one boot takes without trials, for plans"
    )
    off_seconds: float = Field(default=2.0, ge=0, le=60)
    power_cycles: int = Field(
        default=3, ge=1, le=20, description="boots tried before a boot counts as failed"
    )
    quarantine_after: int = Field(
        default=3, ge=1, le=100, description="failures in a row after which a board is left out of runs"
    )
    measure_alone: str | None = None
    at_once: int | None = Field(
        default=None, ge=1, description="how many boards with this measure_alone may be at work at once"
    )
    write_rate: float = Field(default=50e6, gt=0, description="bytes/second assumed when planning writes")
    fio: Binary | None = None
    deadlines: Deadlines = Deadlines()
    synthetic: str | None = Field(
        default=None, description="what about this board is made up, said in reports"
    )
    virtual: VirtualBoard | None = None

    @model_validator(mode="after")
    def _check(self) -> FarmBlock:
        for name, area in (("raw", self.scratch.raw), ("files", self.scratch.files)):
            if area is not None and area.start + area.size > self.disk.size:
                raise ValueError(
                    f"scratch.{name} ends at byte {area.start + area.size}, but the disk has {self.disk.size}; make it "
                    "smaller"
                )
        return self


class EnvFile(BaseModel):
    """The whole file, as far as farm looks at it; `targets` and `imports` are labgrid's."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    targets: Mapping[str, Any]
    images: Mapping[str, str] = {}
    farm: FarmBlock


class BoardEnv(BaseModel):
    """One board type's env: name, file, and the validated `farm:` block."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    images: Mapping[str, str]
    farm: FarmBlock
    target: str = "main"
    place: str | None = Field(default=None, description="the coordinator's place in the target `remote`")

    def image(self, name: str, *, beside: Path | None = None) -> Path:
        """The file behind an image name: an entry of `images:`, else a path relative to `beside`.

        Raises UserError where there is neither.
        """
        if name in self.images:
            path = Path(os.path.expandvars(self.images[name])).expanduser()
            path = path if path.is_absolute() else self.path.parent / path
            if not path.is_file():
                raise UserError(
                    f"no such file: {path}; build it (virtual boards: farm virtual up, for older kernels with --previous) "
                    "or correct the path",
                    file=self.path,
                    key=f"images.{name}",
                )
            return path
        path = (beside or Path.cwd()) / Path(name).expanduser()
        if path.is_file():
            return path
        known = ", ".join(sorted(self.images)) or "none"
        raise UserError(
            f"image {name!r} is neither a file nor an entry of images: in {self.path} (there: {known})"
        )


def folders() -> tuple[Path, ...]:
    """Where env files are looked for by name: `envs/` here, then the one beside this package."""
    return Path("envs"), Path(__file__).parents[2] / "envs"


def find(board: str) -> Path:
    """The env file of a board: a path, or a name looked up in `envs/` here and beside this package.

    Raises UserError for an unknown board, naming the known ones.
    """
    if board.endswith((".yaml", ".yml")) or "/" in board:
        path = Path(board)
        if not path.is_file():
            raise UserError("no such env file; give a path or the name of a file in envs/", file=path)
        return path
    for folder in folders():
        if (path := folder / f"{board}.yaml").is_file():
            return path
    known = sorted({path.stem for folder in folders() for path in folder.glob("*.yaml")})
    raise UserError(f"unknown board {board!r}; known are {', '.join(known) or 'none (no envs/ here)'}")


def load(board: str, variables: Mapping[str, str] | None = None) -> BoardEnv:
    """Read and validate a board's env file.

    `variables` are the `LG_*` values that `!template` may use; default is the process environment.
    Raises UserError with file, line and key for everything that is wrong with it.
    """
    path = find(board)
    given = os.environ if variables is None else variables
    named = frozenset((name, value) for name, value in given.items() if name.startswith("LG_"))
    try:
        as_of = stamp(path)
    except OSError as problem:
        raise UserError(f"cannot be read ({problem.strerror}); give a readable env file", file=path) from None
    return _load(path, path.absolute(), named, as_of)


@lru_cache(maxsize=1024)
def _load(
    path: Path, whole: Path, variables: frozenset[tuple[str, str]], as_of: tuple[int, int, int]
) -> BoardEnv:
    # once for all that a run asks of a board
    if not re.fullmatch(NAME, path.stem):
        raise UserError(
            f"{path.stem!r} cannot name a board; name the file with up to 64 letters, digits, '-', '_' and '.'",
            file=printable(str(path), 4096),
        )
    env = yamlfile.load(path, EnvFile, variables=dict(variables))
    if "main" not in env.targets:
        raise UserError("has no target called main; farm drives targets.main", file=path, key="targets")
    place = _place(env.targets.get("remote"))
    return BoardEnv(name=path.stem, path=whole, images=env.images, farm=env.farm, place=place)


def _place(target: Any) -> str | None:
    """The name of a target's RemotePlace; labgrid takes resources as a mapping or as a list of mappings."""
    resources = target.get("resources") if isinstance(target, Mapping) else None
    for entry in resources if isinstance(resources, list) else [resources]:
        place = entry.get("RemotePlace") if isinstance(entry, Mapping) else None
        if isinstance(place, Mapping) and isinstance(name := place.get("name"), str):
            return name
    return None
