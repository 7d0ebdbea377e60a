"""A change point as a point: glue between `farm trend` and the outbox."""

from __future__ import annotations

from farm.analysis.trend import Change, Night
from farm.influx.points import changepoint_line
from farm.report.trend import sentence


def change_line(change: Change, *, soc: str | None = None) -> str:
    """The `changepoint` line of a change, at the start of the first night after it."""
    key = change.key
    return changepoint_line(
        board=key.board,
        workload=key.workload,
        campaign=key.campaign,
        at=change.after.time,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        p=change.p,
        branch=key.branch or None,
        soc=soc,
        card=key.card or None,
        metric=key.metric,
        direction=key.direction,
        variant=key.variant,
        before=_names(change.before),
        after=_names(change.after),
        text=sentence(change),
    )


def _names(night: Night) -> dict[str, str]:
    return {"run": night.run, "commit": night.commit, "kernel": night.kernel}
