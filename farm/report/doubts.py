"""What a reader has to know beside the verdicts: workload lint, shares of the bus, spread, drift, outliers, moved boards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from farm.analysis.flags import Flag, fact_flags, value_flags
from farm.analysis.limits import BusShare, bus_share
from farm.campaign import Campaign
from farm.report.boards import Board
from farm.report.compare_view import CompareTable
from farm.report.series import BoardSeries
from farm.store.records import StoredBoot, StoredTrial
from farm.units import format_percent, format_rate
from farm.workload.lint import Lint, known, lint

Shares = Mapping[tuple[str, str, str], BusShare]
"""By board, variant and label of the series."""


@dataclass(frozen=True)
class Doubt:
    """One warning: a stable code, what is the matter, what would be right, and which boards and workloads it is about."""

    code: str
    message: str
    remedy: str = ""
    boards: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()


def bus_shares(
    table: CompareTable, boards: Iterable[Board], tables: Mapping[str, BoardSeries]
) -> dict[tuple[str, str, str], BusShare]:
    """Bandwidths as shares of what each board's bus carries: the medians of boots, but of imported results the means,
    which is what is posted. Boards without `ios` have none."""
    limits = {(board.name, variant): limit for board in boards for variant, limit in board.limits.items()}
    found = {}
    for block in table.blocks:
        for row in block.rows:
            for side in (row.base, row.cand):
                if side is None or side.value is None:
                    continue
                value = (
                    _posted_mean(tables[block.board], side.variant, row.label)
                    if table.imported
                    else side.value
                )
                share = bus_share(value, limits.get((block.board, side.variant)))
                if share is not None:
                    found[block.board, side.variant, row.label] = share
    return found


def _posted_mean(table: BoardSeries, variant: str, label: str) -> float:
    column = table.values[:, [one.label for one in table.series].index(label)]
    return float(np.nanmean(column[[name == variant for name in table.variants]]))


def doubts(
    *,
    campaign: Campaign | None,
    boots: Sequence[StoredBoot],
    tables: Mapping[str, BoardSeries],
    shares: Shares,
    firsts: Sequence[StoredTrial],
    imported: bool,
    synthetic: Set[str] = frozenset(),
) -> tuple[Doubt, ...]:
    """All warnings of a run, equal ones once.

    `tables` are the bandwidths by board, `firsts` the trials of each variant's first good boot on each board,
    `synthetic` the boards whose card is emulated.
    """
    found: list[Doubt] = []
    if campaign is not None:
        found += _campaign_lint(campaign, boots)
    found += _stored_lint(firsts, boots)
    found += _bus(shares, synthetic)
    if not imported:
        found += _flags(boots, tables, firsts)
    return tuple(_merged(found))


def _campaign_lint(campaign: Campaign, boots: Sequence[StoredBoot]) -> Iterator[Doubt]:
    for board in dict.fromkeys(boot.board for boot in boots):
        facts: Mapping[str, Any] = next(
            (boot.facts for boot in boots if boot.board == board and boot.facts), {}
        )
        for workload in campaign.workloads:
            for one in lint(workload, **known(facts)):
                yield Doubt(one.code, one.message, one.remedy, (board,), (workload.name,))


def _stored_lint(trials: Iterable[StoredTrial], boots: Sequence[StoredBoot]) -> Iterator[Doubt]:
    """What the import of a posted result found in its command lines; names the variants where not all have it."""
    places = {boot.id: (boot.board, boot.variant) for boot in boots}
    found: dict[tuple[Lint, str], set[tuple[str, str]]] = {}
    for trial in trials:
        for entry in trial.facts.get("lint") or ():
            if isinstance(entry, Mapping):
                one = Lint(*(str(entry.get(name, "")) for name in ("code", "message", "remedy")))
                found.setdefault((one, trial.workload), set()).add(places[trial.boot_id])
    for (one, workload), where in found.items():
        for board in sorted({board for board, _ in where}):
            mine = sorted(variant for name, variant in where if name == board)
            everywhere = {variant for name, variant in places.values() if name == board} == set(mine)
            named = board if everywhere else f"{board} {' and '.join(mine)}"
            yield Doubt(one.code, one.message, one.remedy, (named,), (workload,))


def _bus(shares: Shares, synthetic: Set[str]) -> Iterator[Doubt]:
    """One entry per board, variant and flag, with every workload's share; an emulated bus is held to nothing."""
    groups: dict[tuple[str, str, str], list[tuple[str, BusShare]]] = {}
    for (board, variant, label), share in shares.items():
        if share.flag is not None:
            groups.setdefault((board, variant, share.flag), []).append((label, share))
    for (board, variant, flag), members in groups.items():
        listed = ", ".join(
            f"{label} {format_percent(share.share)} % ({format_rate(share.bandwidth)})"
            for label, share in members[:8]
        )
        listed += f" and {len(members) - 8} more" if len(members) > 8 else ""
        limit = members[0][1].limit / 1e6
        if board in synthetic:
            if flag != "above-bus-limit":
                continue
            flag = "bus-not-clocked"
            message = f"{variant} is above the {limit:.3g} MB/s of a real bus, since the emulated one has no clock: {listed}"
            remedy = "read nothing into shares of this bus"
        elif flag == "above-bus-limit":
            message = (
                f"{variant} is above what the bus carries ({limit:.3g} MB/s), which is impossible: {listed}"
            )
            remedy = "the data came from memory, or `ios` is not of this run"
        else:
            message = f"{variant} reaches less than 15 % of what the bus carries ({limit:.3g} MB/s): {listed}"
            remedy = "look at the clock that is really set, unless small or random requests explain it"
        yield Doubt(flag, message, remedy, (board,), tuple(label for label, _ in members))


def _flags(
    boots: Sequence[StoredBoot], tables: Mapping[str, BoardSeries], firsts: Sequence[StoredTrial]
) -> Iterator[Doubt]:
    versions = {
        trial.boot_id: trial.facts["fio_version"] for trial in firsts if trial.facts.get("fio_version")
    }
    for board in dict.fromkeys(boot.board for boot in boots):
        good = [boot for boot in boots if boot.board == board and boot.status == "ok"]
        facts = [
            {**boot.facts, "fio_version": versions[boot.id]} if boot.id in versions else boot.facts
            for boot in good
        ]
        found: list[Flag] = list(fact_flags(facts, [boot.variant for boot in good]))
        if board in tables:
            table = tables[board]
            labels = [one.label for one in table.series]
            found += value_flags(table.values, table.starts, table.variants, labels)
        wide = [flag for flag in found if flag.code == "spread"]
        if wide:
            listed = "; ".join(flag.message.partition(" spread between")[0] for flag in wide[:8])
            listed += f" and {len(wide) - 8} more" if len(wide) > 8 else ""
            names = tuple(dict.fromkeys(flag.workload for flag in wide if flag.workload))
            yield Doubt("spread", f"boots spread by more than 10 %: {listed}", "", (board,), names)
        for flag in found:
            if flag.code == "spread":
                continue
            yield Doubt(flag.code, flag.message, "", (board,), (flag.workload,) if flag.workload else ())


def _merged(found: Iterable[Doubt]) -> Iterator[Doubt]:
    merged: dict[tuple[str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for one in found:
        boards, workloads = merged.setdefault((one.code, one.message, one.remedy), ({}, {}))
        boards.update(dict.fromkeys(one.boards))
        workloads.update(dict.fromkeys(one.workloads))
    for key, (boards, workloads) in merged.items():
        yield Doubt(*key, boards=tuple(boards), workloads=tuple(workloads))
