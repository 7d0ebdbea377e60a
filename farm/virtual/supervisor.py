"""The lab process: it holds the power strip, the serial adapters and the QEMU of each board that has power.

Run as `python -m farm.virtual.supervisor HOME`; writes one line `ready` or the reason of its failure to standard
output. Lives until SIGTERM. Its children die with it, however it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from farm.errors import FarmError
from farm.lock import taken
from farm.mortal import die_with
from farm.virtual import disk, fastboot
from farm.virtual.fastboot import FastbootStandIn
from farm.virtual.machine import QMP_SOCKET, TFTP_DIR, VirtualBoard, qemu_argv
from farm.virtual.power import PowerStrip
from farm.virtual.serial import SerialAdapter
from farm.virtual.state import CONTROL_SOCKET, HELD, LOCK_FILE, LabState, lab_directory, start_time

log = logging.getLogger("lab")

_LONGEST_REQUEST = 1 << 20


class Unit:
    """One board of the lab: its files, its serial adapter, and its QEMU while it has power."""

    def __init__(self, name: str, board: VirtualBoard, directory: Path, network: str) -> None:
        self.name, self.board, self.directory = name, board, directory
        self._network = network
        directory.mkdir(parents=True, exist_ok=True)
        (directory / TFTP_DIR).mkdir(exist_ok=True)
        disk.prepare(directory, board)
        self._serial = SerialAdapter(directory / "console", board.baud)
        self._qemu: subprocess.Popen[bytes] | None = None
        self._exited = asyncio.Event()
        self._lock = asyncio.Lock()
        self._powered = False
        self._fastboot: FastbootStandIn | None = None
        if board.fastboot:
            address = f"{network}.{board.fastboot.address}"
            self._fastboot = FastbootStandIn(board.fastboot, directory, address, self._restart)
        self.died = ""

    @property
    def powered(self) -> bool:
        """What the power strip says: whether the outlet is on, not whether the board lives."""
        return self._powered

    @property
    def qemu_pid(self) -> int | None:
        """Process id of the board's QEMU while it runs."""
        return self._qemu.pid if self._qemu else None

    async def switch(self, on: bool) -> None:
        """Switch the outlet and return when it is done. Raises OSError when QEMU cannot be started."""
        async with self._lock:
            if on and not self._powered:
                await self._power_up()
            elif not on:
                await self._kill()
            self._powered = on

    async def _restart(self) -> None:
        """What fastboot's `reboot` does: the outlet stays on."""
        async with self._lock:
            if self._powered:
                await self._kill()
                await self._power_up()

    async def _power_up(self) -> None:
        if self._fastboot:
            await self._fastboot.start()
        try:
            self._start()
        except OSError:
            if self._fastboot:
                self._fastboot.stop()
            raise

    async def close(self) -> None:
        """Cut the power and take the serial line away."""
        await self.switch(False)
        self._serial.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._exited.clear()
        with theirs, (self.directory / "qemu.err").open("wb") as errors:
            try:
                qemu = subprocess.Popen(  # one thread, so the hook below is safe
                    qemu_argv(self.board, theirs.fileno(), self._network),
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(theirs.fileno(),),
                    preexec_fn=die_with(os.getpid()),
                )
            except OSError:
                ours.close()
                raise
        self._qemu, self._cutting, self.died = qemu, False, ""
        self._serial.attach(ours)
        pidfd = os.pidfd_open(qemu.pid)
        asyncio.get_running_loop().add_reader(pidfd, self._reap, qemu, pidfd)
        log.info("%s: power on, qemu pid %d", self.name, qemu.pid)

    def _reap(self, qemu: subprocess.Popen[bytes], pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        code = qemu.wait()
        if self._qemu is qemu:
            self._qemu = None
            self._serial.detach()
            if self._fastboot:
                self._fastboot.stop()
        self._exited.set()
        with contextlib.suppress(OSError):
            (self.directory / QMP_SOCKET).unlink()
        said = (self.directory / "qemu.err").read_text(errors="replace").strip().splitlines()
        if self._cutting:
            log.info("%s: power off", self.name)
            return
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self.died = "; ".join([f"qemu ended by itself with {reason}", *said[-3:]])
        log.warning("%s: %s (pid %d)", self.name, self.died, qemu.pid)

    async def _kill(self) -> None:
        self._cutting, self.died = True, ""
        if self._qemu:
            self._qemu.kill()
            await self._exited.wait()


class Supervisor:
    """All units of one lab directory, and the socket through which boards are added."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._units: dict[str, Unit] = {}
        self._pdu = self._network = ""

    async def run(self, say_ready: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT."""
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
        strip = PowerStrip(self._units)
        self._pdu = await strip.start()
        # held until the end, so that no other lab takes the same network
        self._network, held = _network()
        with contextlib.suppress(OSError):
            Path(CONTROL_SOCKET).unlink()
        control = await asyncio.start_unix_server(self._control, CONTROL_SOCKET, limit=_LONGEST_REQUEST)
        self._write_state()
        log.info("lab pid %d serves %s", os.getpid(), self._pdu)
        say_ready()
        await end.wait()
        control.close()
        strip.close()
        for unit in self._units.values():
            await unit.close()
        with contextlib.suppress(OSError):
            Path(CONTROL_SOCKET).unlink()
        held.close()
        LabState.remove(self._directory)
        log.info("lab pid %d ends", os.getpid())

    def _write_state(self) -> None:
        LabState(
            pid=os.getpid(),
            started=start_time(os.getpid()) or 0,
            pdu=self._pdu,
            network=self._network,
            boards={name: unit.board for name, unit in self._units.items()},
        ).write(self._directory)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One JSON line in, one out: {"add": {name: board}}."""
        try:
            request = json.loads(await reader.readline())
            for name, fields in request.get("add", {}).items():
                await self._add(name, VirtualBoard.model_validate(fields))
            self._write_state()
            answer: dict[str, object] = {
                "boards": {
                    name: {"powered": unit.powered, "qemu_pid": unit.qemu_pid, "died": unit.died}
                    for name, unit in self._units.items()
                }
            }
        except (FarmError, OSError, ValueError, ValidationError) as error:
            log.warning("request refused: %s", error)
            answer = {"error": str(error)}
        with contextlib.suppress(OSError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _add(self, name: str, board: VirtualBoard) -> None:
        there = self._units.get(name)
        if there is not None:
            if there.board == board:
                return
            if there.powered:
                raise FarmError(
                    f"{name}: the board has power and its virtual block has changed; end the lab with: farm virtual down"
                )
            await there.close()
            del self._units[name]
        for other, unit in self._units.items():
            for what, address in board.addresses.items():
                if address == unit.board.addresses.get(what):
                    raise FarmError(f"{name} has {what} address {address}, as {other} has; give it another")
        self._units[name] = Unit(name, board, self._directory / name, self._network)
        log.info("%s: added", name)


def _network() -> tuple[str, socket.socket]:
    """The first three numbers of a loopback network (127.A.B) that no other lab has, and what keeps it ours.

    Raises OSError where none is to be had.
    """
    for left in range(100, 0, -1):
        network = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}"  # noqa: S311 - no secret
        held = socket.socket()
        try:
            held.bind((f"{network}.1", fastboot.PORT))
            held.listen()
            return network, held
        except OSError:
            held.close()
            if left == 1:
                raise
    raise AssertionError


def main(argv: list[str]) -> int:
    """Run the lab of the home directory `argv[1]`."""
    directory = lab_directory(Path(argv[1]))
    directory.mkdir(parents=True, exist_ok=True)
    if os.fork():  # whoever started the lab is not its parent, and gets no zombie when it ends
        os._exit(0)
    os.chdir(directory)  # unix sockets are named relative to it: their paths may have 107 bytes only
    lock = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not taken(lock):
        print(HELD, flush=True)
        return 1
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        filename="lab.log",
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03dZ %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )

    def say_ready() -> None:
        print("ready", flush=True)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)

    try:
        asyncio.run(Supervisor(directory).run(say_ready))
    except OSError as error:
        log.exception("the lab failed")
        print(f"the lab cannot start: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
