"""The virtual lab with real QEMU: from outside it must be hardware, and nothing of it may stay behind."""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect.fdpexpect
import pytest
import requests

from farm.errors import BoardError, UserError
from farm.virtual import images, lab
from farm.virtual.machine import VirtualBoard
from tests.lab import alive
from tests.qmp import qmp

pytestmark = pytest.mark.lab

BOARD = VirtualBoard.model_validate(
    {
        "memory": "512M",
        "flash_size": "128M",
        "card": {"size": "128M", "partitions": [{"size": "64M"}, {"size": "16M", "content": "ext4"}]},
    }
)
AUTOBOOT, UBOOT, SHELL = rb"Hit any key to stop autoboot", rb"\n=> ", rb"/ # "


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose path is longer than a socket's may be, and as odd as a user's can be."""
    path = tmp_path / ("a, long=path " * 8) / "home"
    yield path
    lab.down(path)


def running(pid: int | None) -> bool:
    return pid is not None and alive(pid)


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def power(of: lab.Lab, name: str, on: bool) -> None:
    requests.put(f"{of.pdu}/{name}/1", data=b"1" if on else b"0", timeout=20).raise_for_status()


@contextlib.contextmanager
def console(of: lab.Lab, name: str) -> Iterator[pexpect.fdpexpect.fdspawn]:
    """The board's serial line, opened as any terminal program would."""
    fd = os.open(of.directory / name / "console", os.O_RDWR | os.O_NOCTTY)
    with pexpect.fdpexpect.fdspawn(fd, timeout=90) as line:
        yield line


