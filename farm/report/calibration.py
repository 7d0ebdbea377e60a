"""A/A runs in the store as calibrations: the noise of each board, card and workload, and the bands that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from farm.campaign import Campaign
from farm.report.recorded import campaign_of
from farm.store.db import Store
from farm.store.labels import card_of
from farm.store.records import RunRecord, StoredBoot
from farm.workload.model import Workload

if (
    TYPE_CHECKING
):  # numpy and scipy: a farm of many boards that has no A/A run does without them while it measures
    from farm.analysis.noise import Calibration, Calibrations, Noise
    from farm.report.series import Series

WIDE_BAND = 0.10
"""Beyond it a measured band says more of the disturbance than of the change: `same` means little."""


def noise_in(store: Store, run: RunRecord) -> dict[str, dict[tuple[str, Series], Noise]]:
    """The noise that an A/A run found, by board, metric and series; what has too few boots is left out."""
    from farm.analysis.compare import BANDWIDTH_RESOLUTION, LATENCY_RESOLUTION
    from farm.analysis.noise import noise_of
    from farm.report.series import by_board
    from farm.report.verdicts import BANDWIDTH, TAILS

    found: dict[str, dict[tuple[str, Series], Noise]] = {}
    names = [str(name) for name in run.settings.get("workloads", ())]
    for family in (BANDWIDTH, TAILS):
        resolution = BANDWIDTH_RESOLUTION if family.higher_is_better else LATENCY_RESOLUTION
        for metric in family.metrics:
            for board, table in by_board(store.values(run.id, metric), names).items():
                for column, series in enumerate(table.series):
                    noise = noise_of(table.values[:, column], table.starts, resolution)
                    if noise is not None:
                        found.setdefault(board, {})[metric, series] = noise
    return found


def newest(store: Store, campaign: Campaign, boards: Sequence[str]) -> dict[str, dict[str, Calibration]]:
    """The newest calibration of each board and workload of a campaign.

    It has to be of the card that the board's last good boot had, of the same workload (band and name apart), and of as
    many trials in a boot.
    """
    cards = {board: card_of(boot.facts) or "" for board, boot in store.health.good_boots().items()}
    found: dict[str, dict[str, Calibration]] = {board: {} for board in boards}
    for run in reversed(store.runs()):
        wanting = [board for board in boards if len(found[board]) < len(campaign.workloads)]
        if not wanting:
            break
        if not run.settings.get("aa") or run.status != "done":
            continue
        from farm.analysis.noise import Calibration

        measured = campaign_of(run)
        if measured is None or measured.trials != campaign.trials:
            continue
        noise = noise_in(store, run)
        of_run = {
            boot.board: card_of(boot.facts) or "" for boot in store.boots(run.id) if boot.status == "ok"
        }
        for board in wanting:
            if board not in noise or of_run.get(board) != cards.get(board):
                continue
            for one in campaign.workloads:
                for same in measured.workloads:
                    if _alike(one, same) and one.name not in found[board]:
                        of_workload = {
                            (metric, series.rw): value
                            for (metric, series), value in noise[board].items()
                            if series.workload == same.name
                        }
                        if of_workload:
                            found[board][one.name] = Calibration(
                                run.id, run.started, of_run[board], of_workload
                            )
    return found


def _alike(one: Workload, other: Workload) -> bool:
    """Whether two workloads measure the same: what they are called and how they are judged does not matter."""
    apart = {"name", "band", "timeout_s", "floor_s"}
    return one.model_dump(exclude=apart) == other.model_dump(exclude=apart)


def measured_bands(campaign: Campaign, calibrations: Calibrations) -> dict[str, dict[str, Any]]:
    """For a run's settings: where the campaign says `band: measured`, the bands by board and workload, and whence.

    They are fixed before the first boot, so that a later calibration does not change a verdict. Raises UserError for a
    board and workload without calibration.
    """
    check(campaign, calibrations)
    return {
        board: {
            one.name: {
                "run": found.run,
                "started": found.started,
                "card": found.card,
                "bands": {
                    f"{metric} {direction}".strip(): noise.band(campaign.least_boots)
                    for (metric, direction), noise in found.noise.items()
                },
            }
            for one in campaign.workloads
            if campaign.band_for(one) == "measured" and (found := of_board[one.name])
        }
        for board, of_board in calibrations.items()
    }


def other_cards(run: RunRecord, boots: Sequence[StoredBoot]) -> dict[str, tuple[str, str]]:
    """Boards whose card in this run is not the one that their bands were measured with: that one, and the one found."""
    found = {}
    for board, of_board in run.settings.get("measured_bands", {}).items():
        cards = {card_of(boot.facts) or "" for boot in boots if boot.board == board and boot.status == "ok"}
        measured = {str(one.get("card", "")) for one in of_board.values()}
        if cards - measured:
            found[board] = (", ".join(sorted(measured)), ", ".join(sorted(cards - measured)))
    return found


def wide_bands(run: RunRecord) -> dict[str, list[str]]:
    """Workloads, by board, whose measured band of bandwidths is so wide that `same` says little."""
    found: dict[str, list[str]] = {}
    for board, of_board in run.settings.get("measured_bands", {}).items():
        for workload, one in of_board.items():
            bands = [band for name, band in one.get("bands", {}).items() if name.startswith("bw_bytes")]
            if bands and max(bands) > WIDE_BAND:
                found.setdefault(board, []).append(workload)
    return found


def check(campaign: Campaign, calibrations: Calibrations) -> None:
    """Raises UserError for a workload with `band: measured` that some board has no calibration of."""
    for board, of_board in calibrations.items():
        for one in _measured(campaign):
            if one.name not in of_board:
                where = ("band",) if one.band is None else (*campaign.entry(one.name), "band")
                raise campaign.complain(
                    f"board {board} has no A/A run of workload {one.name} with {campaign.trials} trials a boot and the "
                    f"card of its last boot; calibrate it by farm run --aa {campaign.source.name}, or write band: 3%",
                    *where,
                )


def _measured(campaign: Campaign) -> Iterator[Workload]:
    return (one for one in campaign.workloads if campaign.band_for(one) == "measured")
