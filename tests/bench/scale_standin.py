"""STAND-IN, FOR SCALE ONLY: many scripted consoles behind one power switch. Nothing boots here, nothing is measured.

Each console speaks as one virtual board was recorded (`recording/`): firmware, U-Boot with TFTP and CRC-32 of the files
that really lie in its TFTP folder, kernel log, shell, and the board's side of the batch with checksummed frames. What
fio and dd print is the recording's; time passes by sleeping. Recorded, too: the order and pace of the kernel's
lines, of which those of its devices are repeated, because a real board has more devices than a virtual one.

Usage: python -m tests.bench.scale_standin FOLDER BOARDS BOOT_SECONDS
Makes FOLDER/NAME/{console,tftp} for each board, prints the switch's URL, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import base64
import bz2
import functools
import hashlib
import re
import shlex
import socket
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.virtual.power import PowerStrip
from farm.virtual.serial import SerialAdapter

RECORDING = Path(__file__).with_name("recording")
KERNEL_LINES = 700  # lines that an RK3568 prints with all its devices
PROMPT, SHELL_PROMPT = "=> ", "/ # "
# Shares of a boot's time: firmware, a megabyte by TFTP, a megabyte's CRC-32, kernel. The trials get what is left.
_FIRMWARE, _TFTP, _CRC, _KERNEL = 0.05, 0.004, 0.001, 0.15
_PROBE_S = 0.3
_MIB = 1 << 20


def name_of(number: int) -> str:
    """What a board is called, so that nobody takes it for one."""
    return f"scale-standin-{number:03}"


@functools.cache
def _recorded(name: str) -> str:
    return (RECORDING / f"{name}.txt").read_text()


@functools.cache
def _kernel_log() -> tuple[tuple[float, str], ...]:
    """The kernel's lines with the seconds at which they come."""
    lines = _recorded("kernel").splitlines()
    first = next(at for at, line in enumerate(lines) if "devtmpfs: initialized" in line)
    last = next(at for at, line in enumerate(lines) if "Freeing unused kernel memory" in line)
    more = KERNEL_LINES - len(lines)
    devices = lines[first:last]
    repeated = (devices * (1 + more // len(devices)))[:more]
    timed: list[tuple[float, str]] = []
    stamp = shift = 0.0
    for line in (*lines[:last], *repeated, *lines[last:]):
        if found := re.match(r"\[ +(\d+\.\d+)\]", line):
            at = float(found[1])
            if at + shift < stamp:  # the repetition begins
                shift = stamp - at
            stamp = at + shift
        timed.append((stamp, line))
    return tuple(timed)


@dataclass(frozen=True)
class _Image:
    size: int
    crc32: int
    banner: str


@functools.cache
def _image(path: Path) -> _Image:
    data = path.read_bytes()
    found = re.search(rb"Linux version [^\n\0]+", data)
    return _Image(len(data), zlib.crc32(data), found[0].decode() if found else "")


@dataclass(frozen=True)
class _Job:
    name: str
    command: str


@functools.lru_cache(maxsize=64)
def _jobs(script: str) -> tuple[_Job, ...]:
    """The jobs of a batch: `j ID LIMIT LIMIT COMMAND [BEFORE]`, quoted for a shell."""
    words = shlex.split(script)
    return tuple(
        _Job(words[at + 1], words[at + 4])
        for at, word in enumerate(words)
        if word == "j" and words[at + 2].isdigit() and words[at + 3].isdigit()
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Board:
    """One scripted console and its outlet."""

    def __init__(self, folder: Path, number: int, boot_s: float) -> None:
        self.number, self.boot_s, self.powered = number, boot_s, False
        self.tftp = folder / "tftp"
        self.tftp.mkdir(parents=True)
        self._adapter = SerialAdapter(folder / "console", None)
        self._life: asyncio.Task[None] | None = None
        self._memory: dict[int, _Image] = {}
        self._args, self._runtime, self._on_at = "", "", 0.0

    async def switch(self, on: bool) -> None:
        """Power: off ends the board's life at once, on begins another."""
        if on == self.powered:
            return
        self.powered = on
        if self._life is not None:
            self._life.cancel()
            self._life = None
            self._adapter.detach()
        if on:
            ours, theirs = socket.socketpair()
            self._adapter.attach(theirs)
            reader, self._writer = await asyncio.open_connection(sock=ours)
            self._lines: asyncio.Queue[str | None] = asyncio.Queue()
            self._life = asyncio.create_task(self._live(reader))

    def _say(self, text: str) -> None:
        self._writer.write(text.replace("\n", "\r\n").encode())

    @property
    def _age(self) -> float:
        return asyncio.get_running_loop().time() - self._on_at

    async def _pass(self, share: float) -> None:
        await asyncio.sleep(share * self.boot_s)

    async def _live(self, reader: asyncio.StreamReader) -> None:
        self._on_at = asyncio.get_running_loop().time()
        self._memory, self._args, self._runtime = {}, "", ""
        listening = asyncio.create_task(self._listen(reader))
        try:
            await self._pass(_FIRMWARE)
            self._say("\n" + _recorded("firmware") + "Hit any key to stop autoboot:  2 ")
            await self._lines.get()
            self._say("\b\b\b 0 \n" + PROMPT)
            kernel = await self._uboot()
            await self._start(kernel)
            while True:
                await self._shell(kernel)
        finally:
            listening.cancel()
            self._writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Lines from the user; a Ctrl-C is None and loses what was typed before it."""
        partial = b""
        while data := await reader.read(65536):
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                for _ in range(line.count(b"\x03")):
                    self._lines.put_nowait(None)
                self._lines.put_nowait(line.rpartition(b"\x03")[2].decode("ascii", "replace"))
            if b"\x03" in partial:
                self._lines.put_nowait(None)
                partial = partial.rpartition(b"\x03")[2]

    # U-Boot

    async def _uboot(self) -> _Image:
        while True:
            line = await self._lines.get() or ""
            self._say(line + "\n")
            if line.startswith("booti "):
                return self._memory[int(line.split()[1], 16)]
            marked = re.fullmatch(r"echo '(\w+)''(\w+)'(?:; (.*); echo \"\$\?\"; echo '\w+''\w+';)?", line)
            if marked is None:
                self._say(PROMPT)
                continue
            marker, command = marked[1] + marked[2], marked[3]
            self._say(f"{marker}\n")
            if command is not None:
                await self._command(command)
                self._say(f"0\n{marker}\n")
            self._say(PROMPT)

    async def _command(self, command: str) -> None:
        word, *rest = command.split()
        if word == "dhcp":
            self._say("BOOTP broadcast 1\nDHCP client bound to address 10.0.2.15 (3 ms)\n")
        elif word == "tftpboot":
            image = _image((self.tftp / rest[1].rpartition("/")[2]).resolve())
            self._say(f"Filename '{rest[1]}'.\nLoad address: {rest[0]}\nLoading: *\b")
            rows = image.size // (65 * 14680) + 1  # a sign for ten blocks of 1468 bytes
            for row in range(rows):
                await self._pass(_TFTP * image.size / _MIB / rows)
                self._say(("\t " if row else "") + "#" * 65 + "\n")
            self._say(f"\t 22.1 MiB/s\ndone\nBytes transferred = {image.size} ({image.size:x} hex)\n")
            self._memory[int(rest[0], 16)] = image
        elif word == "crc32":
            address, size = int(rest[0], 16), int(rest[1], 16)
            image = self._memory[address]
            await self._pass(_CRC * image.size / _MIB)
            assert size == image.size, "only whole images are known"
            self._say(
                f"crc32 for {address:08x} ... {address + size - 1:08x} ==> {self._memory[address].crc32:08x}\n"
            )
        elif command.startswith("setenv bootargs "):
            self._args = shlex.split(command)[2]

    async def _start(self, kernel: _Image) -> None:
        log = _kernel_log()
        began, length = self._age, _KERNEL * self.boot_s
        burst: list[str] = []
        for at, line in log:
            due = began + at / log[-1][0] * length
            if burst and due - self._age > 0.001:
                self._say("".join(burst))
                burst.clear()
                await asyncio.sleep(due - self._age)
            line = f"[    0.000000] {kernel.banner}" if "] Linux version " in line else line
            burst.append(line + "\n")
        self._say("".join(burst) + "\n" + SHELL_PROMPT)

    # Linux

    async def _shell(self, kernel: _Image) -> None:
        line = await self._lines.get()
        if line is None:
            self._say("^C\n" + SHELL_PROMPT)
            return
        self._say(line + "\n")
        if loader := re.search(r'echo "@""(\w+)";read -r l;', line):
            await self._loader(loader[1], kernel)
        elif said := re.search(r"echo (?:'(\w+)''(\w+)'|\"(@)\"\"(\w+)\")", line):
            self._say("".join(filter(None, said.groups())) + "\n")
        self._say(SHELL_PROMPT)

    async def _loader(self, marker: str, kernel: _Image) -> None:
        """farm/board/upload.py's loader, then what it is sent."""
        self._say(f"@{marker}\n")
        await self._lines.get()
        kept = _sha256(self._runtime + "\n") if self._runtime else ""
        self._say(f"@{marker} t.gzip.sh.sha256sum.md5sum.base64.uuencode.od. {kept}  -\n")
        script = last = ""
        while (line := await self._lines.get()) is not None:
            word, _, rest = line.partition(" ")
            if word == "+":
                last, script = script, script + rest
            elif word == "-":
                script = last
            elif word == "0":
                script = last = ""
            elif word == "x" and _sha256(script + "\n").startswith(rest.partition("sha256sum) in ")[2][:16]):
                text = zlib.decompress(base64.b64decode(script), wbits=31).decode()
                script = ""
                if ">/dev/farm.sh;" not in rest:
                    await self._batch(marker, text, kernel)
                    return
                self._runtime = text
            self._say(f"@{marker} {len(script)}\n")

    async def _batch(self, marker: str, text: str, kernel: _Image) -> None:
        """What farm/board/batch.sh does: run the jobs, pack what they printed, send it in frames."""
        jobs = _jobs(text)
        self._say(f"@{marker} go\n")
        index, kinds = [], {}
        for number, job in enumerate(jobs, 1):
            self._say(f"@{marker} +{number}\n")
            began = self._age
            if job.command.startswith(("CONTROLLER=", "cat ")):
                await asyncio.sleep(_PROBE_S)
            else:
                await asyncio.sleep(max(0.05, self.boot_s - self._age) / (len(jobs) - number + 1))
            kinds |= {f"k{100000 + number}{kind}": said.encode() for kind, said in self._printed(job, kernel)}
            index.append(f"0 {began:.2f} {self._age:.2f} .\n")
            self._say(f"@farm {number}/{len(jobs)} {job.name} 0 {self._age - began:.0f}\n")
        self._say(f"@{marker} +\n")
        index += [f"{len(said):7} {name}\n" for name, said in kinds.items()]
        packed = bz2.compress("".join([*index, ".\n"]).encode() + b"".join(kinds.values()))
        whole = hashlib.sha256(packed).hexdigest()
        self._line(marker, f"= {len(packed)} bzip2 1 /tmp/farm.1 {whole} -")
        while (line := await self._lines.get()) not in ("q", None):
            if frame := re.fullmatch(r"f (\d+) (\d+)", line or ""):
                data = packed[int(frame[1]) :][: int(frame[2])]
                self._line(marker, f"{frame[1]} {len(data)} {base64.b64encode(data).decode()}")
            else:
                self._line(marker, f"= {len(packed)} bzip2 1 /tmp/farm.1 {whole} -")
        self._say(f"@{marker} bye\n")

    def _line(self, marker: str, text: str) -> None:
        self._say(f"@{marker} {text} {_sha256(text + chr(10))}  -\n")

    def _printed(self, job: _Job, kernel: _Image) -> Iterator[tuple[str, str]]:
        """What a job prints, by the letters of batch.sh."""
        if job.command.startswith("CONTROLLER="):
            yield "c", self._facts(job.command, kernel)
            return
        if job.command == "cat /proc/uptime":
            yield "c", f"{self._age:.2f} {self._age:.2f}\n"
            return
        named = re.search(r"fio --name=([\w-]+)", job.command)
        yield "b", "47222\n1104000\n"
        yield "c", _recorded(named[1] if named else "dd-read-1M")
        yield "d", "48333\n1104000\n"
        if named is None:
            yield "e", f"[{self._age:12.6f}] sh (290): drop_caches: 3\n"

    def _facts(self, script: str, kernel: _Image) -> str:
        ahead = re.search(r"echo '?(\d+)'? >\"\$b\"/queue/read_ahead_kb", script)
        said = {
            "/proc/version": kernel.banner,
            "/proc/cmdline": self._args,
            "/proc/uptime": f"{self._age:.2f} {self._age:.2f}",
            "serial": f"{self.number:#010x}",
            **({"/sys/block/mmcblk0/queue/read_ahead_kb": ahead[1]} if ahead else {}),
        }
        lines = (line.partition(":") for line in _recorded("probe").splitlines())
        return "".join(f"{name}{colon}{said.get(name, text)}\n" for name, colon, text in lines)


async def serve(folder: Path, count: int, boot_s: float) -> None:
    """Serve `count` boards until standard input ends."""
    boards = {name_of(at): Board(folder / name_of(at), at, boot_s) for at in range(1, count + 1)}
    strip = PowerStrip(boards)
    print(await strip.start(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    strip.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
