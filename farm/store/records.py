"""What the store keeps, as plain data: runs, boots, trials, samples. Times are UTC epoch seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

SSH, RECOVERY = "ssh", "recovery"
DRIVEN = frozenset({SSH, RECOVERY})
"""Kinds of events that say how a boot was driven, and nothing of what the board or its kernel did: why the batch
did not go over SSH, and why the board could not be switched off behind a failed boot."""

RunStatus = Literal["running", "done", "interrupted", "failed"]
Status = Literal["ok", "void", "failed"]


def new_run_id(what: str) -> str:
    """A name for a run that sorts by time and reads well: `20261130-182233-readahead`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{what}"


@dataclass(frozen=True)
class RunRecord:
    """One execution of a campaign.

    `settings` is JSON; readers understand `baseline` (a variant's name), `variants` and `workloads` (names in
    campaign order), `imported` (true: not measured by farm, so nothing is proven and boots are unknown), `order`
    (`tests`: that of a pytest session, nothing random). `boots` is per variant, `least_boots` the first of `looks`,
    `settled` how many boots per variant a board had (by name) when it stopped early. `aa`: both variants are the same;
    `asked` and `count`: how its boards were asked for. `confirm`: what is slower has to be measured again, by a run that
    `confirms` this id. `branch`, `commits` (by variant).
    `measured_bands` by board and workload, see report.calibration.
    """

    id: str
    campaign: str
    campaign_text: str
    seed: int
    started: float
    ended: float | None = None
    status: RunStatus = "running"
    note: str = ""
    host: str = ""
    version: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleRecord:
    """One number of a trial, in the unit that the metric's name ends with.

    `rw` is the direction of the data (`read`, `write`, `trim`; empty where there is none). Metrics:
    `bw_bytes` (bytes/second), `iops`, `seconds`, `bytes`, `lat_mean_ns`, `lat_p99_ns`, `lat_p99.9_ns` ...
    Raises ValueError for NaN and infinities: no measurement is a reason on the trial, never a number.
    """

    rw: str
    metric: str
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"{self.metric} {self.rw} is {self.value}, which is no measurement")


@dataclass(frozen=True)
class TrialRecord:
    """One execution of one workload in a boot. `raw` maps kinds (out, err, before, kernel, pre, post) to
    complete output; it is empty on trials that were read back, see `Store.raw`."""

    workload: str
    rep: int
    status: Status
    reason: str
    command: str
    started: float
    seconds: float
    samples: tuple[SampleRecord, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BootRecord:
    """One power cycle of one variant on one board, with everything that was measured in it.

    `index` is the place in the board's schedule, `attempt` counts repetitions of that place from 0.
    `facts`, `flash` (what was flashed, how, digest, whether verified), `events`, `console_bytes` are JSON; `wire` of
    the last one says what carried the batch, and so what `batch_up` and `batch_down` count: `serial` or `ssh`.
    """

    run_id: str
    board: str
    index: int
    block: int
    variant: str
    attempt: int
    status: Status
    reason: str
    started: float
    ended: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    flash: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    log_path: str = ""
    console_bytes: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True)
class StoredTrial(TrialRecord):
    """A trial that was read back, without its raw output."""

    id: int = field(kw_only=True)
    boot_id: int = field(kw_only=True)


@dataclass(frozen=True)
class StoredBoot(BootRecord):
    """A boot that was read back, without its trials."""

    id: int = field(kw_only=True)


class ValueRow(NamedTuple):
    """One trial and one direction of its data, for statistics.

    `status` is `ok` only where both the trial and its boot are: the good trials of a torn boot do not count,
    because the boot is repeated. `value` is None and `rw` empty where the trial has no sample of the metric.
    """

    board: str
    variant: str
    boot_id: int
    boot_index: int
    boot_started: float
    workload: str
    rw: str
    rep: int
    status: Status
    value: float | None
    trial_id: int
    reason: str


class Tally(NamedTuple):
    """How much of a run is in the store, in boots and trials; the first and last trial's id, 0 without any."""

    boards: int = 0
    boots_ok: int = 0
    boots_void: int = 0
    boots_failed: int = 0
    trials: int = 0
    first_trial: int = 0
    last_trial: int = 0
