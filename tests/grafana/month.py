"""A month of nights in a real store, sent by the real export to a real influxd: what the dashboards are asked about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farm.analysis.compare import compare
from farm.analysis.trend import Trend, trends
from farm.influx.changes import change_line
from farm.influx.line import pack
from farm.influx.local import LocalInflux
from farm.influx.points import board_line, verdict_line
from farm.influx.push import push
from farm.report.nights import nightly
from farm.report.series import by_board
from farm.store.db import Store
from farm.store.labels import card_of
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

FIRST = 1_764_540_000.0
"""2025-11-30 22:00:00 UTC, when the first night starts."""
DAY = 86_400.0
NIGHTS = 30
NOISE = 0.01
BOARDS = {"evb-a": ("RK3568", "DG4016"), "evb-b": ("RK3588", "DA4032"), "sbc-c": ("BCM2711", "SN64G")}
WORKLOADS = tuple(
    f"{rw}-{bs}-qd{depth}"
    for rw in ("read", "write", "randread", "randwrite")
    for bs, depth in (("4k", 1), ("4k", 32), ("64k", 8), ("1m", 1))
)
VARIANTS = ("golden", "next")
BOOTS = 8
SLOWER = ("evb-b", "next", "randread-4k-qd32", 22)
"""5 % slower from this night on."""
SPIKE = ("evb-a", "next", "read-1m-qd1", 15)
"""20 % slower in this night alone."""
FASTER = ("sbc-c", "next", "write-64k-qd8", NIGHTS - 1)
"""8 % faster in the last night, which is a verdict and not yet a trend."""


@dataclass(frozen=True)
class Month:
    """The server, the store, the trend found in it, and the time it spans in milliseconds."""

    server: LocalInflux
    store: Store
    found: tuple[Trend, ...]
    since_ms: int
    until_ms: int
    last_run: str


def value_of(
    rng: np.random.Generator, level: float, night: int, board: str, variant: str, workload: str
) -> float:
    """A boot's bandwidth in bytes/s: the night's level, the boot's own noise, and what was injected."""
    factor = float(np.exp(rng.normal(0, 0.004)))
    where = (board, variant, workload)
    if where == SLOWER[:3] and night >= SLOWER[3]:
        factor *= 0.95
    if where == SPIKE[:3] and night == SPIKE[3]:
        factor *= 0.8
    if where == FASTER[:3] and night == FASTER[3]:
        factor *= 1.08
    return level * factor


def fill(store: Store) -> None:
    """NIGHTS runs with BOOTS boots on each board: alternating variants, one void and one failed boot a week."""
    rng = np.random.default_rng(20251130)
    levels = {(board, name): 10e6 * (1 + i % 7) for board in BOARDS for i, name in enumerate(WORKLOADS)}
    for night in range(NIGHTS):
        start = FIRST + DAY * night
        run = RunRecord(
            f"202512-{night:02d}-nightly", "nightly", "name: nightly\n", night, start, host="lab1", version="0.1.0",
            settings={
                "baseline": "golden", "variants": list(VARIANTS), "workloads": list(WORKLOADS), "branch": "linux-next",
                "socs": {board: soc for board, (soc, _) in BOARDS.items()},
                "commits": {"golden": "830b3c68c1fb", "next": f"{0xABC000 + night:012x}"},
            },
        )  # fmt: skip
        store.begin_run(run)
        for board, (_, card) in BOARDS.items():
            tonight = {name: levels[board, name] * float(np.exp(rng.normal(0, NOISE))) for name in WORKLOADS}
            for index in range(BOOTS):
                variant = VARIANTS[(index % 4) in (1, 2)]
                status = (
                    ("void" if index == 7 else "failed" if index == 3 else "ok") if night % 7 == 6 else "ok"
                )
                release = "6.12.0-golden" if variant == "golden" else f"6.13.0-next-{night // 3:02d}"
                begun = start + 600 * index
                trials = tuple(
                    trial(
                        name,
                        status,
                        begun + 20 * number,
                        value_of(rng, tonight[name], night, board, variant, name),
                    )
                    for number, name in enumerate(WORKLOADS)
                )
                store.commit_boot(
                    BootRecord(
                        run.id, board, index, index // 4, variant, 0, status,
                        "" if status == "ok" else "other kernel than flashed", begun, begun + 500,
                        facts={
                            "banner": f"Linux version {release} (x@y) #1", "card.name": card, "card.manfid": "0x000015",
                            "card.life_time": "0x01 0x02", "card.pre_eol": "0x01", "ext_csd.life_time_a": 1,
                            "ios.actual_clock_hz": 200_000_000, "temperature_c": 41.5 + index,
                        },
                        events=({"kind": "timeout"},) if status == "failed" else (), trials=trials,
                    )
                )  # fmt: skip
        store.finish_run(run.id, "done", ended=start + 600 * BOOTS)


