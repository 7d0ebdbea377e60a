"""What a worker and its controller tell each other, and a run its audience; plain data that may cross a pipe."""

from __future__ import annotations

from dataclasses import dataclass

from farm.schedule import PlannedBoot
from farm.store.health import HealthRecord
from farm.store.records import BootRecord


@dataclass(frozen=True)
class Doing:
    """What a board is at: for the live line of a board."""

    board: str
    variant: str
    what: str


@dataclass(frozen=True)
class TrialDone:
    """A trial ended on the board; its result is still there."""

    board: str
    variant: str
    done: int
    total: int
    ok: bool


@dataclass(frozen=True)
class BootDone:
    """A boot is over, whatever became of it; the controller commits it before the board goes on."""

    record: BootRecord


@dataclass(frozen=True)
class Checked:
    """A board was checked, before its first boot or behind one that failed too often; the controller stores that first."""

    record: HealthRecord


@dataclass(frozen=True)
class Ready:
    """A board wants a block. `through` is the block that it was given before and has come to the end of, if any."""

    board: str
    through: int | None = None


@dataclass(frozen=True)
class Given:
    """The controller's answer: the boots of a block that are to be done, and how often each was tried before.

    Without boots there is nothing more for this board. Answered with `waits`, a block may come free when another board
    drops out: the board switches off and stays.
    """

    block: int = -1
    boots: tuple[PlannedBoot, ...] = ()
    tried: tuple[int, ...] = ()
    waits: bool = False


@dataclass(frozen=True)
class Joined:
    """A board came free while the run goes on, and takes part from now on."""

    board: str


@dataclass(frozen=True)
class Settled:
    """More boots would decide nothing on this board: it stops after `boots` of at most `most` per variant."""

    board: str
    boots: int
    most: int


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


Message = Doing | TrialDone | BootDone | Checked | Ready | Joined | Settled | BoardOver
