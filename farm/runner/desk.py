"""A board on an engineer's desk: measured inside pytest with a campaign's proof and batch, and stored as a run."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from farm import __version__
from farm.board.bundle import Bundle
from farm.board.console import ConsoleWire
from farm.board.facts import Facts, ask
from farm.board.strategy import FarmStrategy, Status, cause, explain
from farm.campaign import Campaign, Variant
from farm.errors import FarmError, UserError
from farm.fleet.env import BoardEnv
from farm.paths import database
from farm.runner.boot import BootRunner, as_failed
from farm.runner.controller import of_boards
from farm.runner.task import Task, make_bundle
from farm.schedule import PlannedBoot
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, TrialRecord, new_run_id
from farm.units import format_rate
from farm.workload import matrix
from farm.workload.model import Workload
from farm.yamlfile import Document

NAME = "pytest"
GOLDEN = Variant(name="golden", baseline=True)


class NotMeasured(Exception):
    """Trials that do not count, each with its reason; they are stored all the same."""


@dataclass(frozen=True)
class Measured:
    """What one workload did in one boot. Units stand in the metrics' names: bytes/second, nanoseconds, seconds."""

    run: str
    board: str
    variant: str
    workload: str
    trials: tuple[TrialRecord, ...]
    facts: Mapping[str, Any]

    def values(self, metric: str, rw: str | None = None) -> tuple[float, ...]:
        """The metric of each trial, such as `bw_bytes`, `iops`, `seconds` or `lat_p99_ns`, in direction `rw`.

        `rw` may be left out where the workload has one direction. Raises UserError for what was not measured.
        """
        found = [
            one
            for trial in self.trials
            for one in trial.samples
            if one.metric == metric and rw in (None, one.rw)
        ]
        directions = sorted({one.rw for one in found})
        if not found:
            known = sorted({one.metric for trial in self.trials for one in trial.samples})
            raise UserError(f"{self.workload} has no {metric} {rw or ''}; there are {', '.join(known)}")
        if len(directions) > 1:
            raise UserError(f"{self.workload} has {' and '.join(directions)}; say which one is meant")
        return tuple(one.value for one in found)

    def median(self, metric: str, rw: str | None = None) -> float:
        """The median of `values`: the value that this boot has in comparisons. Raises UserError."""
        return median(self.values(metric, rw))

    @property
    def bw_bytes(self) -> float:
        """Median bandwidth in bytes/second. Raises UserError where the workload has two directions."""
        return self.median("bw_bytes")

    def __str__(self) -> str:
        rates = {
            rw: format_rate(self.median("bw_bytes", rw))
            for rw in sorted(
                {one.rw for trial in self.trials for one in trial.samples if one.metric == "bw_bytes"}
            )
        }
        said = ", ".join(f"{rw} {rate}" for rw, rate in rates.items())
        return f"{self.board} {self.variant} {self.workload}: {said} ({len(self.trials)} trials of one boot)"


def one_workload(options: Mapping[str, object], file: Path, line: int) -> Workload:
    """The workload of these keys, which are those of a campaign's `workloads:`. Raises UserError, naming the place."""
    document = Document(path=file, text="", data={"measure": [dict(options)]}, lines={(): line})
    found = matrix.expand(document, ("measure",), 0.0)
    if len(found) != 1:
        raise document.complain(
            "takes one workload; measure once for each, with parametrize", "measure"
        ).error()
    return found[0][0]


def _campaign(source: Path, variant: Variant, workload: Workload | None = None, trials: int = 1) -> Campaign:
    """What a campaign file of this one measurement would say."""
    return Campaign(
        name=NAME,
        boards=(),
        variants={variant.name: variant},
        workloads=(workload,) if workload else (),
        boots=2,
        least_boots=2,
        trials=trials,
        source=source,
        source_text="",
    )


