"""A run as a person starts it: envs, lab, plan, progress, table at the end, and where everything lies."""

from __future__ import annotations

import dataclasses
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from farm.campaign import Campaign, load_campaign
from farm.errors import UserError
from farm.fleet import boards as fleet
from farm.fleet import choice, coordinator
from farm.fleet.crew import Crew
from farm.influx.config import load_config
from farm.influx.findings import put_verdicts
from farm.paths import home
from farm.report import terminal
from farm.report.study import Study, study
from farm.runner import controller
from farm.runner.messages import BootDone, Message
from farm.runner.planning import check_boards, plan_run
from farm.runner.progress import ProgressView
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
) -> int:
    """Run the campaign in `file` and print what came of it; returns the exit code.

    `boards` are names or tags (`board=rk3568`, then `count` of them); who is busy is waited for up to `wait_s` seconds.
    `start` brings virtual boards up first. With
    `check` boards have to pass their health check, which also lets quarantined ones back. `through` is the HOST:PORT
    of labgrid's coordinator to take the boards from, or `lab` for the virtual lab's. Raises UserError, BoardError and
    StoreError.
    """
    campaign = load_campaign(file)
    if not boards:
        check_boards(campaign)
    asked = list(boards or campaign.boards)
    if not asked:
        raise UserError("names no boards; add boards: or give --board", file=file)

    def say(line: str) -> None:
        err.print(line, markup=False, soft_wrap=True)

    wishes = choice.wishes(asked, count if count is not None or boards else campaign.count)
    first = choice.first(wishes, home(), through, start=start, check=check, busy=wait_s > 0)
    address = None if through == "lab" else through
    found = fleet.ready(first, home(), start=start, say=say, elsewhere=address is not None)
    if through == "lab":
        address = coordinator.up(home())
    if address:
        choice.remote(found)
    database = home() / "farm.db"
    with Store.open(database, create=True) as store, ExitStack() as held:
        if not check:
            choice.fit(found, store, say)
        going_on = store.run(resume).id if resume else None
        crew = Crew(
            wishes,
            home(),
            store,
            what=f"farm run {campaign.name}",
            say=say,
            address=address,
            check=check,
            shares=store.run(going_on).settings.get("shares") if going_on else None,
        )
        envs = held.enter_context(crew).gather(wait_s)
        names = [env.name for env in envs]
        seed = _seed(store, campaign, seed, going_on)
        plan = plan_run(campaign, envs, seed)
        total = campaign.boots * len(campaign.variants)
        out.print(
            f"{campaign.name}: {total} boots on each of {', '.join(names)}, seed {seed}, about "
            f"{format_duration(plan.seconds)}",
            markup=False,
            soft_wrap=True,
        )
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with _exported(database) as nudge:
                with ProgressView(err, total, plan.seconds / total, names) as view:

                    def tell(message: Message) -> None:
                        view(message)
                        if isinstance(message, BootDone):
                            nudge()

                    outcome = controller.run(
                        campaign,
                        envs,
                        store,
                        home(),
                        seed=seed,
                        tell=tell,
                        resume=going_on,
                        check=check,
                        crew=crew,
                    )
                made = study(store, outcome.run_id)
                _record_verdicts(store, made)
        finally:
            signal.signal(signal.SIGTERM, before)
        terminal.print_study(made, out)
    for text in (
        f"run:      {outcome.run_id} ({outcome.status})",
        f"database: {database}",
        f"logs:     {home() / 'logs' / outcome.run_id}",
    ):
        out.print(text, markup=False, soft_wrap=True)
    return outcome.exit_code


def _record_verdicts(store: Store, made: Study) -> None:
    """Verdicts wait in the outbox like every other result, whether or not a server is configured."""
    for judged in made.judged:
        for board, series in judged.tables.items():
            for direction in dict.fromkeys(one.rw for one in series.series):
                names = {one.label: one.workload for one in series.series if one.rw == direction}
                found = [
                    dataclasses.replace(verdict, workload=names[label])
                    for (where, _, label), verdict in judged.verdicts.items()
                    if where == board and label in names
                ]
                put_verdicts(store, made.run.id, board, found, metric=judged.metric, direction=direction)


@contextmanager
def _exported(database: Path) -> Iterator[Callable[[], None]]:
    """Results go to InfluxDB beside the run where a server is configured; the run never waits for it."""
    config = load_config(home())
    if config is None:
        yield lambda: None
        return
    from farm.influx.exporter import Exporter  # influxdb-client takes half a second to import

    exporter = Exporter.start(database, config)
    try:
        yield exporter.nudge
    finally:
        exporter.nudge()
        exporter.stop()


def _seed(store: Store, campaign: Campaign, seed: int | None, resume: str | None) -> int:
    if resume is None:
        return next((one for one in (seed, campaign.seed) if one is not None), secrets.randbelow(2**31))
    record = store.run(resume)
    if record.settings.get("imported"):
        raise UserError(f"run {record.id} was imported, so there is nothing to go on with")
    if record.campaign_text != campaign.source_text:
        raise UserError(
            f"run {record.id} was made from another text of this campaign; results of both cannot be mixed",
            file=campaign.source,
        )
    return record.seed
