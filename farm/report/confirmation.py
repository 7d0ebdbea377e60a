"""Measured again before anyone is told: verdicts `slower` that hold in the run and in the one that confirms it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from farm.analysis.compare import Verdict
from farm.report.verdicts import BANDWIDTH, TAILS, Band, Judged, judge
from farm.store.db import Store
from farm.store.records import RunRecord


@dataclass(frozen=True)
class Wanted:
    """What has to be measured again: every board on which something is slower, and all that is slower anywhere."""

    boards: tuple[str, ...]
    candidates: tuple[str, ...]
    workloads: tuple[str, ...]


def wanted(judged: Iterable[Judged]) -> Wanted | None:
    """What is called slower in verdicts that were not confirmed yet; None where nothing is."""
    boards: dict[str, None] = {}
    candidates: dict[str, None] = {}
    workloads: dict[str, None] = {}
    for one in judged:
        names = {
            (board, series.label): series.workload
            for board, table in one.tables.items()
            for series in table.series
        }
        for (board, candidate, label), verdict in one.verdicts.items():
            if verdict.verdict == "slower":
                boards[board] = candidates[candidate] = workloads[names[board, label]] = None
    return Wanted(tuple(boards), tuple(candidates), tuple(workloads)) if boards else None


def confirming(store: Store, run: RunRecord) -> RunRecord | None:
    """The newest run that measures the slower ones of `run` again, complete or not."""
    found = [one for one in store.runs() if one.settings.get("confirms") == run.id]
    return found[-1] if found else None


def confirmed(
    store: Store, run: RunRecord, judged: Sequence[Judged], *, baseline: str, bands: Mapping[str, Band]
) -> tuple[Judged, ...]:
    """The verdicts with each `slower` held against the confirming run: it stays where both say so.

    Runs that want no confirmation (no `confirm` in their settings) are as they were; one that was not confirmed yet
    calls nothing slower. Families have 5 % of false alarms each, so what both call slower wrongly is 5 % of 5 %.
    """
    if not run.settings.get("confirm") or baseline != run.settings.get("baseline"):
        return tuple(judged)
    other = confirming(store, run)
    again: dict[tuple[str, tuple[str, str, str]], Verdict] = {}
    if other is not None and other.status == "done":
        boots = store.boots(other.id)
        for family in (BANDWIDTH, TAILS):
            for one in judge(store, other, boots, family, baseline=baseline, bands=bands):
                again |= {(one.metric, key): verdict for key, verdict in one.verdicts.items()}
    return tuple(
        replace(
            one,
            verdicts={
                key: _held(verdict, again.get((one.metric, key)), other)
                if verdict.verdict == "slower"
                else verdict
                for key, verdict in one.verdicts.items()
            },
        )
        for one in judged
    )


def _held(first: Verdict, second: Verdict | None, other: RunRecord | None) -> Verdict:
    if other is None or other.status != "done":
        return replace(
            first,
            verdict="inconclusive",
            reason=f"Inconclusive until it is measured again with fresh boots, as this run wants. {first.reason}",
            flags=(*first.flags, "not-confirmed"),
        )
    if second is not None and second.verdict == "slower":
        return replace(
            first,
            reason=f"{first.reason} Confirmed with fresh boots in run {other.id}. {second.reason}",
            flags=(*first.flags, "confirmed"),
        )
    then = second.reason if second else "It has no value there."
    return replace(
        first,
        verdict="inconclusive",
        reason=f"Inconclusive: not confirmed with fresh boots in run {other.id}. There: {then} Before: {first.reason}",
        flags=(*first.flags, "not-confirmed"),
    )
