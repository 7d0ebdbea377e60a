"""Everything that a report says of one run, as plain data: made once here, shown by terminal, mail, markdown and HTML."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farm.analysis.across import Across, BoardVerdict, across
from farm.campaign import Campaign
from farm.report import calibration, compare_view, confirmation
from farm.report.boards import Board, boards_of
from farm.report.compare_view import CompareTable
from farm.report.doubts import Doubt, Shares, bus_shares, doubts
from farm.report.recorded import campaign_of
from farm.report.series import BoardSeries, by_board
from farm.report.verdicts import BANDWIDTH, TAILS, TIMES, Band, Judged, band_of, judge, variants_of
from farm.store.db import Store
from farm.store.records import RunRecord, StoredBoot, StoredTrial

PERCENTILES = (
    "lat_p50_ns", "lat_p90_ns", "lat_p95_ns", "lat_p99_ns", "lat_p99.9_ns", "lat_p99.99_ns", "lat_max_ns",
)  # fmt: skip
"""Metrics that make a curve of latencies, in its order."""
_READ_AT_EASE = 20_000


@dataclass(frozen=True)
class NoiseRow:
    """What a board's boots of one and the same kernel did in one series and metric, by an A/A run.

    `spread` is a standard deviation between `boots` boots, in logs, `upper` its upper 95 % bound; `band` the share that
    noise alone moves a comparison of as many boots per variant as the run had.
    """

    board: str
    card: str
    label: str
    metric: str
    boots: int
    spread: float
    upper: float
    band: float


@dataclass(frozen=True)
class Study:
    """A run and what is to be said of it.

    `table` is the main comparison (bandwidths), `tails` those of latency percentiles; `judged` holds the values
    behind them, in the same order. `commands` has each workload's command line as a board ran it. `noise` is what an A/A
    run found.
    """

    run: RunRecord
    campaign: Campaign | None
    boots: Sequence[StoredBoot]
    variants: tuple[str, ...]
    table: CompareTable
    tails: tuple[CompareTable, ...]
    judged: tuple[Judged, ...]
    boards: tuple[Board, ...]
    agreement: tuple[Across, ...]
    shares: Shares
    doubts: tuple[Doubt, ...]
    commands: Mapping[str, str]
    noise: tuple[NoiseRow, ...]

    @property
    def tables(self) -> tuple[CompareTable, ...]:
        """The main table, then the tails'."""
        return (self.table, *self.tails)


def study(store: Store, run: str, *, unconfirmed: bool = False) -> Study:
    """What is to be said of the run with this id, beginning of an id, or `latest`.

    With `unconfirmed`, slower is called what this run alone calls so, also where it has to be measured again first.
    Raises UserError for a run that is not there or lacks its baseline; StoreError as the store does.
    """
    record = store.run(run)
    boots = store.boots(record.id)
    variants = variants_of(record, boots)
    base = compare_view.baseline_of(record, variants)
    campaign = campaign_of(record)
    bands: Mapping[str, Band] = campaign.own_bands if campaign else {}
    main = judge(store, record, boots, BANDWIDTH, baseline=base, bands=bands)
    if np.isnan(main[0].rows.measured).all():
        main = judge(store, record, boots, TIMES, baseline=base, bands=bands) or main
    judged = (*main, *judge(store, record, boots, TAILS, baseline=base, bands=bands))
    if not unconfirmed:
        judged = confirmation.confirmed(store, record, judged, baseline=base, bands=bands)
    if record.settings.get("aa"):
        judged = tuple(_false_alarms(one) for one in judged)
    table, *tails = (
        compare_view.build(
            record,
            one.rows,
            boots,
            metric=one.metric,
            baseline=base,
            verdicts=one.verdicts,
            tables=one.tables,
        )
        for one in judged
    )
    boards = boards_of(record, boots, variants)
    shares = bus_shares(table, boards, judged[0].tables) if judged[0].metric == "bw_bytes" else {}
    firsts = _first_trials(store, record, boots)
    return Study(
        run=record,
        campaign=campaign,
        boots=boots,
        variants=tuple(variants),
        table=table,
        tails=tuple(compare_view.measured(tail) for tail in tails),
        judged=judged,
        boards=boards,
        agreement=_agreement(record, judged[0], boards, bands),
        shares=shares,
        doubts=(
            *_of_bands(record, boots),
            *doubts(
                campaign=campaign,
                boots=boots,
                tables=judged[0].tables,
                shares=shares,
                firsts=firsts,
                imported=bool(record.settings.get("imported")),
                synthetic={board.name for board in boards if board.synthetic},
            ),
        ),
        commands=_commands(firsts),
        noise=tuple(_noise(store, record, boards)),
    )


