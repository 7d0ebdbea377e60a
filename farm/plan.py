"""What a run would do, from files alone: boots in order, trials, time, and what would be written where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from farm.campaign import Campaign, Variant
from farm.schedule import MIN_BOOTS, PlannedBoot, schedule
from farm.units import format_size
from farm.workload import fio
from farm.workload.dd import arguments as dd_arguments
from farm.workload.lint import Lint, known, lint
from farm.workload.model import FioWorkload, Target, Workload

if TYPE_CHECKING:
    from farm.analysis.noise import Calibration, Calibrations

TOO_FEW = "too-few-boots"

# Guesses for the time left, not for anything measured: what a slow card reads, what it does in small random
# requests a second, and what a trial costs beside its run.
_READ_RATE = 100e6
_RANDOM_IOPS = 5000
_TRIAL_OVERHEAD_S = 0.5


@dataclass(frozen=True)
class ScratchArea:
    """Where workloads of one target go: a label for people, and the size in bytes."""

    label: str
    size: int


@dataclass(frozen=True)
class BoardFacts:
    """What planning has to know of a board. Sizes in bytes, rates in bytes/second, times in seconds.

    `flash_bytes` has what a flash of each variant puts on `flash_device`; 0 where nothing is written. Boards with the
    same `alone` measure in turn, and `at_once` of them are at work at the same time; those with the same `group` are
    equal and share blocks. `write_rate` bounds what a run that is bound by time can write.
    """

    name: str
    disk: str
    boot_s: float
    write_rate: float
    raw: ScratchArea | None = None
    files: ScratchArea | None = None
    flash_method: str = "netboot"
    flash_device: str = ""
    flash_bytes: Mapping[str, int] = field(default_factory=dict)
    alone: str | None = None
    at_once: int | None = None
    group: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def scratch(self, target: Target) -> ScratchArea | None:
        """The area for workloads with this target."""
        return self.raw if target == "raw" else self.files


@dataclass(frozen=True)
class Written:
    """Bytes that would be written (or trimmed) on one device for one purpose; `at_most` where it is a bound."""

    device: str
    purpose: str
    bytes: int
    at_most: bool


@dataclass(frozen=True)
class Estimate:
    """What to expect of one workload's bandwidth, by the newest A/A run of the board and its card.

    `run` and `started` (UTC epoch seconds) say which run that is. `spread` is between boots, in logs (0.02 is about
    2 %), `band` the one that will hold, `measured` whether it comes from that run. `boots_for_change` per variant find a
    change of twice the band, `boots_for_same` say `same` where nothing changed, both with 80 % power; None is never.
    """

    workload: str
    run: str
    started: float
    card: str
    spread: float
    band: float
    measured: bool
    boots_for_change: int | None
    boots_for_same: int | None


@dataclass(frozen=True)
class BoardPlan:
    """One board's share. `seconds` is wall time, `measuring_s` the part of it in which trials run.

    `least` is its share where it is settled at the first look, None where the boots are fixed. `estimates` has the
    workloads that the board has a calibration of. `shares_with` are the equal boards that do the other blocks; who does
    which is decided while they run.
    """

    board: BoardFacts
    boots: tuple[PlannedBoot, ...]
    trials: int
    seconds: float
    measuring_s: float
    written: tuple[Written, ...]
    flashes: int
    flashed_bytes: int
    least: BoardPlan | None
    estimates: tuple[Estimate, ...]
    shares_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A lint finding and the workloads that it holds for; none where it is about the whole campaign."""

    lint: Lint
    workloads: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.lint} ({', '.join(self.workloads)})" if self.workloads else str(self.lint)


@dataclass(frozen=True)
class Plan:
    """The whole run. `seconds` is until the last board is through, `least_seconds` where every board is settled at the
    first look; commands have RAW or FILE for the target."""

    campaign: str
    description: str
    seed: int
    variants: tuple[str, ...]
    baseline: str
    boots: int
    least_boots: int
    looks: int
    trials: int
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    boards: tuple[BoardPlan, ...]
    seconds: float
    least_seconds: float
    findings: tuple[Finding, ...]


def plan(
    campaign: Campaign, boards: Sequence[BoardFacts], *, seed: int, calibrations: Calibrations | None = None
) -> Plan:
    """What running `campaign` on `boards` would do, and what their calibrations make one expect. Touches nothing.

    Raises UserError for a workload without a scratch area, or with one that is too small.
    """
    for board in boards:
        check_scratch(campaign, board)
    boots = schedule(tuple(campaign.variants), campaign.boots, seed)
    known = calibrations or {}
    planned = tuple(
        replace(_board(campaign, board, own, known.get(board.name, {})), shares_with=others)
        for board, own, others in _shared(boards, boots)
    )
    return Plan(
        campaign=campaign.name,
        description=campaign.description,
        seed=seed,
        variants=tuple(campaign.variants),
        baseline=campaign.baseline,
        boots=campaign.boots,
        least_boots=campaign.least_boots,
        looks=campaign.looks,
        trials=campaign.trials,
        commands=tuple((one.name, _shown(one)) for one in campaign.workloads),
        boards=planned,
        seconds=_wall(planned),
        least_seconds=_wall([one.least or one for one in planned]),
        findings=(*_findings(campaign, boards), *_thin(campaign, planned)),
    )


