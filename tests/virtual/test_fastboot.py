"""The lab's stand-in for a bootloader's fastboot, spoken to by the real client."""

from __future__ import annotations

import os
import random
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from farm.errors import BoardError
from farm.virtual import lab
from farm.virtual.fastboot import BUFFER, pieces
from farm.virtual.machine import VirtualBoard
from tests.lab import wait_for

MIB = 1 << 20
BOARD = VirtualBoard.model_validate(
    {
        "memory": "256M",
        "flash_size": "128M",
        "card": {"size": "32M"},
        "fastboot": {
            "address": 77,
            "partitions": {
                "boot_a": {"start": "1M", "size": "4M"},
                "boot_b": {"start": "5M", "size": "4M"},
                "big": {"start": "16M", "size": "64M"},
            },
        },
    }
)


class Twin:
    """A board in a lab of its own, with its flash as a file and the host's fastboot."""

    def __init__(self, up: lab.Lab) -> None:
        self.lab, self.address = up, f"tcp:{up.network}.77"
        self.flash = up.directory / "twin/flash.img"

    def power(self, on: bool) -> None:
        requests.put(f"{self.lab.pdu}/twin/1", data=b"1" if on else b"0", timeout=20).raise_for_status()

    def fastboot(self, *words: str, refused: bool = False) -> str:
        done = subprocess.run(
            ["fastboot", "-s", self.address, *words], capture_output=True, text=True, timeout=60, check=False
        )
        # of a variable that is refused this client only tells
        assert (done.returncode != 0) == (refused and words[0] != "getvar"), done.stderr
        return done.stderr

    def content(self, start: int, size: int) -> bytes:
        with self.flash.open("rb") as flash:
            return os.pread(flash.fileno(), size, start)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    home = tmp_path_factory.mktemp("home")
    one = Twin(lab.up({"twin": BOARD}, home))
    one.power(True)
    yield one
    lab.down(home)


def image(path: Path, size: int, seed: int = 1) -> bytes:
    data = random.Random(seed).randbytes(size)
    path.write_bytes(data)
    return data


def test_a_partition_is_written_and_its_neighbours_are_not(twin: Twin, tmp_path: Path) -> None:
    data = image(tmp_path / "image", 3 * MIB)
    before = twin.content(0, 5 * MIB)
    twin.fastboot("flash", "boot_b", str(tmp_path / "image"))
    assert twin.content(5 * MIB, 3 * MIB) == data
    assert twin.content(0, 5 * MIB) == before
    assert twin.content(8 * MIB, MIB) == bytes(MIB)
    twin.fastboot("erase", "boot_b")
    assert twin.content(5 * MIB, 4 * MIB) == bytes(4 * MIB)


def test_what_is_larger_than_the_buffer_comes_in_sparse_pieces(twin: Twin, tmp_path: Path) -> None:
    data = bytearray(image(tmp_path / "image", 40 * MIB))
    data[8 * MIB : 20 * MIB] = b"\0" * (12 * MIB)  # what sparse images say in one word
    (tmp_path / "image").write_bytes(data)
    twin.fastboot("erase", "big")
    said = twin.fastboot("-S", "16M", "flash", "big", str(tmp_path / "image"))
    assert re.search(r"Sending sparse 'big' 2/\d", said)
    assert twin.content(16 * MIB, 40 * MIB) == bytes(data)
    data[0] ^= 1
    (tmp_path / "image").write_bytes(data)
    assert len(data) > BUFFER
    assert "Sending sparse 'big' 1/" in twin.fastboot("flash", "big", str(tmp_path / "image"))
    assert twin.content(16 * MIB, 40 * MIB) == bytes(data)


