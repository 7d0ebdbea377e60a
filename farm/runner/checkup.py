"""`farm check`: power, console, bootloader, golden image and disk, once, for someone who wires up a board."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.board import proof
from farm.board.batch import capture
from farm.board.console import ConsoleWire
from farm.board.facts import Facts, parse_probe, probe_script
from farm.board.safety import UnsafeError, check_disk, writable
from farm.board.strategy import FarmStrategy, explain
from farm.errors import FarmError
from farm.fleet.env import BoardEnv


@dataclass(frozen=True)
class Step:
    """One step of the check and what came of it."""

    name: str
    ok: bool
    text: str
    seconds: float


def open_strategy(board: BoardEnv) -> FarmStrategy:
    """labgrid's target of a board in this process, and our strategy on it. Raises UserError for a wrong env file."""
    from labgrid import Environment
    from labgrid.exceptions import InvalidConfigError, NoDriverFoundError

    from farm.errors import UserError

    try:
        target = Environment(str(board.path)).get_target("main")
        strategy: FarmStrategy = target.get_driver(FarmStrategy, activate=False)
    except (InvalidConfigError, NoDriverFoundError, TypeError, ValueError, ImportError) as problem:
        raise UserError(f"labgrid refuses it: {problem}", file=board.path, key="targets.main") from problem
    return strategy


def check(board: BoardEnv, log: Path) -> Iterator[Step]:
    """Bring the board up once from power off with its golden image and look at it; off again at the end.

    Yields each step as it ends; the first one that fails is the last but for power off.
    """
    strategy = open_strategy(board)
    strategy.watched.watch.log_to(log)
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
            script = probe_script(board.farm.disk.controller, {})
            raw = capture(ConsoleWire(strategy.watched), script, board.farm.deadlines.facts)
            facts = parse_probe(raw.decode("utf-8", "replace"))
        except FarmError as problem:
            yield Step("facts", False, str(problem), time.monotonic() - began)
            return
        yield from _look(board, strategy, facts, began)
    finally:
        try:
            strategy.recover()
        except FarmError as problem:
            yield Step("off", False, str(problem), 0.0)
        strategy.target.cleanup()


def _look(board: BoardEnv, strategy: FarmStrategy, facts: Facts, began: float) -> Iterator[Step]:
    bundle = strategy.bundle
    assert bundle is not None
    doubts = proof.check_banner(facts, bundle.banner) + proof.check_args(facts, bundle.args)
    yield Step(
        "proof", not doubts, "; ".join(doubts) or str(facts.values["banner"]), time.monotonic() - began
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
    yield Step(
        "tools", "dd" in facts.tools or "fio" in facts.tools, ", ".join(sorted(facts.tools)) or "none", 0.0
    )


def _describe(facts: Facts) -> str:
    disk, values = facts.disk, facts.values
    clock = values.get("ios.actual_clock_hz") or values.get("ios.clock_hz", "?")
    bus = f"{values.get('ios.timing', 'bus unknown')}, {values.get('ios.width_bits', '?')} bit, {clock} Hz"
    return f"{disk.node}, {disk.type} {values.get('card.name', '')}, {disk.size} bytes, CID {disk.cid}, {bus}"