def _shared(
    boards: Sequence[BoardFacts], boots: Sequence[PlannedBoot]
) -> Iterator[tuple[BoardFacts, list[PlannedBoot], tuple[str, ...]]]:
    """Each board with the boots of its blocks and the boards that it shares with: equal ones take blocks in turn."""
    blocks = list(dict.fromkeys(boot.block for boot in boots))
    for board in boards:
        equal = [one.name for one in boards if board.group and one.group == board.group] or [board.name]
        own = set(blocks[equal.index(board.name) :: len(equal)])
        others = tuple(name for name in equal if name != board.name)
        yield board, [boot for boot in boots if boot.block in own], others


def _thin(campaign: Campaign, boards: Sequence[BoardPlan]) -> Iterator[Finding]:
    """What is to be said of equal boards that get too few blocks each, since a comparison never crosses boards."""
    for one in boards:
        each = len(one.boots) // len(campaign.variants)
        if one.shares_with and each < MIN_BOOTS <= campaign.boots:
            names = (one.board.name, *one.shares_with)
            yield Finding(
                Lint(
                    TOO_FEW,
                    f"{one.board.name} gets {each} of {campaign.boots} boots per variant, as {len(names)} equal boards "
                    "share them, and can only end as inconclusive",
                    f"write boots: {MIN_BOOTS * len(names)} or more, or take fewer boards",
                ),
                (),
            )


def check_scratch(campaign: Campaign, board: BoardFacts) -> None:
    """Refuse what would not fit, or has no place that may be written. Raises UserError."""
    for one in campaign.workloads:
        area, key = board.scratch(one.target), "raw" if one.target == "raw" else "files"
        if area is None:
            raise campaign.complain(
                f"workload {one.name} needs scratch.{key}, which the env of board {board.name} does not declare; "
                f"declare it there, or write target: {'file' if one.target == 'raw' else 'raw'}",
                *campaign.entry(one.name),
            )
        if one.needed_bytes > area.size:
            raise campaign.complain(
                f"workload {one.name} needs {format_size(one.needed_bytes)}, but scratch.{key} of board {board.name} "
                f"has {format_size(area.size)}; make size smaller",
                *campaign.entry(one.name),
            )


def _board(
    campaign: Campaign,
    board: BoardFacts,
    boots: Sequence[PlannedBoot],
    calibrations: Mapping[str, Calibration],
) -> BoardPlan:
    first_look = campaign.least_boots * len(campaign.variants)
    measuring = len(boots) * (
        campaign.trials * sum(_trial_seconds(one, board) for one in campaign.workloads)
        + sum(size for _, size in _fills(campaign.workloads)) / board.write_rate
    )
    flashes = list(_flashes(campaign, boots))
    return BoardPlan(
        board=board,
        boots=tuple(boots),
        trials=len(boots) * campaign.trials * len(campaign.workloads),
        seconds=len(boots) * board.boot_s + measuring,
        measuring_s=measuring,
        written=tuple(_written(campaign, board, len(boots))),
        flashes=len(flashes),
        flashed_bytes=sum(board.flash_bytes.get(name, 0) for name in flashes),
        least=_board(campaign, board, boots[:first_look], {}) if first_look < len(boots) else None,
        estimates=tuple(_estimates(campaign, calibrations)),
    )


def _estimates(campaign: Campaign, calibrations: Mapping[str, Calibration]) -> Iterator[Estimate]:
    comparisons = max(1, len(campaign.workloads) * (len(campaign.variants) - 1))
    for one in campaign.workloads:
        found = calibrations.get(one.name)
        noise = found.worst() if found else None
        if found is None or noise is None:
            continue
        wanted = campaign.band_for(one)
        band = noise.band(campaign.least_boots) if wanted == "measured" else wanted
        yield Estimate(
            workload=one.name,
            run=found.run,
            started=found.started,
            card=found.card,
            spread=noise.sd,
            band=band,
            measured=wanted == "measured",
            boots_for_change=noise.boots_for_change(band, comparisons, campaign.looks),
            boots_for_same=noise.boots_for_same(band, campaign.looks),
        )


def _trial_seconds(w: Workload, board: BoardFacts) -> float:
    rate = board.write_rate if w.writes else _READ_RATE
    if isinstance(w, FioWorkload) and w.rw.startswith("rand"):
        rate = min(rate, w.bs * _RANDOM_IOPS)
    return w.seconds(rate) + w.conditioning.idle_s + _TRIAL_OVERHEAD_S


