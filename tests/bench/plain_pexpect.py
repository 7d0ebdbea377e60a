"""The shortest honest way to boot a virtual board and run commands, for comparison: no proof, no store, no retry.

Power on, TFTP, U-Boot, kernel, then each command of a file, one a line; its output is thrown away.
Usage: plain_pexpect.py PDU_URL CONSOLE KERNEL INITRD ARGS COMMANDS_FILE   (names of files in the TFTP folder)
"""

import os
import sys
import tty
import zlib
from pathlib import Path

import pexpect.fdpexpect
import requests

pdu, console, kernel, initrd, args, commands = sys.argv[1:]
requests.put(pdu, data=b"0", timeout=10).raise_for_status()
line = os.open(console, os.O_RDWR | os.O_NOCTTY)
tty.setraw(line)
board = pexpect.fdpexpect.fdspawn(line, timeout=60)
board.delaybeforesend = None
requests.put(pdu, data=b"1", timeout=10).raise_for_status()
board.expect_exact("stop autoboot")
board.send(b"\n")
board.expect("\n=> ")


def uboot(text: str) -> None:
    """One U-Boot command, to its prompt."""
    board.send(text.encode() + b"\n")
    board.expect("\n=> ")


uboot("setenv autoload no; dhcp")
for name, address in ((kernel, "0x40400000"), (initrd, "0x48000000")):
    uboot(f"tftpboot {address} {Path(name).name}")
    uboot(f"crc32 {address} $filesize")
    assert f"{zlib.crc32(Path(name).read_bytes()):08x}".encode() in board.before
uboot(f"setenv bootargs '{args}'")
board.send(f"booti 0x40400000 0x48000000:{Path(initrd).stat().st_size:x} $fdtcontroladdr\n".encode())
board.expect("/ # ")
for command in Path(commands).read_text().splitlines():
    board.send(b"(" + command.encode() + b") >/dev/null 2>&1; echo en''d\n")
    board.expect("end\r\n.*# ")
requests.put(pdu, data=b"0", timeout=10).raise_for_status()
