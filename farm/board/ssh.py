"""The board's shell over SSH, for a batch that would take long on the serial line; serial is always enough.

The env's NetworkService and labgrid's SSHDriver say where and how. The driver itself is not activated: its control
connection sends something every 15 seconds, which a trial must not meet, waits a minute for a board that died, and may ask
a person for a password. Instead the same ssh program runs `ssh -tt` to a shell, on whose terminal a batch is what it is
on a console.

The console stays the board's witness: it is read all the time, so that its log is whole, and a panic or a restart raises
BoardDied as ever. Where no connection comes about, `connect` says why, and the batch goes over serial. A connection that
breaks under a batch raises BoardError: the board's sshd then ends the batch, so what it measured is gone, none of it
counts, and the boot fails as one whose serial line is lost does.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from farm.board.batch import capture
from farm.board.console import ConsoleWire
from farm.complaint import shown
from farm.errors import BoardError, UserError

# Which boot of which board this is, and who is asking.
_WHO = 'read -r b </proc/sys/kernel/random/boot_id;echo "$b $(id -u)"'
_IS_WHO = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} \d{1,10}")
# How long the console may wait to be read: at 1500000 baud these are 30 kB, half of what a tty keeps.
_SLICE_S = 0.2
_PAUSE_S = 0.5
# A board that restarts closes its connections first and says so on the console later.
_LAST_WORDS_S = 3.0
_NOT_CONNECTED = 255  # ssh's own exit status; any other is of what it was to run

_OPTIONS = {
    "LogLevel": "ERROR",
    "StrictHostKeyChecking": "no",  # boards have another host key after each flash; the boot is proven instead
    "UserKnownHostsFile": "/dev/null",
    "GlobalKnownHostsFile": "/dev/null",
    "ControlMaster": "no",
    "ControlPath": "none",
    # Nothing may cross the network while the board measures. OpenSSH 9.5 and later type for show behind each keystroke;
    # earlier ones do not know how not to.
    "ServerAliveInterval": "0",
    "TCPKeepAlive": "no",
    "IgnoreUnknown": "ObscureKeystrokeTiming",
    "ObscureKeystrokeTiming": "no",
}


class NoSsh(Exception):
    """Why the board's shell cannot be had over SSH, as part of a sentence."""


def check(driver: Any, file: Path, key: str) -> None:
    """Raises UserError for what no connection can be made with, which else would cost each boot its patience."""
    service = driver.networkservice
    for name, right, wanted in (
        ("address", re.fullmatch(r"[^\s-]\S*", service.address), "a host's name or address"),
        ("port", type(service.port) is int and 0 < service.port < 65536, "a number from 1 to 65535"),
    ):
        if not right:
            said = f"{shown(getattr(service, name))} is not {wanted}"
            raise UserError(said, file=file, key=f"{key}.NetworkService.{name}")
    if driver.keyfile and not Path(_keyfile(driver)).is_file():
        said = f"there is no file {_keyfile(driver)}; give the path of a private key"
        raise UserError(said, file=file, key=f"{key}.SSHDriver.keyfile")


def connect(driver: Any, serial: ConsoleWire, timeout_s: float) -> SshWire:
    """A shell of the board at this console, by way of a labgrid SSHDriver; close the wire in the end.

    The board is asked over serial which boot it is in and for its PATH, within `timeout_s`. The shell on the other side
    has to be in that boot and of that user, and gets that PATH; nothing is typed before. Tries again until the driver's
    `connection_timeout`, since a network may come up later than a prompt.

    Raises NoSsh, and BoardError where the console fails; BoardDied as its watch says.
    """
    here, _, rest = (
        capture(serial, f'{_WHO}\necho "$PATH"', timeout_s).decode("utf-8", "replace").partition("\n")
    )
    path = rest.removesuffix("\n")
    if not _IS_WHO.fullmatch(here) or not path.isprintable():
        raise NoSsh("the board does not say on its console which boot it is in")
    key = f"@{secrets.token_hex(8)}"
    command = f"PATH={shlex.quote(path)};export PATH;echo {key} $({_WHO});exec sh"
    end = time.monotonic() + driver.connection_timeout
    with _password(driver._get_password()) as secret:
        while True:
            wire = SshWire(argv(driver, command, end - time.monotonic()), secret, serial)
            try:
                there = wire.greeting(key, end)
                if there == here:
                    return wire
                status, reason = wire.said()
            except BaseException:
                wire.close()
                raise
            wire.close()
            place = f"{driver._get_username()}@{driver.networkservice.address}:{driver.networkservice.port}"
            if there:
                raise NoSsh(
                    f"{place} is not this board: boot and user are {there!r} there, {here!r} on the console"
                )
            last = time.monotonic() + _PAUSE_S > end
            if last or status not in (None, _NOT_CONNECTED) or "Permission denied" in reason:
                raise NoSsh(f"no shell at {place}: {reason}")
            _listen(serial, _PAUSE_S)