def _fills(workloads: Sequence[Workload]) -> Iterator[tuple[Workload, int]]:
    """The pre-fills of the raw area in one boot, with their bytes: a larger one covers smaller ones that follow."""
    filled = 0
    for one in workloads:
        if one.target != "raw":
            continue
        if one.conditioning.prefill and one.needed_bytes > filled:
            filled = one.needed_bytes
            yield one, filled
        elif one.conditioning.discard and not one.conditioning.prefill:
            filled = 0


def _written(campaign: Campaign, board: BoardFacts, boots: int) -> Iterator[Written]:
    trials = boots * campaign.trials
    for one in campaign.workloads:
        area = board.scratch(one.target)
        assert area is not None, "checked before"
        if one.writes:
            exact = one.bytes_written(trials)
            bound = exact if exact is not None else one.bytes_written(trials, board.write_rate)
            mixed = isinstance(one, FioWorkload) and one.rw == "randrw"
            yield Written(area.label, f"trials of {one.name}", bound or 0, exact is None or mixed)
    # a discard between pre-fills makes each trial fill anew, so that the bound is per trial
    anew = any(one.conditioning.discard and not one.conditioning.prefill for one in campaign.workloads)
    fills = sum(size for _, size in _fills(campaign.workloads))
    if fills and board.raw is not None:
        yield Written(board.raw.label, "pre-fill", fills * (trials if anew else boots), anew)
    yield from _files(campaign, board, trials)


def _files(campaign: Campaign, board: BoardFacts, trials: int) -> Iterator[Written]:
    """Files that are laid out once and stay, unless a workload that allocates anew takes the same file."""
    laid_out = {
        one.needed_bytes
        for one in campaign.workloads
        if one.target == "file" and (not one.writes or one.conditioning.prefill)
    }
    fresh = {
        one.needed_bytes
        for one in campaign.workloads
        if one.target == "file" and one.writes and not one.conditioning.prefill
    }
    size = sum(needed * (trials if needed in fresh else 1) for needed in laid_out)
    if size and board.files is not None:
        yield Written(board.files.label, "files to read", size, True)


def _images(variant: Variant) -> tuple[str | None, ...]:
    return variant.kernel, variant.dtb, variant.initrd, variant.modules


def _flashes(campaign: Campaign, boots: Sequence[PlannedBoot]) -> Iterator[str]:
    """The variants that are flashed, in order: the first boot, and each whose images are not those of the last."""
    last: tuple[str | None, ...] | None = None
    for boot in boots:
        images = _images(campaign.variants[boot.variant])
        if images != last:
            yield boot.variant
        last = images


def _wall(boards: Sequence[BoardPlan]) -> float:
    """Boards work side by side, but those that share an `alone` measure in turn, and so many are at work at once."""
    turns: dict[str, float] = {}
    shared: dict[str, float] = {}
    for one in boards:
        if (name := one.board.alone) is not None:
            turns[name] = turns.get(name, 0.0) + one.measuring_s
            if one.board.at_once is not None:
                shared[name] = shared.get(name, 0.0) + one.seconds / one.board.at_once

    def through(one: BoardPlan) -> float:
        name = one.board.alone or ""
        return max(one.seconds, turns.get(name, 0.0) + one.board.boot_s, shared.get(name, 0.0))

    return max(map(through, boards), default=0.0)


def _shown(w: Workload) -> tuple[str, ...]:
    target = "RAW" if w.target == "raw" else "FILE"
    return fio.arguments(w, target) if isinstance(w, FioWorkload) else dd_arguments(w, target)


def _findings(campaign: Campaign, boards: Sequence[BoardFacts]) -> tuple[Finding, ...]:
    found: dict[Lint, dict[str, None]] = {}
    fixed = _fixes_governor(campaign)
    of_boards = [known(board.facts) | ({"governor": None} if fixed else {}) for board in boards]
    for one in campaign.workloads:
        for of_board in of_boards:
            for entry in lint(one, **of_board):
                found.setdefault(entry, {})[one.name] = None
    findings = [Finding(entry, tuple(names)) for entry, names in found.items()]
    if campaign.boots < MIN_BOOTS:
        findings.append(
            Finding(
                Lint(
                    TOO_FEW,
                    f"{campaign.boots} boots per variant can only end as inconclusive",
                    "write boots: 4 or more",
                ),
                (),
            )
        )
    if not fixed and not all(board.facts for board in boards):
        findings.append(
            Finding(
                Lint(
                    "governor-not-fixed",
                    "no knob fixes the CPU frequency governor, so the clock may move with the load",
                    "add the knob /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor: performance to every "
                    "variant if the board has one",
                ),
                (),
            )
        )
    return tuple(findings)


def _fixes_governor(campaign: Campaign) -> bool:
    return all(
        any(knob.endswith("/scaling_governor") for knob in variant.knobs)
        for variant in campaign.variants.values()
    )


def plan_dict(made: Plan) -> dict[str, Any]:
    """The plan as plain data for JSON; units as in `Plan`."""
    return asdict(made)
