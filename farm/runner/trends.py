"""`farm trend`: change points over nightly runs, shown, and left in the outbox as annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.analysis.trend import Change, Trend, trends
from farm.influx.changes import change_line
from farm.influx.findings import put
from farm.report.nights import nightly
from farm.store.db import Store


def find(
    store: Store,
    *,
    metric: str = "bw_bytes",
    campaign: str | None = None,
    branch: str | None = None,
    board: str | None = None,
) -> Sequence[Trend]:
    """The trends of these series; every change point found waits in the outbox (again, it overwrites itself)."""
    found = trends(nightly(store, metric=metric, campaign=campaign, branch=branch, board=board))
    changes = [change for trend in found for change in trend.changes]
    if lines := [change_line(change, soc=_soc(store, change)) for change in changes]:
        put(store, "changepoint", lines)
    return found


def _soc(store: Store, change: Change) -> str | None:
    socs: Mapping[str, str] = store.run(change.after.run).settings.get("socs", {})
    return socs.get(change.key.board)