class Desk:
    """One board for the length of a pytest session, and the run that its measurements become.

    The boot is the sample here too: what is measured in one power cycle is stored whole as one boot when that ends.
    """

    def __init__(
        self, board: BoardEnv, strategy: FarmStrategy, home: Path, variants: Sequence[Variant]
    ) -> None:
        self.board, self.strategy, self.home = board, strategy, home
        self.run = new_run_id(NAME)
        self.logs = home / "logs" / self.run
        self.boots = self.trials = 0
        self._variants = tuple(variants)
        self._store: Store | None = None
        self._boot: BootRecord | None = None
        self._life: tuple[int, str] = (0, "")  # the power cycle of the last measurement, and its variant
        self._facts: tuple[tuple[int, str], Facts] | None = None
        self._bundles: dict[str, Bundle] = {}
        self._bus: BootRunner | None = None
        strategy.watched.watch.log_to(self.log)

    @property
    def log(self) -> Path:
        """The session's console log."""
        return self.logs / self.board.name / "console.log"

    def boot(self, variant: Variant, source: Path) -> None:
        """Have this variant's shell up: in the running boot where nothing else was measured in it, else in a new one.

        `source` is the file that names the variant; images that are no entries of `images:` lie beside it.
        Raises UserError and StrategyError.
        """
        strategy = self.strategy
        bundle = self._bundle(variant, source)
        life, last = self._life
        spoilt = life == strategy.lives and last not in (
            "",
            variant.name,
        )  # by knobs that cannot be taken back
        other = strategy.bundle is not None and strategy.bundle.digest != bundle.digest
        if strategy.status is not Status.off and (spoilt or other):
            strategy.transition("off")
        strategy.bundle = bundle
        strategy.transition("shell")
        if self._boot is not None and (self._life[0] != strategy.lives):
            self.commit()

    def facts(self, variant: Variant) -> Facts:
        """What the board says of itself once the variant's knobs are set, asked once in a boot. Raises BoardError."""
        life = (self.strategy.lives, variant.name)
        if self._facts is None or self._facts[0] != life:
            self._life = life
            block, wire = self.board.farm, ConsoleWire(self.strategy.watched)
            found = ask(wire, block.disk.controller, variant.knobs, block.deadlines.facts)
            self._facts = life, found
        return self._facts[1]

    def measure(self, variant: Variant, workload: Workload, trials: int, source: Path) -> Measured:
        """Boot the variant if need be, prove it, and run the workload `trials` times.

        Raises NotMeasured for trials that do not count, UserError, and BoardError where the board fails or its disk
        is not the declared one; the board is switched off then.
        """
        self.boot(variant, source)
        strategy = self.strategy
        campaign = _campaign(source, variant, workload, trials)
        self._begin(variant)
        task = Task(self.run, self.board, campaign, self.logs, {variant.name: self._bundle(variant, source)})
        runner = BootRunner(task, strategy, lambda message: None)
        if self._bus is not None:
            runner.baseline_bus = self._bus.baseline_bus
        before = self._boot or BootRecord(
            run_id=self.run,
            board=self.board.name,
            index=self.boots,
            block=0,
            variant=variant.name,
            attempt=0,
            status="failed",
            reason="",
            started=time.time(),
            ended=0.0,
            log_path=str(self.log),
        )
        self._life = (strategy.lives, variant.name)
        try:
            after = runner.measure(PlannedBoot(before.index, before.block, variant.name), before)
        except Exception as problem:
            raise self._failed(before, problem) from problem
        self._bus = runner
        seen = Counter(one.workload for one in before.trials)
        found = tuple(replace(one, rep=one.rep + seen[one.workload]) for one in after.trials)
        if after.status == "void" and before.trials:
            # what was measured before in this boot was proven then, and stays good
            after = replace(after, status=before.status, reason=before.reason)
        self._boot = replace(after, trials=(*before.trials, *found), ended=time.time())
        if bad := [f"{one.workload}: {one.status}: {one.reason}" for one in found if one.status != "ok"]:
            raise NotMeasured("\n".join(dict.fromkeys(bad)))
        return Measured(self.run, self.board.name, variant.name, workload.name, found, after.facts)

    def commit(self) -> None:
        """Store the boot that is over, if anything was measured in it. Raises StoreError."""
        boot, self._boot = self._boot, None
        if boot is not None and self._store is not None:
            self._store.commit_boot(boot)
            self.boots += 1
            self.trials += len(boot.trials)

    def finish(self, status: Literal["done", "interrupted"]) -> None:
        """Store what is left and end the run, if anything was measured. Raises StoreError.

        The board stays as it is, for whoever sits before it.
        """
        self.strategy.watched.watch.log_to(None)
        if self._store is not None:
            with self._store as store:
                self.commit()
                store.finish_run(self.run, status)
            self._store = None

    def explain(self, problem: BaseException) -> FarmError:
        """An error of ours for what broke: board, step, reason, last console lines, log."""
        return explain(problem, self.board.name, self.log)

    def _bundle(self, variant: Variant, source: Path) -> Bundle:
        if variant.name not in self._bundles:
            campaign = _campaign(source, variant)
            self._bundles[variant.name] = make_bundle(self.board, campaign, variant, self.home / "bundles")
        return self._bundles[variant.name]

    def _begin(self, variant: Variant) -> None:
        if self._store is not None:
            return
        variants = self._variants or (variant,)
        # the golden image is one by itself, unless a test names another
        baseline = max(variants, key=lambda one: (one.baseline, one is not GOLDEN)).name
        store = Store.open(database(self.home), create=True)
        store.begin_run(
            RunRecord(
                id=self.run,
                campaign=NAME,
                campaign_text="",
                seed=0,
                started=time.time(),
                host=socket.gethostname(),
                version=__version__,
                settings={
                    "baseline": baseline,
                    "variants": [one.name for one in variants],
                    "order": "tests",
                    **of_boards([self.board], {}),
                },
            )
        )
        self._store = store

    def _failed(self, boot: BootRecord, problem: Exception) -> FarmError:
        """The boot goes on record as failed, and the next measurement gets a new one."""
        found, error = cause(problem), self.explain(problem)
        if not isinstance(found, UserError):
            failed = as_failed(boot, found, error, self.strategy.watched.watch.tail)
            self._boot = replace(failed, ended=time.time())
            self.commit()
        try:
            self.strategy.recover()
        except FarmError as second:
            self.strategy.broken = second  # labgrid then skips what else needs this board
        return error