def test_slots_are_known_to_the_client(twin: Twin, tmp_path: Path) -> None:
    assert re.search(r"^slot-count: ?2$", twin.fastboot("getvar", "slot-count"), re.MULTILINE)
    assert re.search(
        r"^partition-size:boot_a: ?0x400000$", twin.fastboot("getvar", "partition-size:boot_a"), re.M
    )
    twin.fastboot("set_active", "b")
    data = image(tmp_path / "image", MIB, 2)
    twin.fastboot("flash", "boot", str(tmp_path / "image"))  # the client adds the active slot
    assert twin.content(5 * MIB, MIB) == data
    twin.fastboot("--slot", "a", "flash", "boot", str(tmp_path / "image"))
    assert twin.content(MIB, MIB) == data


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("flash", "system_x", "IMAGE"), "no partition system_x"),
        (("flash", "boot_a", "IMAGE"), "image is larger than partition boot_a of 4194304 bytes"),
        (("erase", "../flash"), "no partition ../flash"),
        (("getvar", "nothing"), "unknown variable nothing"),
        (("oem", "format"), "unknown command oem format"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    twin: Twin, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    image(tmp_path / "image", 5 * MIB)
    before = twin.flash.read_bytes()
    answer = twin.fastboot(
        *(str(tmp_path / "image") if word == "IMAGE" else word for word in words), refused=True
    )
    assert said in answer
    assert twin.flash.read_bytes()[5 * MIB :] == before[5 * MIB :]


def talk(twin: Twin) -> socket.socket:
    line = socket.create_connection((twin.address.removeprefix("tcp:"), 5554), timeout=10)
    line.sendall(b"FB01")
    assert line.recv(4, socket.MSG_WAITALL) == b"FB01"
    return line


def send(line: socket.socket, text: bytes) -> bytes:
    line.sendall(struct.pack(">Q", len(text)) + text)
    (size,) = struct.unpack(">Q", line.recv(8, socket.MSG_WAITALL))
    return line.recv(size, socket.MSG_WAITALL)


def test_a_download_that_is_too_large_or_no_number_is_refused(twin: Twin) -> None:
    with talk(twin) as line:
        assert send(line, b"download:%08x" % (BUFFER + 1)).startswith(b"FAIL33554433 bytes do not fit")
        assert send(line, b"download:many").startswith(b"FAIL")
        assert send(line, b"getvar:version") == b"OKAY0.4", "and it still talks"


def test_power_ends_a_transfer_in_its_middle_and_reboot_does_not(twin: Twin) -> None:
    (before,) = lab.status(twin.lab.directory.parent)
    twin.fastboot("reboot")

    def restarted() -> bool:
        (after,) = lab.status(twin.lab.directory.parent)
        assert after.powered
        return after.qemu_pid not in (None, before.qemu_pid)

    wait_for("another QEMU", restarted, 10)
    with talk(twin) as line:
        assert send(line, b"download:00001000") == b"DATA00001000"
        twin.power(False)
        with pytest.raises((ConnectionError, struct.error)):
            send(line, b"x" * 100)
    with pytest.raises(ConnectionRefusedError):
        talk(twin)
    twin.power(True)
    talk(twin).close()


def sparse(*chunks: bytes, count: int | None = None, blocks: int = 4) -> bytes:
    head = struct.pack(
        "<IHHHHIIII", 0xED26FF3A, 1, 0, 28, 12, 4096, blocks, len(chunks) if count is None else count, 0
    )
    return head + b"".join(chunks)


def chunk(kind: int, blocks: int, body: bytes = b"") -> bytes:
    return struct.pack("<HHII", kind, 0, blocks, 12 + len(body)) + body


def test_sparse_images_are_unpacked_as_the_format_says() -> None:
    raw = bytes(range(256)) * 16
    made = sparse(
        chunk(0xCAC1, 1, raw), chunk(0xCAC3, 2), chunk(0xCAC2, 1, b"abcd"), chunk(0xCAC4, 0, b"\1\2\3\4")
    )
    assert list(pieces(made)) == [(0, raw), (3 * 4096, b"abcd" * 1024)]
    assert list(pieces(b"not sparse")) == [(0, b"not sparse")]


@pytest.mark.parametrize(
    "made",
    [
        sparse(chunk(0xCAC1, 1, b"x" * 4096))[:-1],
        sparse(chunk(0xCAC1, 2, b"x" * 4096)),
        sparse(chunk(0xCAC3, 1), count=2),
        sparse(chunk(0xBEEF, 1)),
        sparse(chunk(0xCAC2, 1, b"xy")),
        sparse(struct.pack("<HHII", 0xCAC3, 0, 1, 0)),
        sparse()[:20],
    ],
    ids=["cut", "short", "chunk missing", "unknown", "fill", "length", "header"],
)
def test_damaged_sparse_images_are_refused(made: bytes) -> None:
    with pytest.raises(ValueError, match="sparse image"):
        list(pieces(made))


def test_two_boards_of_one_address_are_refused(tmp_path: Path) -> None:
    try:
        with pytest.raises(BoardError, match="two has fastboot address 77, as one has"):
            lab.up({"one": BOARD, "two": BOARD}, tmp_path)
    finally:
        lab.down(tmp_path)
