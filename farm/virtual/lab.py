"""The virtual lab from outside: bring boards up, take the lab down, say what there is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.errors import BoardError, UserError, said_of_system
from farm.paths import NAME
from farm.virtual import images
from farm.virtual.machine import FIRMWARE, TFTP_DIR, VirtualBoard
from farm.virtual.state import CONTROL_SOCKET, HELD, LabState, lab_directory, start_time

_START_DEADLINE = 20.0
_REQUEST_DEADLINE = 60.0
_END_DEADLINE = 15.0


@dataclass(frozen=True)
class Lab:
    """A lab that runs: its directory, the images' directory, the power strip's URL and the boards' network (127.A.B)."""

    directory: Path
    images: Path
    pdu: str
    network: str
    pid: int

    def environment(self) -> dict[str, str]:
        """The variables that env files of virtual boards refer to in `!template` strings."""
        return {
            "LG_VIRTUAL_PDU": self.pdu,
            "LG_VIRTUAL_NET": self.network,
            "LG_VIRTUAL_DIR": str(self.directory),
            "LG_VIRTUAL_IMAGES": str(self.images),
        }


@dataclass(frozen=True)
class BoardStatus:
    """One board of a running lab; `died` says why a board that has power does not run any more, else it is empty."""

    name: str
    arch: str
    powered: bool
    qemu_pid: int | None
    died: str
    console: Path
    tftp: Path


def up(boards: Mapping[str, VirtualBoard], home: Path) -> Lab:
    """Have a lab in `home` with at least these boards, all as they were left; a running lab is used.

    Raises UserError for a board name that is none, BoardError for everything that this machine lacks or refuses.
    """
    for name, board in boards.items():
        if not re.fullmatch(NAME, name):
            raise UserError(f"{name!r} cannot name a virtual board; use letters, digits, '-', '_' and '.'")
        made = FIRMWARE[board.arch]
        if not shutil.which(made.qemu):
            package = (
                "qemu-system-arm" if board.arch == "arm64" else "qemu-system-misc (or qemu-system-riscv)"
            )
            raise BoardError(
                f"{made.qemu} is missing on this machine; install the package {package}", board=name
            )
        if not made.uboot.exists():
            raise BoardError(
                f"{made.uboot} is missing on this machine; install the package u-boot-qemu", board=name
            )
    directory = lab_directory(home)
    state = LabState.read(directory) or _start(directory, home)
    _ask(directory, {"add": {name: board.model_dump() for name, board in boards.items()}})
    return Lab(directory, images.directory(), state.pdu, state.network, state.pid)


def down(home: Path) -> bool:
    """End the lab with all its processes; disks stay. False if none was running. Raises BoardError if it will not end."""
    directory = lab_directory(home)
    state = LabState.read(directory)
    if state is None:
        LabState.remove(directory)
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.pid, signal.SIGTERM)
    if not _gone(state, _END_DEADLINE):
        # Its children die with it, so this is safe; what it could not tidy up is only files.
        os.kill(state.pid, signal.SIGKILL)
        if not _gone(state, _END_DEADLINE):
            raise BoardError(f"the lab process {state.pid} cannot be ended", log=directory / "lab.log")
        LabState.remove(directory)
    return True


def status(home: Path) -> list[BoardStatus]:
    """The boards of the running lab, by name; empty if no lab runs."""
    directory = lab_directory(home)
    state = LabState.read(directory)
    if state is None:
        return []
    answer = _ask(directory, {})
    said = answer["boards"]
    assert isinstance(said, dict)
    return [
        BoardStatus(
            name=name,
            arch=state.boards[name].arch,
            powered=bool(said[name]["powered"]),
            qemu_pid=said[name]["qemu_pid"],
            died=said[name]["died"],
            console=directory / name / "console",
            tftp=directory / name / TFTP_DIR,
        )
        for name in sorted(state.boards)
        if name in said
    ]


def environment(home: Path) -> dict[str, str]:
    """The LG_* variables of the lab that runs in `home`. Raises BoardError if none does."""
    directory = lab_directory(home)
    state = LabState.read(directory)
    if state is None:
        raise BoardError(f"no virtual lab runs in {home}; start it with: farm virtual up")
    return Lab(directory, images.directory(), state.pdu, state.network, state.pid).environment()


def _start(directory: Path, home: Path) -> LabState:
    """Start the supervisor, which goes its own way, and wait until it serves."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        errors = (directory / "lab.err").open("wb")
    except OSError as error:
        raise BoardError(f"the lab's directory cannot be written: {said_of_system(error)}") from error
    with errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "farm.virtual.supervisor", str(home.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout as output:
        said = ""
        if select.select([output], [], [], _START_DEADLINE)[0]:
            said = output.readline().decode(errors="replace").strip()
    process.wait()
    # Somebody else may have started it at the same moment: theirs will be ready as soon.
    deadline = time.monotonic() + _START_DEADLINE
    while said in ("ready", HELD) and time.monotonic() < deadline:
        if state := LabState.read(directory):
            return state
        time.sleep(0.05)
    reason = said or (directory / "lab.err").read_text(errors="replace").strip().rpartition("\n")[2]
    raise BoardError(reason or "the lab process did not start", log=directory / "lab.err")


def _ask(directory: Path, request: Mapping[str, object]) -> dict[str, object]:
    """Send the supervisor a request and return its answer. Raises BoardError with its reason when it refuses."""
    here = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_REQUEST_DEADLINE)
            # By way of /proc, because a socket's path may have 107 bytes only.
            line.connect(f"/proc/self/fd/{here}/{CONTROL_SOCKET}")
            with line.makefile("rwb") as stream:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                answer = json.loads(stream.readline())
    except (OSError, ValueError) as error:
        raise BoardError(f"the lab does not answer: {error}", log=directory / "lab.log") from error
    finally:
        os.close(here)
    assert isinstance(answer, dict)
    if "error" in answer:
        raise BoardError(str(answer["error"]), log=directory / "lab.log")
    return answer


def _gone(state: LabState, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while start_time(state.pid) == state.started:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
