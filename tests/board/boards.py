"""Real shells behind a pseudo terminal, and consoles that disturb what passes, for the tests of the batch."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

SHELLS: dict[str, list[str]] = {
    "ash": ["busybox", "ash", "-i"],
    "mksh": ["mksh", "-i"],
    "dash": ["dash", "-i"],
    "bash": ["bash", "--norc", "--noprofile", "-i"],
}
#: What the batch needs in any case; the digest, encoder and packers are the tests' to choose.
ALWAYS = ["cat", "grep", "head", "mkdir", "mv", "rm", "sleep", "tail", "wc", "sh"]


class PtyBoard:
    """An interactive shell on a terminal, as a board's console is: a Wire whose bytes can be watched."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        program = shutil.which(argv[0])
        assert program, f"{argv[0]} is not installed; make test installs it"
        pid, self.fd = os.forkpty()
        if pid == 0:
            os.execve(program, argv, env)
        self.pid = pid
        self.seen = bytearray()
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        self.sent += data
        while data:
            data = data[os.write(self.fd, data) :]

    def read(self, timeout: float) -> bytes:
        if not select.select([self.fd], [], [], timeout)[0]:
            return b""
        try:
            data = os.read(self.fd, 4096)
        except OSError:  # the shell has ended
            time.sleep(min(timeout, 0.05))
            return b""
        self.seen += data
        return data

    def expect(self, text: bytes, timeout: float = 10) -> None:
        """Read until text was seen since the last call."""
        start, deadline = len(self.seen), time.monotonic() + timeout
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, bytes(self.seen[start:])
            self.read(0.2)

    def ask(self, line: str) -> None:
        """Type a line and see that the shell at its prompt computes what it prints."""
        self.write(line.encode() + b"\n")

    def at_prompt(self) -> bool:
        """The shell evaluates what is typed."""
        self.ask("echo is-$((6*7))-here")
        self.expect(b"is-42-here")
        return True

    def close(self) -> None:
        os.close(self.fd)
        for number in (signal.SIGHUP, signal.SIGKILL):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.05)
        os.waitpid(self.pid, 0)


def tools_dir(path: Path, names: dict[str, str]) -> Path:
    """A directory of symlinks: name -> program, where `busybox` and `toybox` stand for the applet of that name."""
    path.mkdir()
    for name, program in names.items():
        target = shutil.which(program)
        assert target, f"{program} is not installed; make test installs it"
        (path / name).symlink_to(target)
    return path


class Disturbed:
    """A wire on which things happen to the bytes from the board, and to those towards it."""

    def __init__(
        self,
        board: PtyBoard,
        down: Callable[[bytes], bytes] = lambda data: data,
        up: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:
        self.board, self.down, self.up = board, down, up

    def write(self, data: bytes) -> None:
        self.board.write(self.up(data))

    def read(self, timeout: float) -> bytes:
        return self.down(self.board.read(timeout))


class Printk:
    """Kernel lines at random places, about one in `every` bytes."""

    LINE = b"[   12.345678] mmc0: Timeout waiting for hardware interrupt.\r\n"

    def __init__(self, seed: int, every: int) -> None:
        self.random, self.every, self.count = random.Random(seed), every, 0

    def __call__(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            out.append(byte)
            if self.random.random() * self.every < 1:
                self.count += 1
                out += self.LINE
        return bytes(out)