def argv(driver: Any, command: str, seconds: float) -> list[str]:
    """What runs `command` on a terminal of the board; `seconds` are for the connection.

    It asks nobody anything, reads no configuration of the user's and writes none.
    """
    options = {**_OPTIONS, "ConnectTimeout": str(max(1, round(seconds)))}
    if driver._get_password() is None:
        options["BatchMode"] = "yes"
    else:
        options["NumberOfPasswordPrompts"] = "1"
    key: list[str] = []
    if driver.keyfile:
        key = ["-i", _keyfile(driver)]
        options["IdentitiesOnly"] = "yes"
    return [
        # killed by the kernel when this process ends, however that ends
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *(driver._ssh, "-F", "none", "-tt", "-x", "-e", "none", *key),
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        *("-p", str(driver.networkservice.port), "-l", driver._get_username()),
        *("--", driver.networkservice.address, command),
    ]


def _keyfile(driver: Any) -> str:
    env = driver.target.env
    return str(env.config.resolve_path(driver.keyfile) if env else driver.keyfile)


@contextmanager
def _password(password: str | None) -> Iterator[dict[str, str]]:
    """Variables with which ssh is told the password by a program, and by nobody else; no file holds it."""
    if password is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="farm-ssh-") as folder:
        program = Path(folder) / "askpass"
        program.write_text("#!/bin/sh\nprintf '%s\\n' \"$FARM_SSH_PASSWORD\"\n")
        program.chmod(0o700)
        yield {
            "FARM_SSH_PASSWORD": password,
            "SSH_ASKPASS": str(program),
            "SSH_ASKPASS_REQUIRE": "force",
            "DISPLAY": ":",  # without one, older versions ask no program
        }


def _listen(serial: ConsoleWire, seconds: float) -> None:
    """Read the console for a while, whatever it says. Raises BoardDied as its watch says, BoardError for a lost line."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        serial.read(left)


class SshWire:
    """A shell on a terminal of the board as the batch sees it, with the console listened to meanwhile."""

    def __init__(self, argv: list[str], secret: Mapping[str, str], serial: ConsoleWire) -> None:
        self._serial = serial
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        try:
            self._ssh = subprocess.Popen(
                argv,
                env={**os.environ, "TERM": "dumb", **secret},
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # without a terminal nothing can be asked on it
            )
        except OSError as problem:
            self._errors.close()
            raise NoSsh(f"{argv[0]} cannot be run ({problem.strerror})") from None
        self._ended = False

    def write(self, data: bytes) -> None:
        """Send bytes to the board. Raises BoardError where the connection is broken."""
        assert self._ssh.stdin is not None
        try:
            self._ssh.stdin.write(data)
        except OSError:
            raise self._broken() from None

    def read(self, timeout: float) -> bytes:
        """What has arrived within `timeout` seconds, or nothing. Raises BoardDied as the console's watch says, and
        BoardError where the connection is broken."""
        data = self._take(timeout)
        if self._ended:
            raise self._broken()
        return data

    def close(self) -> None:
        """End the connection; what the board runs on it gets a SIGHUP."""
        self._ssh.kill()
        self._ssh.wait()
        for file in (self._ssh.stdin, self._ssh.stdout, self._errors):
            assert file is not None
            file.close()

    def greeting(self, key: str, end: float) -> str:
        """What the board's shell says behind `key`; nothing where it has not by `end` or the connection failed."""
        seen = b""
        pattern = re.compile(re.escape(key.encode()) + rb" ([^\r\n]*)[\r\n]")
        while not self._ended and (left := end - time.monotonic()) > 0:
            seen = (seen + self._take(left))[-65536:]
            if found := pattern.search(seen):
                return found[1].decode("utf-8", "replace")[:100]
        return ""

    def said(self) -> tuple[int | None, str]:
        """The exit status of ssh, None while it runs, and what it complained of."""
        status = None
        if self._ended:
            with suppress(subprocess.TimeoutExpired):
                status = self._ssh.wait(2)
        self._errors.seek(0)
        text = self._errors.read(4096).decode("utf-8", "replace")
        lines = ["".join(filter(str.isprintable, line))[:200] for line in text.splitlines() if line.strip()]
        return status, lines[-1] if lines else "ssh ended without a word" if self._ended else "no answer"

    def _take(self, timeout: float) -> bytes:
        assert self._ssh.stdout is not None
        end = time.monotonic() + timeout
        while True:
            # a console that babbles must not keep what was measured waiting
            until = time.monotonic() + _SLICE_S
            while self._serial.read(0.0) and time.monotonic() < until:
                pass
            left = max(0.0, end - time.monotonic())
            if select.select([self._ssh.stdout], [], [], min(left, _SLICE_S))[0]:
                data = self._ssh.stdout.read(65536)
                self._ended = not data
                return data
            if left <= 0:
                return b""

    def _broken(self) -> BoardError:
        """Why the connection broke. Raises BoardDied instead where the console says that the board died of it."""
        self._ended = True
        _listen(self._serial, _LAST_WORDS_S)
        self._ssh.kill()
        watch = self._serial.console.watch
        return BoardError(
            f"the SSH connection broke ({self.said()[1]})",
            step="ssh",
            tail=tuple(watch.tail)[-10:],
            log=watch.log_path,
        )
