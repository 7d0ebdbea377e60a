"""The serial adapter with a socket in place of a board's UART, and a tty used as labgrid uses it."""

import asyncio
import os
import socket
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import serial

from farm.virtual.serial import Pacer, SerialAdapter


@contextmanager
def adapter(tmp_path: Path, baud: int | None = None) -> Iterator[tuple[SerialAdapter, Path]]:
    made = SerialAdapter(tmp_path / "console", baud)
    try:
        yield made, tmp_path / "console"
    finally:
        made.close()


def plug_in(line: SerialAdapter) -> socket.socket:
    """Power on: the board's end of the UART."""
    ours, theirs = socket.socketpair()
    line.attach(theirs)
    return ours


async def in_thread(call, *words):
    return await asyncio.wait_for(asyncio.to_thread(call, *words), 30)


def read_exactly(fd: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += os.read(fd, 65536)
    return found


def recv_exactly(uart: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += uart.recv(65536)
    return found


def test_the_line_is_there_without_power_and_works_once_there_is(tmp_path: Path) -> None:
    async def scene() -> None:
        with adapter(tmp_path) as (line, console):
            # pyserial is what labgrid opens it with
            port = serial.Serial(str(console), baudrate=1500000, timeout=5, exclusive=True)
            port.write(b"lost\n")
            await asyncio.sleep(0.1)
            uart = plug_in(line)
            await in_thread(uart.sendall, b"U-Boot")
            assert await in_thread(port.read, 6) == b"U-Boot"
            await in_thread(port.write, b"\r")
            assert await in_thread(uart.recv, 100) == b"\r"
            line.detach()
            uart.close()
            uart = plug_in(line)
            await in_thread(uart.sendall, b"again")
            assert await in_thread(port.read, 5) == b"again"
            port.close()

    asyncio.run(scene())


def test_the_board_never_hears_its_own_words(tmp_path: Path) -> None:
    """A program that opens the tty before it turns echo off must not feed the boot text back into U-Boot."""

    async def scene() -> None:
        with adapter(tmp_path) as (line, console):
            uart = plug_in(line)
            slave = os.open(console, os.O_RDWR | os.O_NOCTTY)
            cooked = termios.tcgetattr(slave)
            cooked[3] |= termios.ECHO | termios.ICANON
            termios.tcsetattr(slave, termios.TCSANOW, cooked)
            uart.sendall(b"Hit any key to stop autoboot\n")
            await asyncio.sleep(0.3)
            uart.setblocking(False)
            with pytest.raises(BlockingIOError):
                uart.recv(1)
            tty.setraw(slave)
            assert await in_thread(read_exactly, slave, 29) == b"Hit any key to stop autoboot\n"
            os.close(slave)
            await asyncio.sleep(0.1)
            # the next one finds a raw line whatever the last one left
            slave = os.open(console, os.O_RDWR | os.O_NOCTTY)
            assert not termios.tcgetattr(slave)[3] & (termios.ECHO | termios.ICANON)
            os.close(slave)

    asyncio.run(scene())


def test_what_nobody_listens_to_is_lost_and_blocks_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        with adapter(tmp_path) as (line, console):
            uart = plug_in(line)
            await in_thread(uart.sendall, b"x" * 3_000_000 + b"!")
            await asyncio.sleep(0.2)
            slave = os.open(console, os.O_RDWR | os.O_NOCTTY)
            await asyncio.sleep(0.05)
            await in_thread(uart.sendall, b"now")
            assert await in_thread(read_exactly, slave, 3) == b"now"
            os.close(slave)

    asyncio.run(scene())


def test_a_slow_listener_loses_nothing_and_the_rate_is_high(tmp_path: Path) -> None:
    async def scene() -> None:
        with adapter(tmp_path) as (line, console):
            slave = os.open(console, os.O_RDWR | os.O_NOCTTY)
            uart = plug_in(line)
            text = os.urandom(1 << 20)
            sending = asyncio.create_task(asyncio.to_thread(uart.sendall, text))
            await asyncio.sleep(0.3)
            assert not sending.done(), "the board must wait while its listener does"
            began = time.monotonic()
            assert await in_thread(read_exactly, slave, len(text)) == text
            assert time.monotonic() - began < 1.0  # 1 MB/s on a busy machine; 10 and more on an idle one
            sending = asyncio.create_task(asyncio.to_thread(os.write, slave, text[:60000]))
            got = await in_thread(recv_exactly, uart, await sending)
            assert got == text[: len(got)]
            os.close(slave)

    asyncio.run(scene())


@pytest.mark.parametrize(("baud", "count"), [(115200, 11520), (1500000, 150000)])
def test_the_rate_is_kept_in_both_directions(tmp_path: Path, baud: int, count: int) -> None:
    """Ten bits a byte: 11520 bytes at 115200 baud take one second."""

    async def scene() -> None:
        with adapter(tmp_path, baud) as (line, console):
            slave = os.open(console, os.O_RDWR | os.O_NOCTTY)
            uart = plug_in(line)
            await asyncio.sleep(0.05)
            text = os.urandom(count)
            for send, receive in (
                ((uart.sendall, text), (read_exactly, slave, count)),
                ((write_all, slave, text), (recv_exactly, uart, count)),
            ):
                sending = asyncio.create_task(asyncio.to_thread(*send))
                began = time.monotonic()
                assert await in_thread(*receive) == text
                assert 0.93 < time.monotonic() - began < 1.5
                await sending
            os.close(slave)

    asyncio.run(scene())


def write_all(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]


def test_the_pacer_keeps_the_mean_and_saves_nothing_up() -> None:
    now = 100.0
    pacer = Pacer(9600, lambda: now)
    assert pacer.send(96) == pytest.approx(0.1)
    now += 0.1
    now += 0.01  # a late timer is caught up ...
    assert pacer.send(96) == pytest.approx(0.09)
    now += 60  # ... a pause is not
    assert pacer.send(96) == pytest.approx(0.1)
    assert Pacer(None, lambda: now).send(10**6) == 0.0


def test_closing_takes_the_tty_away(tmp_path: Path) -> None:
    async def scene() -> None:
        with adapter(tmp_path) as (_, console):
            assert console.exists()
        assert not console.is_symlink()

    asyncio.run(scene())