def latencies(store: Store, one: Study) -> dict[str, Mapping[str, BoardSeries]]:
    """Latency tables by metric and board, for plots: the tails, and for runs that are read in a moment the others too."""
    found = {judged.metric: judged.tables for judged in one.judged if judged.metric in PERCENTILES}
    if found and len(one.judged[0].rows) <= _READ_AT_EASE:
        names = [str(name) for name in one.run.settings.get("workloads", ())]
        for metric in PERCENTILES:
            if metric not in found:
                found[metric] = by_board(store.values(one.run.id, metric), names)
    return found


def as_dict(one: Study) -> dict[str, Any]:
    """The study as JSON values: the main table's keys, and `tails`, `boards`, `agreement`, `bus_shares`, `doubts`,
    `commands` beside them. Rates in bytes/second, latencies in nanoseconds, shares and spreads as fractions."""
    return {
        **compare_view.as_dict(one.table),
        "tails": [compare_view.as_dict(tail) for tail in one.tails],
        "boards": [dataclasses.asdict(board) for board in one.boards],
        "agreement": [dataclasses.asdict(found) for found in one.agreement],
        "bus_shares": [
            {"board": board, "variant": variant, "label": label, **dataclasses.asdict(share)}
            for (board, variant, label), share in one.shares.items()
        ],
        "doubts": [dataclasses.asdict(doubt) for doubt in one.doubts],
        "commands": dict(one.commands),
        "branch": one.run.settings.get("branch", ""),
        "looks": one.run.settings.get("looks", 1),
        "settled": dict(one.run.settings.get("settled", {})),
        "noise": [dataclasses.asdict(row) for row in one.noise],
    }


def _first_trials(store: Store, run: RunRecord, boots: Sequence[StoredBoot]) -> list[StoredTrial]:
    """The trials of each variant's first good boot on each board; of all boots where the run was imported."""
    chosen: dict[tuple[str, str], StoredBoot] = {}
    if run.settings.get("imported"):
        return store.trials(run.id)
    for boot in boots:
        if boot.status == "ok":
            chosen.setdefault((boot.board, boot.variant), boot)
    return [trial for boot in chosen.values() for trial in store.trials(run.id, boot_id=boot.id)]


def _commands(trials: Sequence[StoredTrial]) -> dict[str, str]:
    """One command line per workload. dd is recorded with the shell text that times it; what it was is in the facts."""
    found: dict[str, str] = {}
    for trial in trials:
        command = trial.facts.get("command")
        text = command if isinstance(command, str) and command else trial.command
        if text:
            found.setdefault(trial.workload, text)
    return found


def _of_bands(run: RunRecord, boots: Sequence[StoredBoot]) -> Iterator[Doubt]:
    for board, workloads in calibration.wide_bands(run).items():
        yield Doubt(
            "wide-band",
            f"noise alone moves these by more than {100 * calibration.WIDE_BAND:.0f} %, which the measured band then lets "
            "pass: `same` says little",
            "find out what disturbs the board, and measure the band anew",
            (board,),
            tuple(workloads),
        )
    for board, (measured, found) in calibration.other_cards(run, boots).items():
        yield Doubt(
            "calibrated-another-card",
            f"the bands were measured with card {measured or 'unknown'}, and this run found {found or 'none'}",
            "measure them anew by farm run --aa",
            (board,),
        )


def _false_alarms(judged: Judged) -> Judged:
    """An A/A run's verdicts: what is called a change there is none."""
    verdicts = {
        key: dataclasses.replace(
            one,
            reason=f"False alarm, since both names are the same variant. {one.reason}",
            flags=(*one.flags, "false-alarm"),
        )
        if one.verdict in ("faster", "slower")
        else one
        for key, one in judged.verdicts.items()
    }
    return dataclasses.replace(judged, verdicts=verdicts)


def _noise(store: Store, run: RunRecord, boards: Sequence[Board]) -> Iterator[NoiseRow]:
    if not run.settings.get("aa"):
        return
    found = calibration.noise_in(store, run)
    for board in boards:
        for (metric, series), noise in found.get(board.name, {}).items():
            band = noise.band(max(noise.boots // 2, 1))
            yield NoiseRow(
                board.name, board.card, series.label, metric, noise.boots, noise.sd, noise.upper, band
            )


def _agreement(
    run: RunRecord, judged: Judged, boards: Sequence[Board], bands: Mapping[str, Band]
) -> tuple[Across, ...]:
    cards = {board.name: board.named_card for board in boards}
    workloads: dict[str, float] = {}
    for board, table in judged.tables.items():
        for one in table.series:
            band = band_of(run, board, judged.metric, one, bands)
            workloads[one.label] = max(
                band, workloads.get(one.label, 0.0)
            )  # boards may have measured their own
    return across(
        [BoardVerdict(board, cards.get(board, ""), said) for (board, _, _), said in judged.verdicts.items()],
        band=workloads,
        higher_is_better=judged.higher_is_better,
    )
