"""What a worker tells its controller; plain data that crosses a pipe."""

from __future__ import annotations

from dataclasses import dataclass

from farm.store.health import HealthRecord
from farm.store.records import BootRecord


@dataclass(frozen=True)
class Doing:
    """What a board is at: for the live line of a board."""

    board: str
    boot: int
    variant: str
    what: str


@dataclass(frozen=True)
class TrialDone:
    """A trial ended on the board; its result is still there."""

    board: str
    boot: int
    variant: str
    done: int
    total: int
    workload: str
    ok: bool


@dataclass(frozen=True)
class BootDone:
    """A boot is over, whatever became of it; the controller commits it before the board goes on."""

    record: BootRecord


@dataclass(frozen=True)
class Checked:
    """A board was checked before its first boot; the controller stores it before the board goes on."""

    record: HealthRecord


@dataclass(frozen=True)
class BoardOver:
    """A board is through with its share, or gave up with a reason.

    `checked` where a Checked has told that already; `lost` where the way to the board broke, which a coordinator can
    mend: the controller takes the board anew and goes on.
    """

    board: str
    reason: str = ""
    exit_code: int = 0
    checked: bool = False
    lost: bool = False


Message = Doing | TrialDone | BootDone | Checked | BoardOver
