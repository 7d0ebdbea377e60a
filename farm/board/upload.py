"""Getting a shell script onto a board through its interactive shell, over a console that loses and adds bytes.

A short line typed at the prompt turns the echo off and reads a loader; the loader says what the board has, then takes
the script in chunks and answers each with the length it has so far. What is wrong is taken back and sent again in
smaller chunks. The script runs only when its digest is right. All of it lives in one subshell without a file.
"""

from __future__ import annotations

import base64
import gzip
import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from farm.board.frames import DIGESTS, ENCODERS, digest
from farm.errors import BoardError

_T = TypeVar("_T")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[^ -~]")
_TOOLS = ("gzip", "sh", *DIGESTS, *ENCODERS)

#: Bytes of a chunk: far below the 4095 bytes of a terminal line, and what a UART without flow control may survive.
CHUNK = 512
_SMALLEST_CHUNK = 32
_LONGEST_LINE = 4 << 20

_LOADER = (
    "set +efuC;unalias -a;m={marker};t=;"
    "for c in {tools};do command -v $c >/dev/null&&t=$t.$c;done;"
    'echo "@$m t$t. $(sha256sum <{path})";s=;'
    "while read -r a l;do case $a in "
    '+)p=$s;s=$s$l;;-)s=$p;;0)s= p=;;x)eval "$l";;'
    'esac;echo "@$m ${{#s}}";done'
)


class Wire(Protocol):
    """A console: bytes out, bytes in, nothing parsed."""

    def write(self, data: bytes) -> None:
        """Send all of data."""

    def read(self, timeout: float) -> bytes:
        """What has arrived; nothing when nothing came within timeout seconds. May raise BoardError."""


class Lines:
    """A wire as lines that belong to one marker, with the bytes of both directions counted."""

    #: Seconds of silence after which an answer is taken for lost.
    patience = 3.0

    def __init__(self, wire: Wire, marker: str) -> None:
        self.wire, self.marker = wire, marker
        self.up = self.down = 0
        self.quiet_since = time.monotonic()
        self.tail: deque[bytes] = deque(maxlen=8)
        self._key = f"@{marker}".encode()
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()

    def send(self, line: str) -> None:
        """Send a line of printable ASCII."""
        data = line.encode("ascii") + b"\n"
        self.up += len(data)
        self.wire.write(data)

    def interrupt(self) -> None:
        """Send Ctrl-C."""
        self.up += 1
        self.wire.write(b"\x03")

    def next(self, timeout: float) -> bytes | None:
        """The next line of the console, without its end; None when none was complete after timeout seconds."""
        deadline = time.monotonic() + timeout
        while not self._lines:
            data = self.wire.read(max(0.0, deadline - time.monotonic()))
            if data:
                self._feed(data)
            elif time.monotonic() >= deadline:
                return None
        return self._lines.popleft()

    def put_back(self, text: bytes) -> None:
        """Have one of our lines read again."""
        self._lines.appendleft(self._key + b" " + text)

    def _feed(self, data: bytes) -> None:
        self.down += len(data)
        self.quiet_since = time.monotonic()
        if b"\n" not in data and b"\r" not in data:
            self._partial += data
            if len(self._partial) > _LONGEST_LINE:
                self._partial.clear()
            return
        *lines, rest = re.split(rb"[\r\n]", bytes(self._partial) + data)
        self._partial = bytearray(rest)
        for line in filter(None, lines):
            self._lines.append(line)
            self.tail.append(line[-300:])

    def ours(self, line: bytes) -> bytes | None:
        """What stands behind the marker, wherever in the line it is; None for lines of others."""
        _before, key, text = line.rpartition(self._key)
        return text.removeprefix(b" ") if key else None

    def wait(self, match: Callable[[bytes], _T | None], timeout: float) -> _T | None:
        """What match makes of the first of our lines that it accepts within timeout seconds."""
        deadline = time.monotonic() + timeout
        while (line := self.next(max(0.0, deadline - time.monotonic()))) is not None:
            text = self.ours(line)
            if text is not None and (found := match(text)) is not None:
                return found
        return None

    def error(self, reason: str, step: str = "batch") -> BoardError:
        """A BoardError with the last lines of the console."""
        tail = tuple(_CONTROL.sub("", line.decode("utf-8", "replace"))[:160] for line in self.tail)
        return BoardError(reason, step=step, tail=tail)


def new_marker() -> str:
    """Four characters that no other line on the console starts with."""
    return "q" + secrets.token_hex(2)[:3]


def regain(lines: Lines, patience: float) -> bool:
    """Interrupt whatever runs and wait for the shell to answer; False when it does not within patience seconds."""
    deadline = time.monotonic() + patience
    lines.interrupt()
    settle = 0.3
    while time.monotonic() < deadline:
        # A Ctrl-C throws away what was typed behind it, so it is given time to act.
        lines.wait(lambda text: True if text == b"bye" else None, settle)
        probe = new_marker()
        lines.send(f' stty echo 2>/dev/null;echo "@""{probe}"')
        until = time.monotonic() + lines.patience
        while (line := lines.next(max(0.0, until - time.monotonic()))) is not None:
            if line.endswith(f"@{probe}".encode()):
                return True
        lines.interrupt()
        settle = 1.0
    return False


