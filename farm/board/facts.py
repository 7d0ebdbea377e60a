"""What a booted board says of itself: kernel, card, bus mode, queue settings, temperature."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources

from farm.board.batch import Wire, capture
from farm.errors import BoardError
from farm.parse.extcsd import parse_extcsd
from farm.parse.ios import parse_ios
from farm.units import SECTOR

Fact = str | int | float | None


@dataclass(frozen=True)
class Partition:
    """A partition as the running kernel sees it; start and size in bytes."""

    node: str
    number: int
    start: int
    size: int
    held: bool


@dataclass(frozen=True)
class DiskState:
    """The device under test as found: what `safety` compares with what the env declares."""

    candidates: tuple[str, ...]
    node: str
    size: int
    type: str
    cid: str
    read_only: bool
    held: bool
    partitions: tuple[Partition, ...]
    mounts: tuple[tuple[str, str], ...]
    swaps: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """One boot's facts: flat values (bytes, Hz, kB as the name says), the disk, the tools, the kernel's MMC lines."""

    values: Mapping[str, Fact]
    disk: DiskState
    tools: frozenset[str]
    mmc_lines: tuple[str, ...]
    refused_knobs: tuple[str, ...]


def probe_script(controller: str, knobs: Mapping[str, str]) -> str:
    """The shell text that sets the knobs and collects the facts.

    `controller` is part of the host controller's sysfs path. Knobs are written only where exactly one disk
    matches it; a relative knob lies below that disk's /sys/block directory.
    """
    lines_of_knobs = []
    for name, value in knobs.items():
        path = shlex.quote(name) if name.startswith("/") else f'"$b"/{shlex.quote(name)}'
        label = shlex.quote(f"{name}={value}")
        lines_of_knobs.append(f"echo {shlex.quote(value)} >{path} || echo {label} >&3")
    text = resources.files("farm.board").joinpath("probe.sh").read_text(encoding="utf-8")
    text = text.replace("KNOBS\n", "\n".join(lines_of_knobs) + "\n")
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    return f"CONTROLLER={shlex.quote(controller)}\n" + "\n".join(lines) + "\n"


def ask(wire: Wire, controller: str, knobs: Mapping[str, str], timeout_s: float) -> Facts:
    """What the board at this shell says of itself once the knobs are set; see `probe_script`. Raises BoardError."""
    said = capture(wire, probe_script(controller, knobs), timeout_s)
    return parse_probe(said.decode("utf-8", "replace"))


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.replace("\r", "").splitlines():
        if line.startswith("@@ "):
            name = line[3:].strip()
            found.setdefault(name, [])
        elif name == "files":
            # PATH:LINE; paths that are asked for hold no colon
            path, colon, rest = line.partition(":")
            if colon and rest.strip():
                found.setdefault(path.rpartition("/")[2], []).append(rest.rstrip())
        elif name and line.strip():
            found[name].append(line.rstrip())
    return found


def _number(text: str) -> int | None:
    return int(text) if text.strip().lstrip("-").isdigit() else None


def _mounts(sections: Mapping[str, list[str]], node: str) -> tuple[tuple[str, str], ...]:
    """(node, mount point) of everything on the disk.

    A mount's source may be called /dev/root or anything else, so the device number in mountinfo decides; file
    systems with numbers of their own (btrfs) are known by their source (Documentation/filesystems/proc.rst, 3.5).
    """
    nodes = {number: name for name, _, number in (line.partition(" ") for line in sections.get("devs", []))}
    mounts = []
    for line in sections.get("mountinfo", []):
        left, _, right = line.partition(" - ")
        fields, source = left.split(), right.split()[1:2]
        if len(fields) < 5:
            continue
        if fields[2] in nodes:
            mounts.append((f"/dev/{nodes[fields[2]]}", fields[4]))
        elif source and source[0].startswith(f"/dev/{node}"):
            mounts.append((source[0], fields[4]))
    return tuple(mounts)


def _disk(sections: Mapping[str, list[str]], first: Mapping[str, str]) -> DiskState:
    candidates = tuple(first.get("disks", "").split())
    node = candidates[0] if candidates else ""
    holders = {line.strip() for line in sections.get("holders", [])}
    partitions = []
    for line in sections.get("partitions", []):
        name, *rest = line.split()
        numbers = [_number(word) for word in rest[:3]]
        if len(numbers) == 3 and None not in numbers:
            number, start, size = (value or 0 for value in numbers)
            held = name in holders
            partitions.append(Partition(f"/dev/{name}", number, start * SECTOR, size * SECTOR, held))
    return DiskState(
        candidates=candidates,
        node=f"/dev/{node}" if node else "",
        size=(_number(first.get("size", "")) or 0) * SECTOR,
        type=first.get("type", ""),
        cid=first.get("cid", ""),
        read_only=first.get("ro", "0") != "0",
        held=node in holders,
        partitions=tuple(partitions),
        mounts=_mounts(sections, node),
        swaps=tuple(
            line.split()[0] for line in sections.get("swaps", []) if line.startswith(f"/dev/{node or '-'}")
        ),
    )


def parse_probe(text: str) -> Facts:
    """Facts from the probe's output. What the board does not have is absent from `values`.

    Raises BoardError where the output is not whole.
    """
    sections = _sections(text)
    if "end" not in sections or not sections.get("version"):
        raise BoardError(
            "the board's facts did not arrive whole", step="facts", tail=tuple(text.splitlines()[-5:])
        )
    first = {name: lines[0].strip() for name, lines in sections.items() if lines}
    values: dict[str, Fact] = {"banner": first["version"], "cmdline": first.get("cmdline", "")}
    for name in ("read_ahead_kb", "max_sectors_kb", "nr_requests", "discard_max_bytes", "cmdq_en"):
        if (number := _number(first.get(name, ""))) is not None:
            values[name] = number
    scheduler = first.get("scheduler", "")
    if "[" in scheduler:
        scheduler = scheduler[scheduler.index("[") + 1 :].partition("]")[0]
    for name, value in (
        ("scheduler", scheduler),
        ("write_cache", first.get("write_cache")),
        ("governor", first.get("scaling_governor")),
        ("card.cid", first.get("cid")),
        ("card.csd", first.get("csd")),
        ("card.life_time", first.get("life_time")),
        ("card.pre_eol", first.get("pre_eol_info")),
        ("controller", first.get("path")),
        *(
            (f"card.{name}", first.get(name))
            for name in ("name", "type", "manfid", "oemid", "serial", "date")
        ),
        *((f"card.{name}", first.get(name)) for name in ("fwrev", "hwrev", "prv")),
    ):
        if value:
            values[name] = value
    if (frequency := _number(first.get("scaling_cur_freq", ""))) is not None:
        values["cpu_khz"] = frequency
    if (uptime := first.get("uptime", "").split()) and uptime[0].replace(".", "", 1).isdigit():
        values["uptime_s"] = float(uptime[0])
    if (seconds := _number(first.get("clock", ""))) is not None:
        values["clock_s"] = seconds
    if temperatures := [t for line in sections.get("temp", []) if (t := _number(line)) is not None]:
        values["temperature_c"] = max(temperatures) / 1000
    memory = [_number(word) for word in first.get("memory", "").split()[1:2]]
    if memory and memory[0] is not None:
        values["memory_bytes"] = memory[0] * 1024
    disk = _disk(sections, first)
    values["disk_bytes"] = disk.size
    if sections.get("ios"):
        ios = parse_ios("\n".join(sections["ios"]))
        if ios is not None:
            values["ios.timing"] = ios.timing
            values["ios.width_bits"] = ios.width_bits
            values["ios.clock_hz"] = ios.clock_hz
            values["ios.actual_clock_hz"] = ios.actual_clock_hz
            values["ios.voltage"] = ios.voltage
    ext_csd = parse_extcsd("\n".join(sections.get("ext_csd", [])))
    if ext_csd is not None:
        for entry in fields(ext_csd):
            value = getattr(ext_csd, entry.name)
            if isinstance(value, (bool, int, str)) and entry.name != "source":
                values[f"ext_csd.{entry.name}"] = value
    return Facts(
        values=values,
        disk=disk,
        tools=frozenset(sections.get("tools", [])),
        mmc_lines=tuple(sections.get("mmclines", [])),
        refused_knobs=tuple(f"{line} was refused" for line in sections.get("refused", [])),
    )