def trial(name: str, status: str, started: float, bandwidth: float) -> TrialRecord:
    """A fio trial with five metrics that follow from its bandwidth."""
    rw, bs, depth = name.split("-")
    size, jobs = {"4k": 4096, "64k": 65536, "1m": 1048576}[bs], int(depth[2:])
    each = 1e9 * jobs * size / bandwidth
    direction = "read" if "read" in rw else "write"
    numbers = {
        "bw_bytes": bandwidth, "iops": bandwidth / size, "lat_mean_ns": each, "lat_p99_ns": 3 * each, "lat_p99.9_ns": 9 * each,
    }  # fmt: skip
    return TrialRecord(
        name, 0, status, "" if status == "ok" else "other kernel than flashed",
        f"fio --rw={rw} --bs={bs} --iodepth={jobs} --numjobs=1", started, 10.0,
        tuple(SampleRecord(direction, metric, value) for metric, value in numbers.items()) if status == "ok" else (),
    )  # fmt: skip


def judge(store: Store, run_id: str, metric: str) -> Iterator[str]:
    """The verdict points of a run's metric, by the project's own rule."""
    run = store.run(run_id)
    boots = {boot.board: boot for boot in store.boots(run_id)}
    for board, one in by_board(store.values(run_id, metric), WORKLOADS).items():
        verdicts = compare(
            one.values, one.starts, one.variants, "golden", workloads=[s.label for s in one.series], draws=2000,
            higher_is_better=not metric.endswith("_ns"),
            events={"next": ["one mmc timeout"]} if board == "sbc-c" and run_id.startswith("202512-28") else {},
        )  # fmt: skip
        for series, verdict in zip(one.series, verdicts, strict=True):
            yield verdict_line(
                run, board, verdict, metric=metric, direction=series.rw, card=card_of(boots[board].facts),
            )  # fmt: skip


@contextmanager
def exported(home: Path) -> Iterator[Month]:
    """The month in a store and an influxd below `home`."""
    with Store.open(home / "farm.db", create=True) as store, LocalInflux(home / "influxd") as server:
        fill(store)
        found = trends(nightly(store))
        for one in found:
            for change in one.changes:
                soc = BOARDS[change.key.board][0]
                store.outbox.put("changepoint", pack([change_line(change, soc=soc)]))
        for night in range(NIGHTS - 5, NIGHTS):
            run_id = f"202512-{night:02d}-nightly"
            for metric in ("bw_bytes", "lat_p99_ns"):
                store.outbox.put("verdict", pack(judge(store, run_id, metric)), run_id=run_id)
        now = FIRST + DAY * (NIGHTS - 1) + 600 * BOOTS
        for board, (soc, _) in BOARDS.items():
            health = [
                board_line(board, "ok", at=FIRST + DAY * night, soc=soc, facts={"failures_in_a_row": 0})
                for night in range(NIGHTS)
            ]
            store.outbox.put("board", pack(health))
        ill = board_line(
            "sbc-c", "quarantine", at=now, reason="3 failures", soc="BCM2711", facts={"failures_in_a_row": 3}
        )
        store.outbox.put("board", pack([ill]))
        report = push(store, server.config())
        assert (report.problem, report.waiting, sum(report.words.values())) == ("", 0, 0)
        # Grafana looks back from the morning after the last night
        yield Month(
            server,
            store,
            found,
            round(FIRST * 1000),
            round((now + 3600) * 1000),
            f"202512-{NIGHTS - 1:02d}-nightly",
        )