def open_loader(lines: Lines, path: str) -> tuple[frozenset[str], str]:
    """Start the loader at the shell's prompt; returns which tools the board has and the SHA-256 of the file at path.

    Raises BoardError.
    """
    loader = _LOADER.format(marker=lines.marker, tools=" ".join(_TOOLS), path=path)
    typed = (
        f' (stty -echo;echo "@""{lines.marker}";read -r l;[ ${{#l}} = {len(loader)} ]&&eval "$l")2>/dev/null'
    )
    pattern = re.compile(rf"t((?:\.(?:{'|'.join(_TOOLS)}))*)\. ([0-9a-f]{{64}})?.*".encode())

    def answer(text: bytes) -> tuple[frozenset[str], str] | None:
        found = pattern.fullmatch(text)
        return (frozenset(found[1].decode().split(".")[1:]), (found[2] or b"").decode()) if found else None

    for attempt in range(4):
        if attempt and not regain(lines, 20):
            break
        lines.send(typed)
        if lines.wait(lambda text: True if text == b"" else None, 2 * lines.patience) is None:
            continue
        lines.send(loader)
        if (found := lines.wait(answer, 3 * lines.patience)) is not None:
            return found
    raise lines.error("the board's shell does not answer", "upload")


def plain(text: str) -> list[str]:
    """Text as what printf %b turns back into it: printable ASCII without a space, in pieces not to be cut."""
    named = {"\n": "\\n", "\\": "\\\\"}
    return [
        named.get(char)
        or (char if "!" <= char <= "~" else "".join(f"\\0{byte:03o}" for byte in char.encode()))
        for char in text
    ]


def start(
    lines: Lines,
    path: str,
    runtime: Callable[[frozenset[str]], str],
    script: str,
    ready: Callable[[], object] = lambda: None,
) -> frozenset[str]:
    """Start script, which says `go`, behind a runtime of functions; returns which tools the board has.

    `ready` is called when all of it is on the board, right before it starts, and may take its time. The runtime for the
    board's tools is sent only when the file at path on the board is not it already. Raises BoardError.
    """
    tools, kept = open_loader(lines, path)
    for what, names in (("checked", DIGESTS), ("fetched", ENCODERS)):
        if not tools.intersection(names):
            raise lines.error(f"the board has none of {', '.join(names)}: nothing could be {what}", "upload")
    text = runtime(tools)
    if kept == digest(text.encode() + b"\n", "sha256sum"):
        script = f". {path}\n{script}"
    else:
        _transfer(lines, text, f's={{unpacked}};echo "$s">{path};eval "$s";s=', tools)
    _transfer(lines, script, 'eval "{unpacked}"', tools, ready)
    return tools


def _transfer(
    lines: Lines,
    script: str,
    use: str,
    tools: frozenset[str],
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Send script and, when `ready` returns, have it used; with gzip and base64 on the board it goes up compressed.

    Raises BoardError.
    """
    if "base64" in tools:
        packed = gzip.compress(script.encode(), 9, mtime=0) if "gzip" in tools else script.encode()
        pieces = list(base64.b64encode(packed).decode())
        show, unpack = 'echo "$s"', 'echo "$s"|base64 -d' + ("|gzip -dc" if "gzip" in tools else "")
    else:
        pieces = plain(script)
        show, unpack = "printf '%s\\n' \"$s\"", 'printf %b "$s"'
    tool = next(name for name in DIGESTS if name in tools)
    # The first 16 characters are enough for an accident.
    wanted = digest("".join(pieces).encode() + b"\n", tool)[:16]
    line = f"x case $({show}|{tool}) in {wanted}*){use.format(unpacked=f'$({unpack})')};;esac"
    size = CHUNK
    for attempt in range(4):
        size = _send(lines, pieces, size)
        if attempt == 0:
            ready()
        if _use(lines, line):
            return
        size = max(_SMALLEST_CHUNK, size // 4)
        lines.send("0")
        lines.wait(_length, lines.patience)
    raise lines.error("the script arrives damaged, however small the chunks", "upload")


def _length(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) < 8 else None


def _send(lines: Lines, pieces: list[str], size: int) -> int:
    """Send all pieces in chunks of at most size; returns the size that worked in the end."""
    at = length = failures = 0
    while at < len(pieces):
        end, chunk = at, ""
        while end < len(pieces) and len(chunk) + len(pieces[end]) <= max(size, len(pieces[at])):
            chunk += pieces[end]
            end += 1
        lines.send(f"+ {chunk}")
        # at 9600 baud a byte takes a millisecond
        reached = lines.wait(_length, lines.patience + len(chunk) / 500)
        while reached != length + len(chunk):
            failures += 1
            if failures > 40:
                raise lines.error(f"{failures} chunks of the script did not arrive whole", "upload")
            if reached == length:
                size = max(_SMALLEST_CHUNK, size // 2)
                break
            # The answer was lost, or the chunk arrived damaged: ask, then take it back.
            lines.send("?" if reached is None else "-")
            reached = lines.wait(_length, lines.patience)
        else:
            at, length = end, length + len(chunk)
    return size


def _use(lines: Lines, line: str) -> bool:
    """Have the board use what it was sent; False when the loader found its digest wrong."""

    def answer(text: bytes) -> bool | None:
        if text.startswith((b"= ", b"! ")):
            lines.put_back(text)
        if text == b"go" or text.startswith((b"= ", b"! ", b"+")):
            return True
        length = _length(text)
        return None if length is None else length == 0

    lines.send(line)
    used = lines.wait(answer, 3 * lines.patience)
    if used is not None:
        return used
    # Either `go` was lost and the script runs, or the line was: then the loader answers to anything.
    lines.send("?")
    return lines.wait(answer, lines.patience) is not False
