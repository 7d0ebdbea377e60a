"""The whole way, from records in the store to what a real server answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.analysis.compare import Verdict
from farm.errors import UserError
from farm.fleet import env, health
from farm.influx.config import InfluxConfig
from farm.influx.findings import put_verdicts
from farm.influx.line import line, pack
from farm.influx.local import LocalInflux
from farm.influx.points import board_line, changepoint_line
from farm.influx.push import Patience, PushReport, push
from farm.ports import free_port
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.records import BootRecord, RunRecord
from tests.influx.conftest import T0, TOKEN, Victoria

MakeBoot = Callable[..., BootRecord]
ONCE = Patience(tries=1)
ENVS = Path(__file__).resolve().parents[2] / "envs"
DAY = 86_400.0


def points(series: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """InfluxQL's answer as one dict per point, tags included."""
    return [
        dict(zip(one["columns"], values, strict=True)) | one.get("tags", {})
        for one in series
        for values in one["values"]
    ]


def fill(store: Store, run: RunRecord, make_boot: MakeBoot, boots: int) -> None:
    store.begin_run(run)
    for index in range(boots):
        store.commit_boot(make_boot(index))
    store.finish_run(run.id, "done", ended=T0 + 1000.5)


def numbers(points: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(point[name] for name in names) for point in points)


