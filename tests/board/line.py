"""A serial line that somebody has got hold of: bytes pass through, are looked at, and may be changed or added."""

from __future__ import annotations

import os
import pty
import re
import select
import threading
import tty
from pathlib import Path
from types import TracebackType

# the facts come in frames as well; only trials have numbers for names
_TRIAL_ENDED = re.compile(rb"@farm \d+/\d+ \d+ ")
_FRAME = re.compile(rb"@q\w{3} \d+ \d+ [!-~]{100,}")


class Tapped:
    """Stands between a board's console (a tty) and whoever opens `path`, from `with` to its end."""

    def __init__(self, console: Path) -> None:
        self.board = os.open(console, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.board)
        self.user, slave = pty.openpty()
        tty.setraw(slave)
        self.keep = slave  # open for good, so that the user may come and go
        self.path = os.ttyname(slave)
        #: How many frames of trials' results are still to be damaged, and how many were.
        self.damage, self.damaged = 0, 0
        #: Whether the user hears nothing of the board.
        self.mute = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._pass, daemon=True)

    def __enter__(self) -> Tapped:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(5)
        for fd in (self.board, self.user, self.keep):
            os.close(fd)

    def type(self, data: bytes) -> None:
        """Send bytes to the board beside what the user sends."""
        os.write(self.board, data)

    def _pass(self) -> None:
        line, results = b"", False
        while not self._end.is_set():
            for fd in select.select([self.board, self.user], [], [], 0.2)[0]:
                data = os.read(fd, 4096)
                if fd == self.user:
                    os.write(self.board, data)
                    continue
                if self.mute:
                    continue
                whole = line + data
                results = (results and self.damage > 0) or bool(self.damage and _TRIAL_ENDED.search(whole))
                found = _FRAME.search(whole) if self.damage and results else None
                if found and (at := found.end() - 1 - len(line)) >= 0:
                    # one byte of the payload becomes another one that may stand there as well
                    data = data[:at] + (b"A" if data[at : at + 1] != b"A" else b"B") + data[at + 1 :]
                    self.damage -= 1
                    self.damaged += 1
                line = whole.rpartition(b"\n")[2][-4096:]
                os.write(self.user, data)
