"""What `farm trend` says of the month, night by night: the regression within three nights, the spike never."""

from __future__ import annotations

from dataclasses import replace

from farm.analysis.trend import Change, trends
from farm.report.nights import nightly

from .month import BOARDS, NIGHTS, SLOWER, SPIKE, VARIANTS, WORKLOADS, Month


def found_on(month: Month, nights: int) -> list[Change]:
    known = [replace(one, nights=one.nights[:nights]) for one in nightly(month.store)]
    return [change for trend in trends(known) for change in trend.changes]


def is_at(change: Change, place: tuple[str, str, str, int]) -> bool:
    return (change.key.board, change.key.variant, change.key.workload) == place[:3]


def test_the_month_is_whole(month: Month) -> None:
    assert len(month.found) == len(BOARDS) * len(WORKLOADS) * len(VARIANTS)
    assert {len(one.series.nights) for one in month.found} == {NIGHTS}


def test_the_regression_is_found_on_the_third_night(month: Month) -> None:
    assert not [change for change in found_on(month, SLOWER[3] + 1) if is_at(change, SLOWER)]
    (change,) = [change for change in found_on(month, SLOWER[3] + 3) if is_at(change, SLOWER)]
    assert change.verdict == "slower"
    assert change.after.run == f"202512-{SLOWER[3]:02d}-nightly"
    assert change.before.run == f"202512-{SLOWER[3] - 1:02d}-nightly"
    assert change.low < 0.95 < change.high


def test_the_spike_is_never_found(month: Month) -> None:
    for nights in range(SPIKE[3] + 1, NIGHTS + 1):
        assert not [change for change in found_on(month, nights) if is_at(change, SPIKE)], nights


def test_the_whole_month_has_few_false_alarms(month: Month) -> None:
    """95 quiet series at alpha 1 %: more than 5 alarms have a chance below 1 in 1000 (binomial)."""
    changes = [change for one in month.found for change in one.changes]
    assert [change for change in changes if is_at(change, SLOWER)]
    assert len([change for change in changes if not is_at(change, SLOWER)]) <= 5
