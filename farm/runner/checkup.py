"""One look at a board from power off: power, console, bootloader, golden image, disk, bus, clock, wear.

`farm check` shows it to someone who wires up a board; before a campaign it decides whether a board takes part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from farm.board import proof, ssh
from farm.board.batch import capture
from farm.board.console import ConsoleWire
from farm.board.facts import Fact, Facts, ask
from farm.board.safety import UnsafeError, check_disk, writable
from farm.board.strategy import FarmStrategy, explain
from farm.errors import BoardError, FarmError
from farm.fleet import health
from farm.fleet.env import BoardEnv
from farm.store.health import HealthRecord

_CLOCK_WAIT_S = 2.0


@dataclass(frozen=True)
class Step:
    """One step of the check and what came of it; `facts` are on the step that found them out."""

    name: str
    ok: bool
    text: str
    seconds: float
    facts: Mapping[str, Fact] = field(default_factory=dict)


def open_strategy(board: BoardEnv) -> FarmStrategy:
    """labgrid's target of a board in this process, and our strategy on it. Raises UserError for a wrong env file."""
    from labgrid import Environment
    from labgrid.exceptions import InvalidConfigError, NoSupplierFoundError

    from farm.errors import UserError

    try:
        environment = Environment(str(board.path))
        environment.farm_board = board  # for FarmStrategy, which would read the file again
        target = environment.get_target(board.target)
        strategy: FarmStrategy = target.get_driver(FarmStrategy, activate=False)
    except (InvalidConfigError, NoSupplierFoundError, TypeError, ValueError, ImportError) as problem:
        said = str(problem)
        if isinstance(problem.__cause__, TypeError):
            # what would be right, instead of all that it was given, passwords and all
            why = str(problem.__cause__.args[0]).partition(" (got ")[0]
            said = f"{said.partition(' for target ')[0]}: {why}"
        raise UserError(
            f"labgrid refuses it: {said}", file=board.path, key=f"targets.{board.target}"
        ) from problem
    if strategy.ssh is not None:
        ssh.check(strategy.ssh, board.path, f"targets.{board.target}")
    return strategy


def examine(
    board: BoardEnv,
    strategy: FarmStrategy,
    log: Path,
    last: Mapping[str, object] | None,
    show: Callable[[Step], None] = lambda step: None,
) -> HealthRecord:
    """Check a board, showing each step, and say how it is; the caller stores that."""
    began = time.time()
    facts: dict[str, Fact] = {}
    bad: list[str] = []
    for step in check(board, strategy, log, last):
        show(step)
        facts.update(step.facts)
        if not step.ok:
            bad.append(f"{step.name}: {step.text}")
    return HealthRecord(board.name, began, not bad, "; ".join(bad), "check", facts)


def check(
    board: BoardEnv, strategy: FarmStrategy, log: Path, last: Mapping[str, object] | None
) -> Iterator[Step]:
    """Bring the board up once from power off with its golden image and look at it; off again at the end.

    `last` are the facts of the last check that it passed. Yields each step as it ends; the first one that fails to
    bring the board up is the last but for power off.
    """
    strategy.watched.watch.log_to(log)
    strategy.bundle = None
    try:
        for name, text in (
            ("off", "power is off, the switch says so"),
            ("bootloader", "console speaks, bootloader stopped at its prompt"),
            ("flashed", "golden image is on the board"),
            ("shell", "kernel booted, shell answers"),
        ):
            began = time.monotonic()
            try:
                strategy.transition(name)
            except Exception as problem:
                yield Step(name, False, str(explain(problem, board.name, log)), time.monotonic() - began)
                return
            report = strategy.report
            detail = (
                f" ({report.method}, {report.written} bytes written, {report.verified})"
                if name == "flashed" and report
                else ""
            )
            yield Step(name, True, text + detail, time.monotonic() - began)
        began = time.monotonic()
        try:
            wire = ConsoleWire(strategy.watched)
            facts = ask(wire, board.farm.disk.controller, {}, board.farm.deadlines.facts)
            probed = (began, time.monotonic())
            yield from _look(board, strategy, facts, began, last)
            if board.farm.virtual is None or board.farm.virtual.icount is None:
                yield _clock(wire, board, facts, probed)
        except FarmError as problem:
            yield Step(
                "facts", False, problem.reason if isinstance(problem, BoardError) else str(problem), 0.0
            )
    finally:
        try:
            strategy.recover()
        except FarmError as problem:
            yield Step("off", False, str(problem), 0.0)
        strategy.watched.watch.log_to(None)


def _clock(wire: ConsoleWire, board: BoardEnv, facts: Facts, probed: tuple[float, float]) -> Step:
    """The board's clock has to run as ours does: every time that a board measures is measured with it."""
    time.sleep(_CLOCK_WAIT_S)
    asked = time.monotonic()
    said = capture(wire, "cat /proc/uptime", board.farm.deadlines.facts).decode("ascii", "replace").split()
    answered = time.monotonic()
    try:
        passed = float(said[0]) - float(str(facts.values["uptime_s"]))
    except (ValueError, IndexError, KeyError):
        return Step("clock", False, "the board does not say how long it has been up", 0.0)
    doubt = health.clock_doubt(passed, asked - probed[1], answered - probed[0])
    return Step(
        "clock", not doubt, doubt or f"runs as ours does ({passed:.1f} s passed)", answered - probed[1]
    )


def _look(
    board: BoardEnv,
    strategy: FarmStrategy,
    facts: Facts,
    began: float,
    last: Mapping[str, object] | None,
) -> Iterator[Step]:
    bundle = strategy.bundle
    assert bundle is not None
    doubts = proof.check_banner(facts, bundle.banner) + proof.check_args(facts, bundle.args)
    yield Step(
        "proof",
        not doubts,
        "; ".join(doubts) or str(facts.values["banner"]),
        time.monotonic() - began,
        dict(facts.values),
    )
    try:
        check_disk(board.farm.disk, facts.disk)
        yield Step("disk", True, _describe(facts), 0.0)
        for name, area in (("raw", board.farm.scratch.raw), ("files", board.farm.scratch.files)):
            if area is not None:
                node = writable(area, board.farm.disk, facts.disk)
                yield Step(f"scratch.{name}", True, f"{node}, {area.size} bytes, not in use", 0.0)
    except UnsafeError as problem:
        yield Step("disk", False, problem.reason, 0.0)
        return
    for name, doubt, fine in (
        ("bus", health.bus_doubt(facts.values, last), "as at the last good check" if last else "noted"),
        ("wear", health.wear_doubt(facts.values), health.life_text(facts.values) or "the card does not say"),
    ):
        yield Step(name, not doubt, doubt or fine, 0.0)
    yield Step(
        "tools", "dd" in facts.tools or "fio" in facts.tools, ", ".join(sorted(facts.tools)) or "none", 0.0
    )


def _describe(facts: Facts) -> str:
    disk, values = facts.disk, facts.values
    clock = values.get("ios.actual_clock_hz") or values.get("ios.clock_hz", "?")
    bus = f"{values.get('ios.timing', 'bus unknown')}, {values.get('ios.width_bits', '?')} bit, {clock} Hz"
    return f"{disk.node}, {disk.type} {values.get('card.name', '')}, {disk.size} bytes, CID {disk.cid}, {bus}"
