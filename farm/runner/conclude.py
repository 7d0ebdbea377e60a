"""What is said of a run that is over. Apart from the run itself, which does without numpy and its memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from rich.console import Console

from farm.analysis.compare import Verdict
from farm.influx.findings import put_verdicts
from farm.report import terminal
from farm.report.confirmation import Wanted, confirming, wanted
from farm.report.content import failed
from farm.report.study import study
from farm.report.verdicts import Judged
from farm.store.db import Store
from farm.store.records import RunRecord


def conclude(store: Store, run_id: str, out: Console, fail_on: Collection[str]) -> str:
    """Print the verdicts of a run and let them wait in the outbox; the sentence of what fails, empty where nothing does.

    Verdicts wait there like every other result, whether or not a server is configured. Raises StoreError.
    """
    made = study(store, run_id)
    if not made.run.settings.get("aa"):
        for board in dict.fromkeys(board for judged in made.judged for board in judged.tables):
            found = [one for judged in made.judged for one in _verdicts(judged, board)]
            put_verdicts(store, run_id, board, found)
    terminal.print_study(made, out)
    return failed(made, fail_on)


def _verdicts(judged: Judged, board: str) -> Iterator[tuple[str, str, Verdict]]:
    """The verdicts of a board with metric and direction, each under its workload's own name."""
    if (table := judged.tables.get(board)) is None:
        return
    series = {one.label: one for one in table.series}
    for (where, _, label), verdict in judged.verdicts.items():
        if where == board and (one := series.get(label)) is not None:
            yield judged.metric, one.rw, dataclasses.replace(verdict, workload=one.workload)


def slower(store: Store, run: RunRecord) -> tuple[Wanted | None, RunRecord | None]:
    """What a run calls slower before anything confirmed it, and the run that does, complete or not."""
    return wanted(study(store, run.id, unconfirmed=True).judged), confirming(store, run)
