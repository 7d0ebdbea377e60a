"""Runs put into a store as a board would have left them, with noise from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farm.report.compare_view import CompareTable, Verdicts, baseline_of, build
from farm.report.series import by_board
from farm.report.verdicts import variants_of
from farm.schedule import schedule
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, Status, TrialRecord

CAMPAIGN = """\
name: nightly
boards: [b]
boots: 6
trials: 1
variants: {base: {baseline: true}, cand: {}}
workloads:
  - {name: one, tool: fio, rw: randread, size: 1M, runtime: 1s, ramp: 1s}
  - {name: two, tool: fio, rw: randread, bs: 8k, size: 1M, runtime: 1s, ramp: 1s}
"""
CARD = {"card.name": "SDQEMU", "card.manfid": "0x0000aa"}


def boot(run: str, board: str, index: int, variant: str, status: Status = "ok", **more: Any) -> BootRecord:
    """A boot of a minute, blocks of two variants."""
    return BootRecord(
        run, board, index, more.pop("block", index // 4), variant, more.pop("attempt", 0), status, more.pop("reason", ""),
        60.0 * index, 60.0 * index + 50, facts=more.pop("facts", CARD), **more,
    )  # fmt: skip


def trials(values: Mapping[str, float]) -> tuple[TrialRecord, ...]:
    """One good trial a workload with this bandwidth, and latencies that go the other way."""
    return tuple(
        TrialRecord(
            name, 0, "ok", "", "fio --rw=randread", 0.0, 1.0,
            (SampleRecord("read", "bw_bytes", value), SampleRecord("read", "lat_p99_ns", 1e14 / value)),
        )
        for name, value in values.items()
    )  # fmt: skip


def put(
    store: Store,
    run: str = "r",
    *,
    ratio: float | Mapping[str, float] = 1.0,
    noise: float = 0.002,
    seed: int = 1,
    boots: int = 6,
    text: str = CAMPAIGN,
    boards: tuple[str, ...] = ("b",),
    variants: tuple[str, str] = ("base", "cand"),
    workloads: tuple[str, ...] = ("one", "two"),
    started: float = 1.8e9,
    facts: Mapping[str, Any] = CARD,
    change: Callable[[BootRecord], BootRecord] = lambda record: record,
    status: str = "done",
    **settings: Any,
) -> None:
    """A run of `boots` per variant; the second variant's workloads are `ratio` times as fast (all, or by name)."""
    known = {"baseline": variants[0], "variants": list(variants), "workloads": list(workloads), "trials": 1}
    record = RunRecord(run, "nightly", text, seed, started, settings={**known, "boots": boots, **settings})
    store.begin_run(record)
    rng = np.random.default_rng(seed)
    for board in boards:
        for planned in schedule(variants, boots, seed):
            values = {
                name: float(
                    1e8
                    * np.exp(rng.normal(0, noise))
                    * (
                        (ratio if isinstance(ratio, float) else ratio.get(name, 1.0))
                        if planned.variant == variants[1]
                        else 1
                    )
                )
                for name in workloads
            }
            made = boot(
                run,
                board,
                planned.index,
                planned.variant,
                block=planned.block,
                facts=facts,
                trials=trials(values),
            )
            store.commit_boot(change(made))
    if status != "running":
        store.finish_run(run, status, ended=started + 3600)  # type: ignore[arg-type]


def compared(
    store: Store, run: str, *, metric: str = "bw_bytes", verdicts: Verdicts | None = None
) -> CompareTable:
    """The comparison of a run in one metric, with verdicts that no analysis gave."""
    record = store.run(run)
    rows, boots = store.values(record.id, metric), store.boots(record.id)
    return build(
        record,
        rows,
        boots,
        metric=metric,
        baseline=baseline_of(record, variants_of(record, boots)),
        verdicts=verdicts or {},
        tables=by_board(rows, [str(name) for name in record.settings.get("workloads", ())]),
    )
