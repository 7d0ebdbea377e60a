"""The other board families: another userland, another architecture, their own consoles."""

import os
import re
from pathlib import Path

import pexpect.fdpexpect
import pytest
import requests

from farm.virtual import images, lab
from farm.virtual.machine import FIRMWARE, VirtualBoard
from farm.virtual.recipes import needed_by

pytestmark = pytest.mark.lab

# the addresses of kernel, initrd and device tree
ADDRESSES = {
    "arm64": (0x42000000, 0x48000000, "0x40000000"),
    "riscv64": (0x84000000, 0x8C000000, "${fdtcontroladdr}"),
}


@pytest.mark.parametrize(
    ("board", "prompt", "lacking", "release"),
    [
        (
            VirtualBoard(userland="toybox", memory="512M"),
            rb"console:/ # ",
            {"gzip", "stty", "awk"},
            rb"-arm64",
        ),
        (VirtualBoard(arch="riscv64", memory="512M"), rb"root@lpi4a:/# ", {"uuencode", "xxd"}, rb"-riscv64"),
    ],
    ids=["toybox", "riscv64"],
)
def test_a_twin_boots_to_its_own_kind_of_shell(
    tmp_path: Path, board: VirtualBoard, prompt: bytes, lacking: set[str], release: bytes
) -> None:
    images.ensure(needed_by([board]))
    made = images.directory() / board.arch
    up = lab.up({"twin": board}, tmp_path)
    try:
        tftp = up.directory / "twin/tftp"
        (tftp / "Image").symlink_to(made / "debian-6.12/Image")
        parts = (made / board.userland / "initrd.cpio.gz", made / "debian-6.12/modules.cpio.gz")
        (tftp / "initrd").write_bytes(b"".join(part.read_bytes() for part in parts))
        fd = os.open(up.directory / "twin/console", os.O_RDWR | os.O_NOCTTY)
        with pexpect.fdpexpect.fdspawn(fd, timeout=120) as line:
            requests.put(f"{up.pdu}/twin/1", data=b"1", timeout=20).raise_for_status()
            line.expect(rb"Hit any key to stop autoboot")
            line.send("\r")
            kernel, initrd, tree = ADDRESSES[board.arch]
            for command in (
                "setenv autoload no",
                "dhcp",
                f"tftpboot {kernel:#x} Image",
                f"tftpboot {initrd:#x} initrd",
            ):
                line.expect(rb"\n=> ")
                line.send(command + "\r")
            line.expect(rb"\n=> ")
            console = FIRMWARE[board.arch].tty
            line.send(
                f"setenv bootargs console={console} quiet; booti {kernel:#x} {initrd:#x}:${{filesize}} {tree}\r"
            )
            line.expect(prompt)

            def shell(command: str) -> bytes:
                line.send(f"{command}; echo =$((40+2))=\r")
                line.expect(rb"\n=42=\r\n")
                text = line.before
                line.expect(prompt)
                return text

            assert re.search(rb"Linux version 6\.12\.\S+" + release, shell("cat /proc/version"))
            assert b"mmcblk0" in shell("ls /sys/bus/pci/devices/0000:00:03.0/mmc_host/mmc0/mmc0:*/block")
            assert b"sd high-speed" in shell("cat /sys/kernel/debug/mmc0/ios")
            assert b"fio-3.39" in shell("fio --version")
            copied = shell("dd if=/dev/mmcblk0 of=/dev/null bs=1048576 count=4")
            assert b"4194304 bytes (4.2 MB, 4.0 MiB) copied" in copied  # GNU dd on both
            tools = (
                "gzip stty awk uuencode xxd base64 sha256sum timeout od cut sed grep head dmesg blkdiscard"
            )
            found = shell(f"for t in {tools}; do command -v $t >/dev/null || echo no-$t-here; done")
            assert set(re.findall(r"no-(\w+)-here\r", found.decode())) == lacking
            # printed by the process that Ctrl-C is meant for: a shell that comes before it may swallow the signal
            line.send("cat /proc/version -\r")
            line.expect(rb"\nLinux version [^\n]*\n")
            line.send("\x03")
            line.expect(prompt, timeout=10)
            line.send("exit\r")
            line.expect(prompt)
    finally:
        lab.down(tmp_path)
