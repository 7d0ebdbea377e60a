"""U-Boot commands that several flash methods share: checked commands, TFTP, CRC-32 of memory, arguments."""

from __future__ import annotations

import re
from typing import Any

from pexpect import TIMEOUT

from farm.board.bundle import Bundle, Part
from farm.board.flash.method import Ports
from farm.errors import BoardError, UserError
from farm.fleet.env import Load

_CRC = re.compile(r"==>\s*([0-9a-fA-F]{8})\b")
_LOADED = re.compile(r"Bytes transferred = (\d+)")


def command(ports: Ports, text: str, timeout_s: float) -> list[str]:
    """Run one U-Boot command and return its lines. Raises BoardError where it fails or does not end in time."""
    try:
        lines, _, status = ports.uboot.run(text, timeout=max(1, round(timeout_s)))
    except TIMEOUT:
        raise error(ports, f"U-Boot did not finish {text!r} within {timeout_s:.0f} s") from None
    except (ValueError, IndexError, UnicodeDecodeError):
        # labgrid's parser did not find its markers: the console was garbled
        raise error(ports, f"the answer of U-Boot to {text!r} was garbled") from None
    if status != 0:
        said = lines[-1].strip() if lines else "nothing"
        raise error(ports, f"U-Boot refused {text!r} (status {status}), saying {said!r}")
    return [str(line) for line in lines]


def error(ports: Ports, reason: str) -> BoardError:
    """What went wrong while flashing, with the last console lines."""
    watch = getattr(ports.console, "watch", None)
    tail = tuple(watch.tail)[-10:] if watch else ()
    return BoardError(reason, step="flash", tail=tail, log=watch.log_path if watch else None)


def network(ports: Ports, commands: tuple[str, ...]) -> None:
    """Bring the network up as the env says."""
    for text in commands:
        command(ports, text, 30)


def fetch(ports: Ports, part: Part, address: int, timeout_s: float) -> None:
    """TFTP a part into memory; its size and CRC-32 in memory have to be those of the file.

    Raises BoardError with what differed.
    """
    if ports.tftp is None:
        raise UserError(
            "this flash method needs a TFTPProvider resource and a TFTPProviderDriver in the env file"
        )
    name = ports.tftp.stage(str(part.path))
    lines = command(ports, f"tftpboot {address:#x} {name}", timeout_s)
    sizes = [int(found[1]) for line in lines if (found := _LOADED.search(line))]
    if sizes != [part.size]:
        raise error(ports, f"TFTP of {part.name} brought {sizes or 'nothing'} bytes instead of {part.size}")
    arrived = crc32(ports, address, part.size)
    if arrived != part.crc32:
        raise error(ports, f"{part.name} arrived with CRC {arrived:08x} instead of {part.crc32:08x}")


def crc32(ports: Ports, address: int, size: int) -> int:
    """CRC-32 of `size` bytes of board memory."""
    lines = command(ports, f"crc32 {address:#x} {size:#x}", 60)
    found = [int(match[1], 16) for line in lines if (match := _CRC.search(line))]
    if len(found) != 1:
        raise error(ports, f"U-Boot printed no CRC for {size} bytes at {address:#x}")
    return found[0]


def address(load: Load, part: Part) -> int:
    """Where the env lets a part be loaded. Raises UserError where it says nothing."""
    value: int | None = getattr(load, part.name)
    if value is None:
        raise UserError(
            f"the variant has a {part.name}, but flash.load names no address for it",
            key=f"flash.load.{part.name}",
        )
    return value


def start(ports: Ports, bundle: Bundle, load: Load, boot: str) -> None:
    """Set the arguments and start the kernel that lies in memory."""
    # single quotes keep everything in U-Boot's hush shell; farm.bootargs refuses arguments that contain one
    command(ports, f"setenv bootargs '{bundle.args}'", 10)
    initrd, dtb = bundle.part("initrd"), bundle.part("dtb")
    words: list[Any] = [boot, f"{load.kernel:#x}"]
    words.append(f"{load.initrd:#x}:{initrd.size:#x}" if initrd else "-")
    words.append(f"{address(load, dtb):#x}" if dtb else "${fdtcontroladdr}")
    ports.console.sendline(" ".join(words))
