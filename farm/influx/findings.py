"""Findings into the outbox: verdicts, change points, the health of boards. Boots and runs get there by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from farm.influx.line import pack
from farm.influx.points import shape, verdict_line
from farm.store.db import Store
from farm.store.labels import card_of

if TYPE_CHECKING:
    from farm.analysis.compare import Verdict


def put(store: Store, kind: str, lines: Iterable[str], *, run_id: str | None = None) -> None:
    """Let lines (of `changepoint_line`) wait for the next push; `kind` is their measurement."""
    if found := list(lines):
        store.outbox.put(kind, pack(found), run_id=run_id)


def put_verdicts(store: Store, run_id: str, board: str, verdicts: Iterable[tuple[str, str, Verdict]]) -> None:
    """Let the verdicts of one board, each with metric and direction, wait for the next push; made again, they overwrite
    themselves.

    Card and shape of the workloads are those of the board's first boot that has them.
    """
    card, shapes = None, {}
    for boot in store.boots(run_id, board=board):
        if card := card_of(boot.facts):
            shapes = {trial.workload: shape(trial) for trial in store.trials(run_id, boot_id=boot.id)}
            break
    run = store.run(run_id)
    lines = [
        verdict_line(run, board, one, metric=metric, direction=direction, card=card, shapes=shapes)
        for metric, direction, one in verdicts
    ]
    put(store, "verdict", lines, run_id=run_id)
