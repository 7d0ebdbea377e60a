"""From the store to nightly series: one value a night for each board, card, variant and workload of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from farm.analysis.trend import Key, Night, Series
from farm.report.series import by_board
from farm.store.db import Store
from farm.store.labels import card_of, release_of
from farm.store.records import RunRecord, StoredBoot


def nightly(
    store: Store,
    *,
    metric: str = "bw_bytes",
    campaign: str | None = None,
    branch: str | None = None,
    board: str | None = None,
) -> tuple[Series, ...]:
    """All series of the metric, nights oldest first; None means all of them.

    A night's value is the median over its boots of each boot's median, in the metric's unit. Runs that are not
    done, imported ones, A/A runs and those that confirm another are no nights. A board with another card begins another
    series.
    """
    series: dict[Key, list[Night]] = {}
    for run in store.runs():
        of_branch = str(run.settings.get("branch") or "")
        if run.status != "done" or any(run.settings.get(name) for name in ("imported", "aa", "confirms")):
            continue
        if campaign not in (None, run.campaign) or branch not in (None, of_branch):
            continue
        boots = {boot.id: boot for boot in store.boots(run.id)}
        for name, table in by_board(store.values(run.id, metric)).items():
            if board not in (None, name):
                continue
            for variant in dict.fromkeys(table.variants):
                rows = [row for row, of_row in enumerate(table.variants) if of_row == variant]
                boot = boots[table.boot_ids[rows[0]]]
                for column, one in enumerate(table.series):
                    values = table.values[rows, column]
                    good = values[np.isfinite(values) & (values > 0)]
                    if len(good):
                        key = Key(
                            run.campaign,
                            of_branch,
                            name,
                            card_of(boot.facts) or "",
                            variant,
                            one.workload,
                            one.rw,
                            metric,
                        )
                        series.setdefault(key, []).append(_night(run, boot, float(median(good))))
    return tuple(Series(key, tuple(nights)) for key, nights in series.items())


def _night(run: RunRecord, boot: StoredBoot, value: float) -> Night:
    release = release_of(str(boot.facts.get("banner", "")))
    commits: Any = run.settings.get("commits")
    commit = commits.get(boot.variant, "") if isinstance(commits, Mapping) else ""
    return Night(run.id, run.started, value, release, str(commit))
