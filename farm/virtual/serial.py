"""A serial adapter: a tty that is there whether its board has power or not, with a rate that is kept."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import socket
import termios
import tty
from collections.abc import Callable
from pathlib import Path

_CHUNK = 16384
_SLICE = 0.005  # seconds of line time sent at once when a rate is kept
_LATE = 0.020  # a timer later than this is not made good by a burst
_LOOK = 0.010  # seconds between looks for somebody who opened the tty


class Pacer:
    """Keeps one direction of a line at `baud` bits per second: ten bits a byte (8N1)."""

    def __init__(self, baud: int | None, clock: Callable[[], float]) -> None:
        self._rate, self._clock, self._free_at = (baud or 0) / 10, clock, 0.0

    @property
    def slice(self) -> int:
        """Bytes to move at once."""
        return max(1, int(self._rate * _SLICE)) if self._rate else _CHUNK

    def send(self, count: int) -> float:
        """Account for `count` bytes on the line; seconds to wait before more may follow."""
        if not self._rate:
            return 0.0
        now = self._clock()
        # A little lateness of timers is caught up, so that the mean rate holds; idle time is not saved up.
        start = self._free_at if now - self._free_at < _LATE else now
        self._free_at = start + count / self._rate
        return max(0.0, self._free_at - now)


class SerialAdapter:
    """Joins a pty, found at the symlink `link`, with the board's UART (a stream socket) while there is one.

    While nobody has the tty open, what the board says is lost, as on a real line; while somebody has, nothing
    is: the board waits. Works on the running asyncio loop.
    """

    def __init__(self, link: Path, baud: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        tty.setraw(slave)
        name = os.ttyname(slave)
        os.close(slave)  # from here on the master reports a hang-up while nobody has the tty open
        self._poll = select.poll()
        self._poll.register(self._master, 0)
        self._open = False
        self._uart: socket.socket | None = None
        self._out_pacer, self._in_pacer = Pacer(baud, self._loop.time), Pacer(baud, self._loop.time)
        self._out = self._in = b""
        self._closed = False
        fresh = link.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(name)
        fresh.replace(link)
        self._look()

    def attach(self, uart: socket.socket) -> None:
        """Power came on: take over the UART's socket."""
        self.detach()
        uart.setblocking(False)
        self._uart = uart
        if not self._out:
            self._loop.add_reader(uart, self._board_speaks)

    def detach(self) -> None:
        """Power went off: what the UART had said is still delivered, what it had not heard is lost."""
        if self._uart is None:
            return
        self._loop.remove_reader(self._uart)
        self._loop.remove_writer(self._uart)
        self._uart.close()
        self._uart, self._in = None, b""
        self._listen()

    def close(self) -> None:
        """Take the adapter away, tty and symlink included."""
        self.detach()
        self._closed = True
        self._loop.remove_reader(self._master)
        self._loop.remove_writer(self._master)
        os.close(self._master)
        self._link.unlink(missing_ok=True)

    # Who has the tty open: a pty master shows a hang-up exactly while nobody has.

    def _somebody(self) -> bool:
        is_open = not any(event & select.POLLHUP for _, event in self._poll.poll(0))
        if is_open != self._open:
            self._open = is_open
            if is_open:
                self._listen()
            else:
                self._loop.remove_reader(self._master)
                self._loop.remove_writer(self._master)
                tty.setraw(self._master)  # what one user left must not echo the board's text back to it
                self._loop.call_later(_LOOK, self._look)
        return is_open

    def _look(self) -> None:
        """While nobody has the tty open no event tells that somebody opens it, so look now and then."""
        if not self._closed and not self._somebody():
            self._loop.call_later(_LOOK, self._look)

    def _raw(self) -> bool:
        """False in the window in which a program has opened the tty but still has it echo."""
        return not termios.tcgetattr(self._master)[3] & (termios.ECHO | termios.ICANON)

    # The board speaks.

    def _board_speaks(self) -> None:
        uart = self._uart
        if uart is None:
            return
        try:
            self._out = uart.recv(self._out_pacer.slice)
        except BlockingIOError:
            return
        except OSError:
            self._out = b""
        self._loop.remove_reader(uart)
        if self._out:
            self._deliver()

    def _deliver(self, paced: bool = False) -> None:
        if self._closed:
            return
        if not paced and (wait := self._out_pacer.send(len(self._out))) > 0:
            self._loop.call_later(wait, self._deliver, True)
            return
        self._loop.remove_writer(self._master)
        if not self._somebody():
            self._out = b""
        elif not self._raw():
            self._loop.call_later(0.002, self._deliver, True)
            return
        else:
            try:
                self._out = self._out[os.write(self._master, self._out) :]
            except BlockingIOError:
                pass
            except OSError:
                self._out = b""
            if self._out:
                self._loop.add_writer(self._master, self._deliver, True)
                return
        if self._uart is not None:
            self._loop.add_reader(self._uart, self._board_speaks)

    # The user speaks.

    def _listen(self) -> None:
        if self._open and not self._closed and not self._in:
            self._loop.add_reader(self._master, self._user_speaks)

    def _user_speaks(self) -> None:
        try:
            self._in = os.read(self._master, self._in_pacer.slice)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last user closed it
            self._somebody()
            return
        self._loop.remove_reader(self._master)
        if wait := self._in_pacer.send(len(self._in)):
            self._loop.call_later(wait, self._hand_on)
        else:
            self._hand_on()

    def _hand_on(self) -> None:
        if self._closed:
            return
        if self._uart is not None:
            self._loop.remove_writer(self._uart)
            try:
                self._in = self._in[self._uart.send(self._in) :]
            except BlockingIOError:
                pass
            except OSError:
                self._in = b""
            if self._in:
                self._loop.add_writer(self._uart, self._hand_on)
                return
        self._in = b""
        self._listen()
