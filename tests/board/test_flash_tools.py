"""fastboot, rockusb and sdmux without hardware.

fastboot is the real client against a small server of the protocol's TCP form. rkdeveloptool and the mux have no stand-in
that speaks USB: their argument vectors are checked against what the tools say of themselves, and a program that keeps a
file instead of an eMMC answers in rkdeveloptool's place. U-Boot's part is played by a few lines as well.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import struct
import subprocess
import threading
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from labgrid import Target
from labgrid.driver import AndroidFastbootDriver, USBSDMuxDriver, USBStorageDriver
from labgrid.resource import AndroidNetFastboot
from labgrid.resource.udev import USBSDMuxDevice

from farm.board.bundle import Bundle, Part
from farm.board.flash import sdmux
from farm.board.flash.fastboot import FastbootMethod
from farm.board.flash.kexec import KexecMethod
from farm.board.flash.method import Ports
from farm.board.flash.netboot import NetbootMethod
from farm.board.flash.rockusb import RockusbMethod
from farm.board.flash.sdmux import SdMuxMethod
from farm.errors import BoardError, UserError
from farm.fleet.env import Fastboot, Kexec, Rockusb, SdMux

KERNEL, DTB = bytes(range(256)) * 40 + b"tail", b"\xd0\x0d\xfe\xed" * 100
SLOTS = {"kernel": {"start": "64KiB", "size": "64KiB"}, "dtb": {"start": "128KiB", "size": "4KiB"}}
RAW = {"interface": "mmc", "load": {"kernel": 0x2080000, "dtb": 0xA100000}, "slots": SLOTS}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    parts = []
    for name, data in (("kernel", KERNEL), ("dtb", DTB)):
        (tmp_path / name).write_bytes(data)
        parts.append(Part(name, tmp_path / name, len(data), zlib.crc32(data)))
    return Bundle(tuple(parts), "console=ttyS2", "Linux version x", "0" * 64)


class Uboot:
    """As much of U-Boot as the methods type at its prompt: its eMMC is a file."""

    def __init__(self, device: Path) -> None:
        self.device, self.memory, self.said = device, {}, []
        self.partitions: dict[str, bytes] = {}
        self.watch = SimpleNamespace(tail=(), log_path=None)

    def run(self, text: str, timeout: int) -> tuple[list[str], list[str], int]:
        self.said.append(text)
        words = text.split()
        if words[0] == "load":  # as some U-Boots' own commands put a partition into memory
            self.memory[int(words[1], 16)] = self.partitions[words[2]]
        if words[:2] == ["mmc", "read"]:
            where, first, count = (int(word, 16) for word in words[2:])
            self.memory[where] = self.device.read_bytes()[first * 512 : (first + count) * 512]
        if words[0] == "crc32":
            data = self.memory[int(words[1], 16)][: int(words[2], 16)]
            return [f"crc32 for {words[1]} ... ==> {zlib.crc32(data):08x}"], [], 0
        return [], [], 0

    def sendline(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "emmc"
    path.write_bytes(b"\xff" * (1 << 20))
    return path


RK = """\
#!/usr/bin/env python3
import sys
device, log, broken = {device!r}, {log!r}, {broken!r}
open(log, "a").write(" ".join(sys.argv[1:]) + "\\n")
verb, *words = sys.argv[1:]
if verb == "wl":
    data = open(words[1], "rb").read()
    with open(device, "r+b") as emmc:
        emmc.seek(int(words[0], 0) * 512)
        emmc.write(data + bytes(-len(data) % 512))
if verb == "rl":
    with open(device, "rb") as emmc:
        emmc.seek(int(words[0], 0) * 512)
        data = emmc.read(int(words[1], 0) * 512)
    open(words[2], "wb").write(data.replace(b"tail", b"tale") if broken else data)
