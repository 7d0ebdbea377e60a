"""A run as a person starts it: envs, lab, plan, progress, table at the end, and where everything lies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from farm.campaign import Campaign, as_run, load_campaign
from farm.errors import BoardError, UserError
from farm.fleet import boards as fleet
from farm.fleet import choice, coordinator
from farm.fleet.crew import Crew
from farm.influx.config import load_config
from farm.paths import database, home
from farm.plan import Plan
from farm.report.calibration import measured_bands, newest
from farm.runner import controller
from farm.runner.controller import Outcome
from farm.runner.messages import BootDone, Message
from farm.runner.planning import check_boards, images_of, plan_run
from farm.runner.progress import ProgressView
from farm.runner.purpose import Purpose
from farm.schedule import seed_of
from farm.store.db import Store
from farm.units import format_duration


def run_campaign(
    file: Path,
    *,
    boards: Sequence[str] | None,
    seed: int | None,
    resume: str | None,
    start: bool,
    out: Console,
    err: Console,
    count: int | None = None,
    wait_s: float = 0.0,
    check: bool = False,
    through: str | None = None,
    purpose: Purpose | None = None,
) -> int:
    """Run the campaign in `file` and print what came of it; returns the exit code.

    `boards` are names or tags (`board=rk3568`, then `count` of them), by default the campaign's, or those of the run
    `resume`; who is busy is waited for up to `wait_s` seconds. `start` brings virtual boards up first. With `check` boards
    have to pass their health check, which also lets quarantined ones back. `through` is the HOST:PORT of labgrid's
    coordinator to take the boards from, or `lab` for the virtual lab's. Raises UserError, BoardError and StoreError.
    """
    campaign = load_campaign(file)
    purpose = purpose or Purpose()
    settings: Mapping[str, Any] = purpose.settings(campaign)
    if not boards:
        check_boards(campaign)
    asked = list(boards or campaign.boards)
    if count is None and not boards:
        count = campaign.count
    path = database(home())
    with _ended_by_sigterm(), _exported(path, err) as nudge:
        session = _Session(path, start, wait_s, check, through, out, err, nudge)
        if resume is not None:
            with Store.open(path) as store:
                resume, settings = _going_on(store, campaign, resume, purpose)
            if not boards:
                asked, count = settings.get("asked", asked), settings.get("count", count)
        outcomes = [session.measure(campaign, asked, count, seed, resume, settings)]
        code = outcomes[0].exit_code
        if settings.get("confirm") and outcomes[0].status == "done":
            try:
                again = session.measure_again(campaign, outcomes[0].run_id)
            except BoardError as problem:
                session.say(f"what is slower was not measured again: {problem}")
                code = code or problem.exit_code
            else:
                outcomes += [again] if again else []
                code = code or (again.exit_code if again else 0)
        from farm.runner.conclude import conclude  # numpy and scipy, when no board is at work any more

        with Store.open(path) as store:
            said = conclude(store, outcomes[0].run_id, out, purpose.fail_on)
    lines = [f"run:      {one.run_id} ({one.status})" for one in outcomes]
    lines += [f"database: {path}"]
    lines += [f"logs:     {home() / 'logs' / one.run_id}" for one in outcomes]
    if said:
        lines.append(said)
        code = 1
    for text in lines:
        out.print(text, markup=False, soft_wrap=True)
    return code


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: boards are switched off, and what is there stays."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class _Session:
    """How this call of `farm run` gets its boards and where it talks; see run_campaign."""

    database: Path
    start: bool
    wait_s: float
    check: bool
    through: str | None
    out: Console
    err: Console
    nudge: Callable[[], None]

    def say(self, line: str) -> None:
        """A line about the run, beside its results."""
        self.err.print(line, markup=False, soft_wrap=True)

    def measure(
        self,
        campaign: Campaign,
        asked: Sequence[str],
        count: int | None,
        seed: int | None,
        resume: str | None,
        settings: Mapping[str, Any],
    ) -> Outcome:
        """One run, or what is left of the run `resume`, on boards that are taken for it and given back."""
        campaign = as_run(campaign, settings)
        wishes = choice.wishes(asked, count)
        first = choice.first(
            wishes, home(), self.through, start=self.start, check=self.check, busy=self.wait_s > 0
        )
        address = None if self.through == "lab" else self.through
        found = fleet.ready(
            first,
            home(),
            start=self.start,
            say=self.say,
            elsewhere=address is not None,
            used=lambda board: images_of(campaign, board),
        )
        if self.through == "lab":
            address = coordinator.up(home())
        if address:
            choice.remote(found)
        with Store.open(self.database, create=True) as store, ExitStack() as held:
            if not self.check:
                choice.fit(found, store, self.say)
            crew = Crew(
                wishes,
                home(),
                store,
                what=f"farm run {campaign.name}",
                say=self.say,
                address=address,
                check=self.check,
                shares=settings.get("shares") if resume else None,
            )
            envs = held.enter_context(crew).gather(self.wait_s)
            names = [env.name for env in envs]
            if resume is not None:
                record = store.run(resume)
                seed = record.seed
                if settings.get("confirm") and not record.settings.get("confirm"):
                    store.set_settings(resume, {**record.settings, "confirm": True})
            else:
                seed = seed_of(seed, campaign.seed)
                settings = {**settings, "asked": list(asked), "count": count}
            calibrations = newest(store, campaign, names)
            if resume is None and "measured_bands" not in settings:
                bands = measured_bands(campaign, calibrations)
                settings = {**settings, "measured_bands": bands} if any(bands.values()) else settings
            plan = plan_run(campaign, envs, seed, calibrations, crew.shares, store.health.facts(names))
            total = campaign.boots * len(campaign.variants)
            self.out.print(
                f"{campaign.name}: {_who_does_what(plan, total)}, seed {seed}, about {format_duration(plan.seconds)}",
                markup=False,
                soft_wrap=True,
            )
            for finding in () if resume else plan.findings:
                self.say(f"doubt: {finding}")
            boots = {one.board.name: len(one.boots) for one in plan.boards}
            with ProgressView(self.err, total, plan.seconds / max(boots.values()), boots) as view:

                def tell(message: Message) -> None:
                    view(message)
                    if isinstance(message, BootDone):
                        self.nudge()

                return controller.run(
                    campaign,
                    envs,
                    store,
                    home(),
                    seed=seed,
                    tell=tell,
                    resume=resume,
                    check=self.check,
                    crew=crew,
                    settings=settings,
                )

    def measure_again(self, campaign: Campaign, run_id: str) -> Outcome | None:
        """Fresh boots, in a run of its own, for what is slower in this one; None where nothing is, or it was done."""
        from farm.runner.conclude import slower as slower_in

        with Store.open(self.database) as store:
            run = store.run(run_id)
            slower, other = slower_in(store, run)
        if slower is None or (other is not None and other.status == "done"):
            return None
        self.say(
            f"slower, so measured again with fresh boots: {', '.join(slower.workloads)} on {', '.join(slower.boards)}"
        )
        if other is not None:
            return self.measure(campaign, slower.boards, None, None, other.id, other.settings)
        kept = {
            name: run.settings[name]
            for name in ("branch", "commits", "measured_bands")
            if name in run.settings
        }
        settings = {
            **kept,
            "confirms": run_id,
            "variants": [
                name for name in campaign.variants if name == campaign.baseline or name in slower.candidates
            ],
            "workloads": list(slower.workloads),
        }
        return self.measure(campaign, slower.boards, None, (run.seed + 1) % 2**63, None, settings)


def _who_does_what(plan: Plan, total: int) -> str:
    """`8 boots on each of a, b; 8 boots on c and d together`."""
    alone = [one.board.name for one in plan.boards if not one.shares_with]
    groups = {
        tuple(sorted((one.board.name, *one.shares_with))): None for one in plan.boards if one.shares_with
    }
    parts = [f"{total} boots on each of {', '.join(alone)}"] if alone else []
    return "; ".join([*parts, *(f"{total} boots on {', '.join(names)} together" for names in groups)])


@contextmanager
def _exported(database: Path, err: Console) -> Iterator[Callable[[], None]]:
    """Results go to InfluxDB beside the run where a server is configured; the run never waits for it.

    What did not arrive is said at the end.
    """
    config = load_config(home())
    if config is None:
        yield lambda: None
        return
    from farm.influx.command import report_lines
    from farm.influx.exporter import Exporter  # influxdb-client takes half a second to import

    exporter = Exporter.start(database, config)
    try:
        yield exporter.nudge
    finally:
        exporter.nudge()
        report = exporter.stop()
        if report.problem or report.refused:
            for line in report_lines(report):
                err.print(f"InfluxDB: {line}", markup=False, soft_wrap=True)


def _going_on(
    store: Store, campaign: Campaign, resume: str, purpose: Purpose
) -> tuple[str, Mapping[str, Any]]:
    """The id and settings of a run that is to go on. Raises UserError where it cannot."""
    record = store.run(resume)
    if record.settings.get("imported"):
        raise UserError(f"run {record.id} was imported, so there is nothing to go on with")
    if record.campaign_text != campaign.source_text:
        raise UserError(
            f"run {record.id} was made from another text of this campaign; results of both cannot be mixed",
            file=campaign.source,
        )
    return record.id, purpose.on_resume(record.settings, record.id)
