"""The console, watched: every byte logged, a dying board noticed while anybody waits for something else."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import attr
import serial
from labgrid.driver import SerialDriver
from labgrid.factory import target_factory
from pexpect import TIMEOUT

from farm.errors import BoardError
from farm.parse.dmesg import FATAL, Event, event_of

TAIL_LINES = 100
# How long to go on reading behind a fatal line, so that the trace is kept; well below the 5 seconds in which
# a death has to be noticed.
_AFTERMATH_S = 1.5

# What is only seen when a board starts; seen while a shell was up, the board restarted by itself.
_RESTART = re.compile(
    r"^(?:U-Boot (?:SPL |TPL )?\d{4}\.\d\d|DDR V\d|BL31: |\[ +0\.000000\] Booting Linux|OpenSBI v\d)"
)
RESTART, WATCHDOG_RESET = "unexpected restart", "watchdog reset"
# Bootloaders say why they run: U-Boot's print_cpuinfo and reset drivers, Rockchip's and MediaTek's loaders.
_WATCHDOG = re.compile(
    r"\b(?:reset|boot|wakeup)[ _]?(?:cause|reason|status|source)?\b.{0,20}\b(?:wdt|wdog|watchdog)\b"
    r"|\bwatchdog reset\b",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class BoardDied(BoardError):
    """The console said that the board died or restarted. `kind` is a name of `FATAL`, RESTART or WATCHDOG_RESET."""

    def __init__(self, kind: str, line: str, tail: tuple[str, ...], log: Path | None) -> None:
        super().__init__(f"{kind}: {line}", step="console", tail=tail, log=log)
        self.kind, self.line = kind, line


@dataclass
class Trouble:
    """What the kernel said went wrong without dying of it: the first line of a kind, how many, and the lines before."""

    kind: str
    line: str
    tail: tuple[str, ...]
    count: int = 1


class Watch:
    """Splits console bytes into lines, keeps the last of them, logs all, and recognises a dying board.

    `troubles` are what else the kernel complained of since `log_to`, by kind: MMC errors that the board survives.
    The log gets every byte as it came; lines for people have control characters removed.
    """

    def __init__(self) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.expect_restart = True
        self.bytes_read = 0
        self.log_path: Path | None = None
        self.troubles: dict[str, Trouble] = {}
        self._log: IO[bytes] | None = None
        self._partial = b""
        self._fatal: tuple[str, str] | None = None
        self._fatal_at = 0.0

    def log_to(self, path: Path | None) -> None:
        """Start a new log file (the directory is made), or none."""
        if self._log:
            self._log.close()
        self._log, self.log_path, self.troubles = None, path, {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._log = path.open("ab", buffering=0)

    def forget(self) -> None:
        """A new life of the board begins: what the last one said is no longer held against it."""
        self._fatal, self._partial = None, b""
        self.expect_restart = True

    def feed(self, data: bytes) -> None:
        """Take bytes that were read from the console."""
        self.bytes_read += len(data)
        if self._log:
            self._log.write(data)
        # bounded: a board that never sends a newline must not fill the memory
        *lines, self._partial = (self._partial[-65536:] + data).split(b"\n")
        for raw in lines:
            line = _CONTROL.sub("", raw.decode("utf-8", "replace")).rstrip()
            if not line:
                continue
            self.tail.append(line[:500])
            self._look(line)

    def _look(self, line: str) -> None:
        if self._fatal:
            if self._fatal[0] == RESTART and _WATCHDOG.search(line):
                self._fatal = (WATCHDOG_RESET, line[:300])
            return
        if event := event_of(line):
            self._note(event, line)
        elif not self.expect_restart and _RESTART.search(line):
            self._die(RESTART, line)

    def _note(self, event: Event, line: str) -> None:
        if event.kind == "watchdog" and self.expect_restart:
            return  # a bootloader that tells of an earlier life
        if event.is_fatal:
            self._die(FATAL[event.kind], line)
        elif event.kind in self.troubles:
            self.troubles[event.kind].count += 1
        elif not event.is_state:
            self.troubles[event.kind] = Trouble(event.kind, line[:300], tuple(self.tail))

    def _die(self, kind: str, line: str) -> None:
        self._fatal, self._fatal_at = (kind, line[:300]), time.monotonic()

    def check(self) -> None:
        """Raises BoardDied once a fatal line was seen and its trace had time to arrive."""
        if self._fatal and time.monotonic() - self._fatal_at >= _AFTERMATH_S:
            kind, line = self._fatal
            self._fatal = None
            raise BoardDied(kind, line, tuple(self.tail), self.log_path)

    @property
    def dying(self) -> bool:
        """A fatal line was seen and `check` has not raised yet."""
        return self._fatal is not None


@target_factory.reg_driver
@attr.s(eq=False)
class WatchedSerialDriver(SerialDriver):  # type: ignore[misc]
    """labgrid's SerialDriver with a Watch on what it reads; use it in its place in an env file."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.watch = Watch()

    def _read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes:
        deadline = time.monotonic() + timeout
        while True:
            self.watch.check()
            # in slices, so that a fatal line is acted on however long the caller meant to wait
            left = 0.2 if self.watch.dying else min(0.5, max(0.0, deadline - time.monotonic()))
            try:
                data: bytes = super()._read(size, left, max_size)
            except TIMEOUT:
                if time.monotonic() >= deadline and not self.watch.dying:
                    raise
                continue
            except (serial.SerialException, OSError) as problem:
                raise BoardError(
                    f"the serial line is gone ({problem})",
                    step="console",
                    tail=tuple(self.watch.tail)[-10:],
                    log=self.watch.log_path,
                ) from None
            self.watch.feed(data)
            return data

    def _write(self, data: bytes) -> int:
        try:
            written: int = super()._write(data)
        except (serial.SerialException, OSError) as problem:
            raise BoardError(
                f"the serial line is gone ({problem})", step="console", log=self.watch.log_path
            ) from None
        return written

    def on_deactivate(self) -> None:
        super().on_deactivate()
        # bytes that pexpect buffered belong to a life of the board that is over
        self._expect.buffer = self._expect.string_type()
        self._expect._before = self._expect.buffer_type()


class ConsoleWire:
    """A console as the batch sees it: bytes out, bytes in, nothing parsed."""

    def __init__(self, console: WatchedSerialDriver) -> None:
        self.console = console

    def write(self, data: bytes) -> None:
        """Send bytes to the board."""
        self.console.write(data)

    def read(self, timeout: float) -> bytes:
        """What has arrived within `timeout` seconds, or nothing. Raises BoardDied as the watch says."""
        expect = self.console._expect
        if kept := bytes(expect.buffer):
            expect.buffer = expect.string_type()
            return kept
        try:
            return bytes(self.console.read(size=1, timeout=timeout))
        except TIMEOUT:
            return b""