"""


def rockusb(tmp_path: Path, device: Path, *, broken: bool = False) -> tuple[RockusbMethod, Ports, Path]:
    log, program = tmp_path / "rk.log", tmp_path / "rkdeveloptool"
    log.write_text("")
    program.write_text(RK.format(device=str(device), log=str(log), broken=broken))
    program.chmod(0o755)
    uboot = Uboot(device)
    driver = SimpleNamespace(loader=SimpleNamespace(command_prefix=[], host="localhost"))
    config = Rockusb.model_validate({"method": "rockusb", "tool": str(program), **RAW})
    return RockusbMethod(config), Ports(uboot, None, uboot, rockusb=driver), log


@pytest.fixture(autouse=True)
def _files_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """labgrid copies files to the host of a resource by ssh; these resources are on this one."""
    monkeypatch.setattr("farm.board.flash.tool.there", lambda path, resource: str(path))


def test_rockusb_writes_and_reads_back_in_the_tools_own_words(
    tmp_path: Path, device: Path, bundle: Bundle
) -> None:
    method, ports, log = rockusb(tmp_path, device)
    report = method.flash(ports, bundle, 30)
    data = device.read_bytes()
    assert data[65536 : 65536 + len(KERNEL)] == KERNEL
    assert data[131072 : 131072 + len(DTB)] == DTB
    assert data[:65536] == b"\xff" * 65536
    # 10244 bytes are 21 sectors, 400 bytes one; 64 KiB is sector 0x80, 128 KiB sector 0x100
    assert [re.sub(r" /\S+$", " FILE", line) for line in log.read_text().splitlines()] == [
        "td",
        "wl 0x80 FILE",
        "rl 0x80 0x15 FILE",
        "wl 0x100 FILE",
        "rl 0x100 0x1 FILE",
    ]
    assert ports.uboot.said[-2:] == ["mmc dev 0", "rockusb 0 mmc 0"]
    assert (report.written, report.verified) == ((21 + 1) * 512, "every byte read back over USB")
    log.write_text("")
    assert method.flash(ports, bundle, 30).written == 0
    assert log.read_text() == ""


def test_rockusb_finds_out_what_was_not_written(tmp_path: Path, device: Path, bundle: Bundle) -> None:
    method, ports, _ = rockusb(tmp_path, device, broken=True)
    with pytest.raises(BoardError, match="kernel read back over USB is not what was written"):
        method.flash(ports, bundle, 30)


def test_rkdeveloptool_has_the_commands_that_rockusb_gives() -> None:
    said = subprocess.run(["rkdeveloptool", "-h"], capture_output=True, text=True, check=False).stdout
    for form in ("db <Loader>", "rl <BeginSec> <SectorLen> <File>", "wl <BeginSec> <File>"):
        assert form in re.sub(r"[ \t]+", " ", said)
    assert re.search(r"TestDevice:\s+td\b", said)


def test_sdmux_writes_the_card_while_the_host_has_it(tmp_path: Path, device: Path, bundle: Bundle) -> None:
    modes: list[str] = []
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "blockdev").write_text("#!/bin/sh\necho 1048576\n")
    (tmp_path / "bin" / "blockdev").chmod(0o755)
    prefix = ["env", f"PATH={tmp_path / 'bin'}:{os.environ['PATH']}"]
    storage = SimpleNamespace(storage=SimpleNamespace(command_prefix=prefix, path=str(device)))
    mux = SimpleNamespace(set_mode=modes.append)
    uboot = Uboot(device)
    method = SdMuxMethod(SdMux.model_validate({"method": "sdmux", **RAW}))
    ports = Ports(uboot, None, uboot, mux=mux, storage=storage)
    report = method.flash(ports, bundle, 30)
    assert method.begins == "off"
    assert modes == ["host", "dut"]
    data = device.read_bytes()
    assert len(data) == 1 << 20, "conv=notrunc"
    assert data[65536 : 65536 + len(KERNEL)] == KERNEL
    assert data[65536 + len(KERNEL) :][:100] == b"\xff" * 100
    assert report.written == (21 + 1) * 512
    assert method.flash(ports, bundle, 30).written == 0
    assert modes == ["host", "dut"] * 2


def test_labgrid_tells_usbsdmux_what_its_documentation_has(
    tmp_path: Path, device: Path, bundle: Bundle
) -> None:
    # README of usbsdmux 25.8: `usbsdmux SG {get,dut,client,host,off}`, SG being /dev/sg* or /dev/usb-sd-mux/id-*
    log, program = tmp_path / "mux.log", tmp_path / "usbsdmux"
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    program.chmod(0o755)
    target = Target("main")
    USBSDMuxDevice(
        target, None, match={}, control_path="/dev/usb-sd-mux/id-00012.00123", disk_path=str(device)
    )
    mux, storage = USBSDMuxDriver(target, None), USBStorageDriver(target, None)
    mux.tool = str(program)
    method = SdMuxMethod(SdMux.model_validate({"method": "sdmux", **RAW}))
    uboot = Uboot(device)
    ports = Ports(uboot, None, uboot, mux=mux, storage=storage, activate=target.activate)
    with pytest.raises(
        BoardError, match="blockdev"
    ):  # a file is no block device; the mux is told all the same
        method.flash(ports, bundle, 30)
    assert log.read_text().splitlines() == [
        "/dev/usb-sd-mux/id-00012.00123 host",
        "/dev/usb-sd-mux/id-00012.00123 dut",
    ]


def test_the_mux_goes_back_to_the_board_whatever_happens(tmp_path: Path, bundle: Bundle) -> None:
    modes: list[str] = []
    storage = SimpleNamespace(storage=SimpleNamespace(command_prefix=[], path="/nonexistent"))
    ports = Ports(None, None, None, mux=SimpleNamespace(set_mode=modes.append), storage=storage)
    with pytest.raises(BoardError, match="blockdev"):
        SdMuxMethod(SdMux.model_validate({"method": "sdmux", **RAW})).flash(ports, bundle, 30)
    assert modes == ["host", "dut"]


def test_dd_is_told_offsets_in_bytes_and_to_pass_the_page_cache() -> None:
    # the flags are those of dd(1), coreutils; U-Boot and the card count in sectors, dd here in bytes
    assert sdmux.write_argv([], "a", "/dev/sdx", 65536) == [
        "dd", "if=a", "of=/dev/sdx", "bs=1M", "oflag=direct,seek_bytes", "seek=65536", "conv=fdatasync,notrunc",
        "status=none",
    ]  # fmt: skip
    said = subprocess.run(["dd", "--help"], capture_output=True, text=True, check=True).stdout
    for flag in ("direct", "fdatasync", "notrunc", "fullblock", "status=LEVEL"):
        assert flag in said


class Server(threading.Thread):
    """The device's side of fastboot over TCP (AOSP system/core/fastboot/README.md): FB01, then messages behind a
    big-endian length of 8 bytes; download, flash, getvar and set_active."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.partitions: dict[str, bytes] = {}
        self.commands: list[str] = []
        self.refuse = ""

    def run(self) -> None:
        while True:
            line, _ = self.listener.accept()
            with line:
                line.sendall(b"FB01")
                self._exactly(line, 4)
                while self._message(line):
                    pass

    def _exactly(self, line: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count and (more := line.recv(count - len(data))):
            data += more
        return data

    def _message(self, line: socket.socket) -> bool:
        head = self._exactly(line, 8)
        if len(head) < 8:
            return False
        command = self._exactly(line, struct.unpack(">Q", head)[0]).decode()
        self.commands.append(command)
        verb, _, rest = command.partition(":")
        answer = b"OKAY"
        if verb == "getvar":
            values = {"version": b"0.4", "max-download-size": b"0x10000000", "slot-count": b"2"}
            answer += values.get(rest, b"no")
        elif verb == "download":
            self._say(line, f"DATA{rest}".encode())
            size, self.data = int(rest, 16), b""
            while len(self.data) < size:
                self.data += self._exactly(line, struct.unpack(">Q", self._exactly(line, 8))[0])
        elif verb == "flash" and rest == self.refuse:
            answer = b"FAILno such partition"
        elif verb == "flash":
            self.partitions[rest] = self.data
        self._say(line, answer)
        return True

    @staticmethod
    def _say(line: socket.socket, text: bytes) -> None:
        line.sendall(struct.pack(">Q", len(text)) + text)


def fastboot(server: Server, **more: object) -> tuple[FastbootMethod, Ports]:
    server.start()
    target = Target("main")
    AndroidNetFastboot(target, None, address="127.0.0.1", port=server.port, protocol="tcp")
    driver = AndroidFastbootDriver(target, None)
    uboot = Uboot(Path(os.devnull))
    uboot.partitions = server.partitions
    config = Fastboot.model_validate(
        {
            "method": "fastboot",
            "partitions": {"kernel": "boot", "dtb": "dtb"},
            "read": ["load 0x46000000 boot", "load 0x4a000000 dtb"],
            "load": {"kernel": 0x46000000, "dtb": 0x4A000000},
            **more,
        }
    )
    return FastbootMethod(config), Ports(uboot, None, uboot, fastboot=driver, activate=target.activate)


def test_fastboot_writes_partitions_and_does_not_write_the_same_twice(bundle: Bundle) -> None:
    server = Server()
    method, ports = fastboot(server)
    report = method.flash(ports, bundle, 30)
    # whole blocks of 4096 bytes, without which fastboot makes sparse images that lack a chunk
    assert server.partitions == {"boot": KERNEL.ljust(12288, b"\0"), "dtb": DTB.ljust(4096, b"\0")}
    assert ports.uboot.said == ["fastboot usb 0"]
    assert report.written == 12288 + 4096
    assert report.verified == "CRC-32 of what U-Boot loads, before each start"
    server.commands.clear()
    assert method.flash(ports, bundle, 30).written == 0
    assert server.commands == []
    method.boot(ports, bundle)
    assert ports.uboot.said[1:] == [
        "load 0x46000000 boot",
        "load 0x4a000000 dtb",
        "crc32 0x46000000 0x2804",
        "crc32 0x4a000000 0x190",
        "setenv bootargs 'console=ttyS2'",
        "booti 0x46000000 - 0x4a000000",
    ]


def test_fastboot_does_not_start_what_the_partitions_do_not_hold_and_writes_it_anew(bundle: Bundle) -> None:
    server = Server()
    method, ports = fastboot(server)
    method.flash(ports, bundle, 30)
    server.partitions["dtb"] = server.partitions["dtb"].replace(b"\xfe\xed", b"\xfe\xee", 1)
    with pytest.raises(BoardError, match=r"dtb loaded from partition dtb has CRC [0-9a-f]{8} instead of "):
        method.boot(ports, bundle)
    assert not any(text.startswith("booti") for text in ports.uboot.said)
    assert method.flash(ports, bundle, 30).ranges == ("dtb: 400 bytes in partition dtb",)
    method.boot(ports, bundle)


def test_fastboot_says_where_it_cannot_verify(bundle: Bundle) -> None:
    server = Server()
    method, ports = fastboot(server, crc32=False, enter=[])
    assert method.flash(ports, bundle, 30).verified == "accepted by the device; fastboot cannot read back"
    assert ports.uboot.said == [], "a board that answers by itself"
    method.boot(ports, bundle)
    assert not any(text.startswith("crc32") for text in ports.uboot.said)


def test_fastboot_writes_one_slot_and_makes_it_active(bundle: Bundle) -> None:
    server = Server()
    method, ports = fastboot(server, slot="b")
    method.flash(ports, bundle, 30)
    assert set(server.partitions) == {"boot_b", "dtb_b"}
    assert server.commands[-1] == "set_active:b"


def test_fastboot_says_what_the_device_refused_and_tries_it_again_next_time(bundle: Bundle) -> None:
    server = Server()
    method, ports = fastboot(server)
    server.refuse = "dtb"
    with pytest.raises(BoardError, match=r"flash dtb .* failed .*no such partition"):
        method.flash(ports, bundle, 30)
    server.refuse = ""
    assert method.flash(ports, bundle, 30).ranges == ("dtb: 400 bytes in partition dtb",)


class Shell:
    """A board's shell that has tftp, sha256sum and kexec: what it is told is kept."""

    def __init__(self, damage: bytes = b"") -> None:
        self.said: list[str] = []
        self.damage = damage

    def run(self, text: str, timeout: float) -> tuple[list[str], list[str], int]:
        self.said.append(text)
        if text.startswith("sha256sum"):
            data = KERNEL if text.endswith("kernel") else DTB
            return [f"{hashlib.sha256(data + self.damage).hexdigest()}  {text.split()[1]}"], [], 0
        return [], [], 0


def kexec(shell: Shell) -> tuple[KexecMethod, Ports]:
    under = {"method": "netboot", "load": {"kernel": 0x1000}}
    fetch = "tftp -g -r {name} -l {path} 10.0.0.1"
    config = Kexec.model_validate({"method": "kexec", "under": under, "fetch": fetch})
    tftp = SimpleNamespace(stage=lambda path: f"farm/{Path(path).name}")
    uboot = Uboot(Path(os.devnull))
    ports = Ports(uboot, tftp, uboot, shell=shell, golden_shell=lambda method: (512, shell))
    return KexecMethod(config, NetbootMethod(config.under)), ports


def test_kexec_fetches_checks_and_jumps(bundle: Bundle) -> None:
    shell = Shell()
    method, ports = kexec(shell)
    report = method.flash(ports, bundle, 30)
    assert report.method == "kexec"
    assert report.written == 512, "what the golden image cost"
    method.boot(ports, bundle)
    assert shell.said == [
        "tftp -g -r farm/kernel -l /tmp/farm-kernel 10.0.0.1",
        "sha256sum /tmp/farm-kernel",
        "tftp -g -r farm/dtb -l /tmp/farm-dtb 10.0.0.1",
        "sha256sum /tmp/farm-dtb",
        "kexec -l /tmp/farm-kernel --dtb=/tmp/farm-dtb --command-line=console=ttyS2",
    ]
    assert ports.console.said == ["kexec -e"]


def test_kexec_does_not_start_what_did_not_arrive_whole(bundle: Bundle) -> None:
    method, ports = kexec(Shell(b"x"))
    with pytest.raises(BoardError, match="kernel did not arrive whole"):
        method.flash(ports, bundle, 30)


def test_a_method_without_its_driver_says_which_one(bundle: Bundle) -> None:
    config = Fastboot.model_validate(
        {"method": "fastboot", "partitions": {"kernel": "boot"}, "read": ["x"], "load": {"kernel": 1}}
    )
    with pytest.raises(UserError, match="needs an AndroidFastbootDriver"):
        FastbootMethod(config).flash(Ports(None, None, None), bundle, 30)