def test_flash_power_cycle_boot(home: Path) -> None:
    """The whole way of a board: TFTP, flash, power cut, boot from flash, card, card pulled, end."""
    images.ensure()
    kernel = images.directory() / "arm64/debian-6.12"
    manifest = json.loads((kernel / "manifest.json").read_text())
    image = (kernel / "Image").read_bytes()
    initrd = (images.directory() / "arm64/busybox/initrd.cpio.gz").read_bytes()
    initrd += (kernel / "modules.cpio.gz").read_bytes()

    up = lab.up({"twin": BOARD}, home)
    board = up.directory / "twin"
    (board / "tftp/Image").write_bytes(image)
    (board / "tftp/initrd").write_bytes(initrd)
    blocks = [(len(content) + 511) // 512 for content in (image, initrd)]

    with console(up, "twin") as line:

        def uboot(command: str) -> bytes:
            line.send(command + "\r")
            line.expect(UBOOT)
            return line.before

        def shell(command: str) -> str:
            line.send(f"{command}; echo =$((40+2))=\r")
            line.expect(rb"\n=42=\r\n")
            text = line.before.decode().partition("=\r")[2]
            line.expect(SHELL)
            return text.replace("\r\n", "\n").strip()

        power(up, "twin", True)
        line.expect(AUTOBOOT)
        line.send("\r")
        line.expect(UBOOT)
        uboot("setenv autoload no; dhcp")
        assert b"Bytes transferred = %d " % len(image) in uboot("tftpboot 0x42000000 Image")
        assert b"%08x" % zlib.crc32(image) in uboot(f"crc32 0x42000000 {len(image):#x}")
        assert b"blocks written: OK" in uboot(f"virtio write 0x42000000 0x800 {blocks[0]:#x}")
        assert b"Bytes transferred = %d " % len(initrd) in uboot("tftpboot 0x48000000 initrd")
        assert b"blocks written: OK" in uboot(f"virtio write 0x48000000 0x30000 {blocks[1]:#x}")

        power(up, "twin", False)
        for name in ("Image", "initrd"):  # what boots now can only come from the flash
            (board / "tftp" / name).unlink()
        power(up, "twin", True)
        line.expect(AUTOBOOT)
        line.send("\r")
        line.expect(UBOOT)
        uboot("virtio scan")
        uboot(f"virtio read 0x42000000 0x800 {blocks[0]:#x}")
        uboot(f"virtio read 0x48000000 0x30000 {blocks[1]:#x}")
        line.send(
            f"setenv bootargs console=ttyAMA0 quiet; booti 0x42000000 0x48000000:{len(initrd):x} 0x40000000\r"
        )
        line.expect(SHELL)

        assert shell("cat /proc/version").startswith(f"Linux version {manifest['release']} ")
        card = "/sys/bus/pci/devices/0000:00:03.0/mmc_host/mmc0"
        assert shell(f"ls -d {card}/mmc0:*/block/mmcblk0").endswith("mmcblk0")
        # 64 MiB from the first MiB on, then 16 MiB, in sectors of 512
        assert shell(
            "cd /sys/block/mmcblk0; cat size mmcblk0p1/start mmcblk0p1/size mmcblk0p2/start mmcblk0p2/size; cd /"
        ) == ("262144\n2048\n131072\n133120\n32768")
        assert "timing spec:\t2 (sd high-speed)" in shell("cat /sys/kernel/debug/mmc0/ios")
        assert (
            shell("mount -t ext4 /dev/mmcblk0p2 /mnt && echo kept >/mnt/file && umount /mnt && echo done")
            == "done"
        )
        for engine in ("psync", "libaio", "io_uring"):
            found = shell(
                f"fio --name=t --filename=/dev/mmcblk0p1 --rw=randread --bs=4k --size=1M --direct=1 --readonly "
                f"--ioengine={engine} --thread --output-format=terse 2>&1 | cut -d';' -f1-5"
            )
            assert found == "3;fio-3.39;t;0;0", engine  # terse version 3; the last field is the job's error
        # 10.0.2.2 is where QEMU would let a guest into the host's loopback
        port = up.pdu.rpartition(":")[2]
        shell("ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up")
        assert "exit 1" in shell(f"wget -q -T 3 -O - http://10.0.2.2:{port}/twin/1; echo exit $?")

        qmp(board, "eject", device="card", force=True)
        until(lambda: shell("ls /sys/block") == "vda")
        qmp(board, "blockdev-change-medium", device="card", filename="card.img", format="raw")
        until(lambda: "mmcblk0" in shell("ls /sys/block"))
        assert shell("mount -t ext4 /dev/mmcblk0p2 /mnt && cat /mnt/file; umount /mnt") == "kept"

        line.send("poweroff -f\r")
        until(lambda: lab.status(home)[0].qemu_pid is None)
        (found,) = lab.status(home)
        assert (found.powered, found.died) == (True, "qemu ended by itself with exit status 0")


def test_a_killed_board_is_silent_until_its_power_is_cycled(home: Path) -> None:
    up = lab.up({"twin": BOARD}, home)
    with console(up, "twin") as line:
        power(up, "twin", True)
        line.expect(AUTOBOOT)
        (found,) = lab.status(home)
        assert found.qemu_pid is not None
        os.kill(found.qemu_pid, signal.SIGKILL)
        until(lambda: lab.status(home)[0].qemu_pid is None)
        assert requests.get(f"{up.pdu}/twin/1", timeout=5).text == "1"
        assert "SIGKILL" in lab.status(home)[0].died
        assert "SIGKILL" in (up.directory / "lab.log").read_text()
        power(up, "twin", True)  # the switch is on already: nothing happens
        time.sleep(0.3)
        assert lab.status(home)[0].qemu_pid is None
        power(up, "twin", False)
        power(up, "twin", True)
        line.expect(AUTOBOOT)


def test_a_board_that_cannot_start_says_why(home: Path) -> None:
    up = lab.up({"twin": BOARD}, home)
    (up.directory / "twin/card.img").unlink()
    power(up, "twin", True)
    until(lambda: lab.status(home)[0].died)
    assert "card.img" in lab.status(home)[0].died


def test_a_killed_supervisor_takes_everything_with_it(home: Path) -> None:
    up = lab.up({"one": BOARD, "two": BOARD}, home)
    for name in ("one", "two"):
        power(up, name, True)
    pids = [found.qemu_pid for found in lab.status(home)]
    assert all(map(running, pids))
    os.kill(up.pid, signal.SIGKILL)
    until(lambda: not any(map(running, [*pids, up.pid])), 3)
    with pytest.raises(BoardError, match="farm virtual up"):
        lab.environment(home)
    assert lab.status(home) == []
    again = lab.up({"one": BOARD}, home)
    assert again.pid != up.pid
    assert requests.get(f"{again.pdu}/one/1", timeout=5).text == "0"


def test_down_leaves_nothing_that_runs_and_keeps_the_disks(home: Path) -> None:
    up = lab.up({"twin": BOARD}, home)
    power(up, "twin", True)
    (found,) = lab.status(home)
    assert lab.down(home)
    assert not running(up.pid)
    assert not running(found.qemu_pid)
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{up.pdu}/twin/1", timeout=5)
    left = {str(path.relative_to(up.directory)) for path in up.directory.rglob("*") if not path.is_dir()}
    assert left == {
        *("lab.log", "lab.err", "lab.lock"),
        *(f"twin/{name}" for name in ("flash.img", "card.img", "disks.json", "qemu.err")),
    }
    assert not lab.down(home)


def test_up_uses_the_lab_that_runs(home: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        labs = list(pool.map(lambda name: lab.up({name: BOARD}, home), ("one", "two", "three")))
    assert len({found.pid for found in labs}) == 1
    assert [found.name for found in lab.status(home)] == ["one", "three", "two"]
    assert lab.environment(home) == {
        "LG_VIRTUAL_PDU": labs[0].pdu,
        "LG_VIRTUAL_NET": labs[0].network,
        "LG_VIRTUAL_DIR": str(home / "virtual"),
        "LG_VIRTUAL_IMAGES": str(images.directory()),
    }


def test_a_board_changes_only_while_it_is_off(home: Path) -> None:
    up = lab.up({"twin": BOARD}, home)
    changed = BOARD.model_copy(update={"memory": 256 * 1024**2})
    power(up, "twin", True)
    with pytest.raises(BoardError, match="twin: the board has power and its virtual block has changed"):
        lab.up({"twin": changed}, home)
    power(up, "twin", False)
    lab.up({"twin": changed}, home)
    power(up, "twin", True)
    (found,) = lab.status(home)
    assert b"\x00-m\x00256M\x00" in Path(f"/proc/{found.qemu_pid}/cmdline").read_bytes()


def test_a_board_at_115200_baud_takes_its_time(home: Path) -> None:
    up = lab.up({"twin": BOARD.model_copy(update={"baud": 115200})}, home)
    with console(up, "twin") as line:
        power(up, "twin", True)
        line.expect(AUTOBOOT)
        line.send("\r")
        line.expect(UBOOT)
        began = time.monotonic()
        line.send("printenv\r")
        line.expect(UBOOT)
        seconds = time.monotonic() - began
    size = int(re.search(rb"Environment size: (\d+)/", line.before)[1])
    assert size > 3000
    assert seconds > size * 10 / 115200 * 0.95


def test_a_state_file_of_a_dead_lab_is_seen_through(home: Path) -> None:
    up = lab.up({}, home)
    state = (up.directory / "lab.json").read_text()
    lab.down(home)
    # the pid lives again, as somebody else
    stale = {**json.loads(state), "pid": os.getpid()}
    for content in (
        json.dumps(stale),
        "{",
        "[]",
        '{"pid": 1, "started": 0, "pdu": "", "boards": {"x": {"arch": 1}}}',
        "",
    ):
        (up.directory / "lab.json").write_text(content)
        assert lab.status(home) == []
    assert not lab.down(home)
    assert running(os.getpid())


@pytest.mark.parametrize("name", ["", "../escape", "a/b", "-dash", "x" * 65])
def test_a_name_that_is_no_name_is_refused(home: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a virtual board"):
        lab.up({name: BOARD}, home)


def test_a_machine_without_qemu_is_told_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        BoardError, match=r"qemu-system-aarch64 is missing .* install the package qemu-system-arm$"
    ):
        lab.up({"twin": BOARD}, home)


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BoardError) as wrong:
        lab.up({"twin": BOARD}, tmp_path / "file")
    file = tmp_path / "file" / "virtual"
    assert str(wrong.value) == (
        f"the lab's directory cannot be written: {file}: Not a directory; set FARM_HOME to a directory"
    )