def test_a_run_arrives_at_influxd_number_by_number(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    fill(store, run, make_boot, 2)
    report = push(store, influxd.config())
    # per boot: itself, two dd trials, one mixed trial in two directions, one void; and the run
    assert report == PushReport(sent=13, rows=3, waiting=0)

    trials = points(influxd.query("SELECT * FROM trial"))
    start = int(T0) * 1000
    assert numbers(
        [one for one in trials if one["status"] == "ok"],
        "time",
        "direction",
        "bw_bytes",
        "rep",
        "wall_seconds",
    ) == [
        (start + 20_000, "read", 61_900_000.5, 0, 0.75),
        (start + 21_000, "read", 62_000_000.25, 1, 0.75),
        (start + 22_000, "read", 11_000_000.0, 0, 5.5),
        (start + 22_000, "write", 10_900_000.0, 0, 5.5),
        (start + 120_000, "read", 62_867_188.0078125, 0, 0.75),
        (start + 121_000, "read", 62_968_750.25390625, 1, 0.75),
        (start + 122_000, "read", 11_171_875.0, 0, 5.5),
        (start + 122_000, "write", 11_070_312.5, 0, 5.5),
    ]
    (mixed,) = [one for one in trials if one["time"] == start + 22_000 and one["direction"] == "write"]
    tags = (
        "tool",
        "rw",
        "bs",
        "iodepth",
        "numjobs",
        "workload",
        "variant",
        "card",
        "soc",
        "branch",
        "campaign",
        "board",
    )
    assert [mixed[name] for name in tags] == [
        *(
            "fio",
            "randrw",
            "4k",
            "32",
            "4",
            "randrw-4k",
            "ra128",
            "DG4016 (0x000045)",
            "RK3568",
            "linux-next",
        ),
        *("nightly", "evb-a"),
    ]
    assert (mixed["iops"], mixed["run"], mixed["lat_p99.9_ns"]) == (2661.125, run.id, None)
    (other,) = [one for one in trials if one["time"] == start + 22_000 and one["direction"] == "read"]
    assert (other["lat_p99.9_ns"], other["iops"]) == (1_843_200.0, None)
    (dd,) = [one for one in trials if one["time"] == start + 21_000]
    assert [dd[name] for name in ("tool", "rw", "bs", "iodepth", "seconds")] == [
        "dd",
        "read",
        "1M",
        None,
        0.5411875,
    ]
    voids = [one for one in trials if one["status"] == "void"]
    assert [(one["time"], one["reason"], one["bw_bytes"], one["direction"]) for one in voids] == [
        (start + 28_000, "fio saw no I/O on mmcblk0", None, None),
        (start + 128_000, "fio saw no I/O on mmcblk0", None, None),
    ]

    first, second = points(influxd.query("SELECT * FROM boot"))
    assert [
        first[name] for name in ("time", "read_ahead_kb", "temperature_c", "seconds", "kernel", "events.crc")
    ] == [
        *(start + 10_000, 128, 41.5, 30.5, "6.12.9-arm64", 2),
    ]
    assert [first[name] for name in ("flash.method", "flash.verified", "flash.timings.boot", "commit")] == [
        *("uboot-write", 1, 4.25, None),
    ]
    assert (second["commit"], second["variant"], second["index"]) == ("0c3f9d1", "ra1024", 1)
    (told,) = points(influxd.query("SELECT * FROM run"))
    assert [
        told[name] for name in ("time", "seed", "status", "seconds", "boots_ok", "trials", "boards", "host")
    ] == [
        *(start, "4611686018427387905", "done", 1000.5, 2, 8, 1, "lab1"),
    ]


def test_everything_again_changes_nothing(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    fill(store, run, make_boot, 3)
    config = influxd.config()
    push(store, config)
    names = ("trial", "boot", "run")
    before = [influxd.query(f"SELECT * FROM {name}") for name in names]
    assert [len(points(series)) for series in before] == [15, 3, 1]
    assert push(store, config) == PushReport()
    assert push(store, config, everything=True) == PushReport(sent=19, rows=4)
    assert [influxd.query(f"SELECT * FROM {name}") for name in names] == before


def test_the_unmodified_v2_path_of_victoriametrics(
    store: Store, run: RunRecord, make_boot: MakeBoot, victoria: Victoria
) -> None:
    fill(store, run, make_boot, 2)
    assert push(store, victoria.config()) == PushReport(sent=13, rows=3)
    assert push(store, victoria.config(), everything=True) == PushReport(sent=13, rows=3)
    start = int(T0) * 1000
    found = victoria.export('{__name__="trial_bw_bytes",direction="write"}')
    assert sorted((*one["values"], *one["timestamps"], one["metric"]["variant"]) for one in found) == [
        (10_900_000, start + 22_000, "ra128"),
        (11_070_312.5, start + 122_000, "ra1024"),
    ]
    (seconds,) = victoria.export('{__name__="trial_seconds",variant="ra128"}')
    assert (seconds["values"], seconds["timestamps"]) == (
        [0.5420625, 0.5411875],
        [start + 20_000, start + 21_000],
    )
    assert seconds["metric"]["bs"] == "1M"
    (temperature,) = victoria.export('{__name__="boot_temperature_c",variant="ra1024"}')
    assert (temperature["values"], temperature["timestamps"]) == ([41.5], [start + 110_000])


def put_many(store: Store, rows: int, each: int) -> None:
    for row in range(rows):
        lines = (line("many", {"row": str(row)}, {"n": row * each + n}, 1_000_000 + n) for n in range(each))
        store.outbox.put("board", pack(lines))


@pytest.mark.parametrize("patient", [True, False])
def test_a_server_killed_in_the_middle_has_everything_once_in_the_end(
    store: Store, influxd: LocalInflux, patient: bool
) -> None:
    """Killed with SIGKILL after some batches; it comes back during the push, or after it gave up."""
    put_many(store, 60, 500)
    kills: list[int | None] = []
    slept: list[float] = []
    real_mark = store.outbox.mark_sent

    def mark_sent(ids: Any) -> None:
        real_mark(ids)
        if not kills:
            kills.append(influxd.pid)
            influxd.kill()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        influxd.start()

    store.outbox.mark_sent = mark_sent  # type: ignore[method-assign]
    config = influxd.config()
    report = push(store, config, patience=Patience(tries=3 if patient else 1), sleep=sleep)
    if patient:
        assert (report.sent, report.problem, len(slept)) == (30_000, "", 1)
    else:
        assert (report.sent, report.waiting) == (5000, 50)
        assert report.problem == f"no answer from {influxd.url}: Connection refused"
        influxd.start()
        assert push(store, config).sent == 25_000
    assert kills
    (counted,) = points(influxd.query("SELECT count(n), sum(n), min(n), max(n) FROM many"))
    assert [counted[name] for name in ("count", "sum", "min", "max")] == [30_000, 449_985_000, 0, 29_999]
    series = influxd.query("SELECT count(n) FROM many GROUP BY row")
    assert [one["values"][0][1] for one in series] == [500] * 60


def test_a_point_that_conflicts_is_set_aside_and_the_rest_arrives(store: Store, influxd: LocalInflux) -> None:
    store.outbox.put("board", pack([line("many", {"row": "first"}, {"n": 1}, 1000)]))
    assert push(store, influxd.config()).sent == 1
    for row in range(7):
        lines = [line("many", {"row": str(row)}, {"n": n}, 2000 + n) for n in range(30)]
        if row in (2, 5):
            lines[7] = line("many", {"row": str(row)}, {"n": "a text"}, 2007)
        store.outbox.put("board", pack(lines))
    report = push(store, influxd.config())
    assert (report.sent, report.refused, report.rows, report.waiting, report.problem) == (208, 2, 7, 0, "")
    refused = store.outbox.refused()
    assert [row.id for row in refused] == [4, 7]
    assert refused[0].refused == (
        'partial write: field type conflict: input field "n" on measurement "many" is type string, already exists as'
        ' type float dropped=1: many,row=2 n="a text" 2007'
    )
    (counted,) = points(influxd.query("SELECT count(n) FROM many"))
    assert counted["count"] == 209
    assert push(store, influxd.config()) == PushReport()


def test_points_older_than_the_server_keeps_are_set_aside_at_one_go(
    store: Store, influxd: LocalInflux
) -> None:
    influxd.query("CREATE RETENTION POLICY week ON farm DURATION 7d REPLICATION 1")
    fresh = int(time.time() * 1000)
    store.outbox.put("board", pack(line("many", {}, {"n": n}, 1000 + n) for n in range(400)))
    store.outbox.put("board", pack(line("many", {}, {"n": n}, fresh - n) for n in range(400)))
    report = push(store, influxd.config(bucket="farm/week"))
    assert (report.sent, report.refused, report.waiting) == (400, 400, 0)
    assert set(report.words) <= {
        f"partial write: points beyond retention policy dropped={count}" for count in (400, 200, 100, 50, 25)
    }
    (row,) = store.outbox.refused()
    assert "points beyond retention policy" in row.refused
    assert row.refused.endswith("and 380 points more")
    (counted,) = points(influxd.query('SELECT count(n) FROM "farm"."week"."many"'))
    assert counted["count"] == 400


def test_verdicts_are_points_too_and_made_again_overwrite_themselves(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    fill(store, run, make_boot, 2)
    slower = Verdict(
        workload="dd-read", candidate="ra1024", baseline="ra128", verdict="slower", unstable=True, reason="it is",
        ratio=0.9475, low=0.9375, high=0.9575, p=0.0009765625, n_base=6, n_cand=6, spread_base=0.0125,
        spread_cand=0.015625, more_boots=None, more_boots_for=None, flags=("temperature moved", "trend"),
    )  # fmt: skip
    unsure = replace(
        slower, workload="randrw-4k", verdict="inconclusive", ratio=None, low=None, high=None, p=None
    )
    for _ in range(2):
        put_verdicts(store, run.id, "evb-a", (("bw_bytes", "read", one) for one in (slower, unsure)))
    assert push(store, influxd.config()).sent == 13 + 4
    first, second = points(influxd.query("SELECT * FROM verdict"))
    names = (
        "ratio",
        "low",
        "high",
        "p",
        "n_base",
        "spread_cand",
        "score",
        "unstable",
        "verdict",
        "flags",
        "run",
    )
    assert [first[name] for name in names] == [
        *(
            0.9475,
            0.9375,
            0.9575,
            0.0009765625,
            6,
            0.015625,
            -1,
            1,
            "slower",
            "temperature moved; trend",
            run.id,
        ),
    ]
    tags = (
        "time",
        "workload",
        "variant",
        "board",
        "card",
        "tool",
        "rw",
        "bs",
        "metric",
        "direction",
        "branch",
    )
    assert [first[name] for name in tags] == [
        *(
            int(T0) * 1000,
            "dd-read",
            "ra1024",
            "evb-a",
            "DG4016 (0x000045)",
            "dd",
            "read",
            "1M",
            "bw_bytes",
            "read",
        ),
        "linux-next",
    ]
    assert (second["verdict"], second["score"], second["ratio"], second["iodepth"]) == (
        "inconclusive",
        None,
        None,
        "32",
    )


def test_a_torn_boots_good_trials_do_not_count(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(0, status="failed", reason="no prompt within 180 s"))
    push(store, influxd.config())
    found = points(influxd.query("SELECT * FROM trial WHERE bw_bytes > 0"))
    assert [(one["status"], one["reason"]) for one in found] == [("failed", "no prompt within 180 s")] * 4


def test_trials_with_one_time_stay_apart(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    """Imported boots all bear the date of their mail, and so do their trials."""
    imported = replace(run, settings={"imported": True})
    boots = []
    for index in range(3):
        same = [
            replace(one, started=T0, workload="dd-read", rep=rep)
            for rep, one in enumerate(make_boot().trials)
        ]
        boots.append(make_boot(index, started=T0, ended=T0, variant="posted", trials=tuple(same)))
    store.import_samples(imported, boots)
    assert push(store, influxd.config()).sent == 3 * 6 + 1
    assert len(points(influxd.query("SELECT * FROM trial"))) == 15
    assert len(points(influxd.query("SELECT * FROM boot"))) == 3


@pytest.mark.parametrize("api", ["auto", "1"])
def test_a_1x_server_with_authentication_takes_basic_and_nothing_else(
    store: Store, influxd: LocalInflux, api: str
) -> None:
    influxd.query("CREATE USER admin WITH PASSWORD 'opensesame99' WITH ALL PRIVILEGES")
    influxd.stop()
    influxd.start(INFLUXDB_HTTP_AUTH_ENABLED="true")
    put_many(store, 1, 10)
    for token in (TOKEN, "admin:wrong-pass-77"):
        with pytest.raises(UserError, match="does not accept the token for bucket farm") as wrong:
            push(store, influxd.config(token=token, api=api))
        assert token not in str(wrong.value) and "wrong-pass-77" not in str(wrong.value)
    assert push(store, influxd.config(token="admin:opensesame99", api=api)).sent == 10
    store.outbox.requeue()
    assert push(store, influxd.config(token="admin:opensesame99", api=api, auth_basic=True)).sent == 10


def test_wrong_bucket_api_and_url_are_the_users_to_correct(
    store: Store, influxd: LocalInflux, victoria: Victoria
) -> None:
    put_many(store, 1, 3)
    with pytest.raises(
        UserError, match='does not have nope: database not found: "nope"; create it or correct'
    ):
        push(store, influxd.config(bucket="nope"))
    with pytest.raises(UserError, match="has no /api/v2/write; leave INFLUXDB_V2_API out or set it to 1"):
        push(store, influxd.config(api="2"))
    with pytest.raises(UserError, match="has neither /api/v2/write nor /write; correct the url"):
        push(store, influxd.config(url=f"{influxd.url}/grafana"))
    assert store.outbox.tally() == (1, 0)
    assert push(store, victoria.config(api="1")).sent == 3  # it knows both paths


def test_a_dead_server_is_a_problem_in_a_sentence_and_nothing_is_lost(store: Store) -> None:
    put_many(store, 3, 3)
    url = f"http://127.0.0.1:{free_port()}"
    slept: list[float] = []
    said: list[str] = []
    report = push(
        store,
        InfluxConfig(url=url, bucket="farm", token=TOKEN),
        patience=Patience(tries=5, first_s=1.0, longest_s=4.0),
        sleep=slept.append,
        say=said.append,
    )
    assert report == PushReport(waiting=3, problem=f"no answer from {url}: Connection refused")
    assert len(slept) == len(said) == 4
    for seconds, most in zip(slept, (1.0, 2.0, 4.0, 4.0), strict=True):
        assert most / 2 <= seconds <= most
    assert len(set(slept)) == 4, "without jitter all hosts come back at once"


def test_the_token_is_in_no_message(store: Store, influxd: LocalInflux, capfd: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    put_many(store, 1, 3)
    config = influxd.config(token=TOKEN)
    said: list[str] = []
    report = push(store, config, say=said.append)
    influxd.kill()
    store.outbox.requeue()
    dead = push(store, config, patience=Patience(tries=2), sleep=lambda seconds: None, say=said.append)
    assert (report.sent, len(said), bool(dead.problem)) == (3, 1, True)
    shown = (
        f"{config!r} {config} {config.model_dump()} {report} {dead} {said} {caplog.text} {capfd.readouterr()}"
    )
    assert TOKEN not in shown


def test_a_server_that_repeats_the_token_is_not_quoted(store: Store, influxd: LocalInflux) -> None:
    store.outbox.put("board", pack([f"many n={TOKEN} 1", "many n=1 2"]))
    report = push(store, influxd.config(token=TOKEN))
    assert (report.sent, report.refused) == (1, 1)
    assert list(report.words) == ["unable to parse 'many n=*** 1': invalid boolean"]
    (row,) = store.outbox.refused()
    assert row.refused == "unable to parse 'many n=*** 1': invalid boolean: many n=*** 1"


def test_hostile_names_arrive_as_text_and_nothing_else(store: Store, influxd: LocalInflux) -> None:
    name = 'card "Ω", a=b\\,c\nmany n=666 1'
    store.outbox.put("board", pack([board_line(name, "ok", at=T0, reason=f"{name}\x1b[2J\x00")]))
    store.outbox.put(
        "changepoint",
        pack(
            [
                changepoint_line(
                    board="evb-a",
                    workload="w",
                    campaign="nightly",
                    at=T0,
                    ratio=0.9475,
                    low=0.9375,
                    high=0.9575,
                    before={"run": "r1", "commit": name},
                    after={"run": "r2"},
                )
            ]
        ),
    )
    report = push(store, influxd.config())
    assert (report.sent, report.refused) == (2, 0)
    (board,) = points(influxd.query("SELECT * FROM board"))
    assert board["board"] == 'card "Ω", a=b_,c_many n=666 1'
    assert board["reason"] == 'card "Ω", a=b\\,c\\x0amany n=666 1\\x1b[2J\\x00'
    assert influxd.query("SELECT * FROM many") == []
    (change,) = points(influxd.query("SELECT * FROM changepoint"))
    assert [change[key] for key in ("ratio", "low", "high", "run_before", "run_after")] == [
        *(0.9475, 0.9375, 0.9575, "r1", "r2"),
    ]


def test_every_look_at_a_board_arrives_and_the_third_failure_is_its_quarantine(
    store: Store, influxd: LocalInflux
) -> None:
    board = env.load(str(ENVS / "rk3568-evb.yaml"))
    facts = {
        "card.name": "DG4016", "card.manfid": "0x000045", "temperature_c": 41.5, "ios.actual_clock_hz": 200_000_000,
        "card.life_time": "0x01 0x02", "ext_csd.life_time_a": 1, "not.shown": 7,
    }  # fmt: skip
    health.note(store, board, HealthRecord("rk3568-evb", T0, True, "", "check", facts))
    for day, origin in ((1, "check"), (2, "run"), (3, "run")):
        health.note(store, board, HealthRecord("rk3568-evb", T0 + day * DAY, False, f"console {day}", origin))
    health.note(store, board, HealthRecord("rk3568-evb", T0 + 4 * DAY, True, "", "check", facts))
    report = push(store, influxd.config())

    assert (report.sent, report.waiting, report.problem) == (5, 0, "")
    found = points(influxd.query("SELECT * FROM board"))
    names = ("health", "ok", "failures_in_a_row", "reason")
    assert [tuple(one[name] for name in names) for one in found] == [
        ("ok", 1, 0, None),
        ("failed", 0, 1, "console 1"),
        ("failed", 0, 2, "console 2"),
        ("quarantine", 0, 3, "console 3"),
        ("ok", 1, 0, None),
    ]
    assert found[0] | {"time": 0} == {
        "time": 0, "board": "rk3568-evb", "soc": "RK3568", "card": "DG4016 (0x000045)", "health": "ok", "ok": 1,
        "reason": None, "failures_in_a_row": 0, "temperature_c": 41.5, "ios.actual_clock_hz": 200_000_000,
        "card.life_time": "0x01 0x02", "ext_csd.life_time_a": 1,
    }  # fmt: skip
    assert [record.ok for record in store.health.last("rk3568-evb")] == [True, False, False, False, True]
