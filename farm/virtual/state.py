"""The lab's state file: who supervises it, and where everything is."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from farm.virtual.machine import VirtualBoard

STATE_FILE = "lab.json"
CONTROL_SOCKET = "control.sock"
LOCK_FILE = "lab.lock"
HELD = "another lab process holds this directory"


def lab_directory(home: Path) -> Path:
    """Where a home directory's lab keeps its boards."""
    return home.absolute() / "virtual"


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot (field 22 of /proc/PID/stat); None if there is no such process.

    Together with the pid it names a process for good: pids come round again.
    """
    try:
        # The second field, the command in parentheses, may hold anything: count from behind it.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@dataclass(frozen=True)
class LabState:
    """What a running supervisor has written down."""

    pid: int
    started: int
    pdu: str
    network: str
    boards: dict[str, VirtualBoard]

    @property
    def alive(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        return start_time(self.pid) == self.started

    def write(self, directory: Path) -> None:
        """Replace the state file in one step."""
        text = json.dumps(
            {
                "pid": self.pid,
                "started": self.started,
                "pdu": self.pdu,
                "network": self.network,
                "boards": {name: board.model_dump() for name, board in self.boards.items()},
            },
            indent=1,
        )
        fresh = directory / f"{STATE_FILE}.new"
        fresh.write_text(text)
        fresh.replace(directory / STATE_FILE)

    @staticmethod
    def remove(directory: Path) -> None:
        """The lab is down."""
        with contextlib.suppress(OSError):
            (directory / STATE_FILE).unlink()

    @classmethod
    def read(cls, directory: Path) -> LabState | None:
        """The state of a lab that runs; None if there is none, or only the file of a dead one."""
        try:
            fields = json.loads((directory / STATE_FILE).read_text())
            boards = {name: VirtualBoard.model_validate(board) for name, board in fields["boards"].items()}
            pdu, network = str(fields["pdu"]), str(fields["network"])
            state = cls(int(fields["pid"]), int(fields["started"]), pdu, network, boards)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
            return None
        return state if state.alive else None
