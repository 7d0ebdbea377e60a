"""Every query that Grafana would send is sent to a real influxd with a month of nights, and has an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.influx.local import LocalInflux
from grafana.interpolate import interpolate

from .month import BOARDS, DAY, FASTER, SLOWER, WORKLOADS, Month

HOME = Path(__file__).parents[2] / "grafana"
DASHBOARDS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((HOME / "dashboards").glob("*.json"))
}
ALERTS = yaml.safe_load((HOME / "provisioning" / "alerting" / "farm.yaml").read_text("utf-8"))["groups"][0][
    "rules"
]
METRICS = ("bw_bytes", "iops", "lat_mean_ns", "lat_p99_ns", "lat_p99.9_ns")


def targets() -> Iterator[Any]:
    for name, board in DASHBOARDS.items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield pytest.param(board, target["query"], id=f"{name}-{panel['title']}-{target['refId']}")


def variables() -> Iterator[Any]:
    for name, board in DASHBOARDS.items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield pytest.param(board, variable, id=f"{name}-{variable['name']}")


def marks() -> Iterator[Any]:
    for name, board in DASHBOARDS.items():
        for mark in board["annotations"]["list"]:
            yield pytest.param(board, mark["target"], id=f"{name}-{mark['name']}")


def everything(board: dict[str, Any], month: Month, metric: str = "bw_bytes") -> dict[str, Any]:
    """The variables of a dashboard as it opens: All, the newest run, the first metric."""
    values: dict[str, Any] = {}
    for variable in board["templating"]["list"]:
        chosen = variable["current"]["value"] if "current" in variable else ""
        values[variable["name"]] = [variable["allValue"]] if chosen == ["$__all"] else chosen
    return values | {"run": month.last_run, "metric": metric}


def rows(server: LocalInflux, query: str) -> list[dict[str, Any]]:
    """The answer as rows; times in ms. Raises ValueError with the server's words."""
    return [
        {**series.get("tags", {}), **dict(zip(series["columns"], values, strict=True))}
        for series in server.query(query)
        for values in series["values"]
    ]


def with_values(found: list[dict[str, Any]], *but: str) -> list[dict[str, Any]]:
    return [
        row
        for row in found
        if any(value is not None for name, value in row.items() if name not in ("time", *but))
    ]


@pytest.mark.parametrize(("board", "query"), list(targets()))
def test_every_panel_has_an_answer(board: dict[str, Any], query: str, month: Month) -> None:
    sent = interpolate(query, everything(board, month), month.since_ms, month.until_ms)
    assert not re.search(r"\$\w", sent)
    assert with_values(rows(month.server, sent))


@pytest.mark.parametrize(("board", "query"), list(targets()))
def test_every_panel_answers_for_one_of_each(board: dict[str, Any], query: str, month: Month) -> None:
    """With single values picked, a card with parentheses among them, and every metric: it may be empty, never an error."""
    for metric in METRICS:
        values = everything(board, month, metric) | {
            "campaign": ["nightly"], "branch": ["linux-next"], "board": ["evb-b", "evb-a"], "card": ["DA4032 (0x000015)"],
            "workload": ["randread-4k-qd32"], "variant": ["next"],
        }  # fmt: skip
        found = rows(month.server, interpolate(query, values, month.since_ms, month.until_ms))
        assert {row["board"] for row in found if "board" in row} <= {"evb-a", "evb-b"}
        assert {row["card"] for row in found if "card" in row} <= {"DA4032 (0x000015)"}
        if '"$metric"' in query and 'FROM "trial"' in query:
            assert with_values(found), metric


@pytest.mark.parametrize(("board", "variable"), list(variables()))
def test_every_variable_has_values(board: dict[str, Any], variable: dict[str, Any], month: Month) -> None:
    sent = interpolate(variable["query"], everything(board, month), month.since_ms, month.until_ms)
    # Grafana takes the second column of a row, for tag values as for a SELECT
    values = {list(row.values())[-1] for row in rows(month.server, sent)}
    expected = {
        "campaign": {"nightly"},
        "branch": {"linux-next"},
        "board": set(BOARDS),
        "card": {f"{card} (0x000015)" for _, card in BOARDS.values()},
        "workload": set(WORKLOADS),
        "variant": {"golden", "next"},
        "run": {f"202512-{night:02d}-nightly" for night in range(30)},
    }
    assert values == expected[variable["name"]]


@pytest.mark.parametrize(("board", "target"), list(marks()))
def test_every_annotation_has_text(board: dict[str, Any], target: dict[str, Any], month: Month) -> None:
    sent = interpolate(target["query"], everything(board, month), month.since_ms, month.until_ms)
    (row,) = [row for row in rows(month.server, sent) if row[target["tagsColumn"]] == SLOWER[2]]
    assert row["time"] == month.since_ms + round(DAY * 1000) * SLOWER[3]
    assert "randread-4k-qd32 on evb-b: slower -" in row[target["textColumn"]]


def alert(uid: str) -> dict[str, Any]:
    return next(rule for rule in ALERTS if rule["uid"] == uid)


def fires(rule: dict[str, Any], month: Month, at_ms: int) -> list[dict[str, Any]]:
    """What a rule answers at a time: the query, then its own threshold on the last value of each series."""
    ask = rule["data"][0]
    since = at_ms - 1000 * ask["relativeTimeRange"]["from"]
    found = rows(month.server, interpolate(ask["model"]["query"], {}, since, at_ms))
    evaluator = rule["data"][2]["model"]["conditions"][0]["evaluator"]
    limit = evaluator["params"][0]
    values = [row | {"value": row["count"]} for row in found]
    return [
        row for row in values if (row["value"] > limit if evaluator["type"] == "gt" else row["value"] < limit)
    ]


def test_the_regression_alert_names_the_place(month: Month) -> None:
    found = fires(alert("farm-regression"), month, month.until_ms)
    assert ("evb-b", "randread-4k-qd32", "next") in {
        (row["board"], row["workload"], row["variant"]) for row in found
    }
    assert not fires(alert("farm-regression"), month, month.since_ms + 10 * round(DAY * 1000))


def test_the_change_point_alert_names_the_place_for_a_week(month: Month) -> None:
    rule = alert("farm-changepoint")
    day = round(DAY * 1000)
    third_night = month.since_ms + (SLOWER[3] + 2) * day + 6 * 3_600_000
    places = {(row["board"], row["workload"]) for row in fires(rule, month, third_night)}
    assert (SLOWER[0], SLOWER[2]) in places
    assert (SLOWER[0], SLOWER[2]) not in {
        (row["board"], row["workload"]) for row in fires(rule, month, third_night + 8 * day)
    }


def test_the_quarantine_alert_names_the_board(month: Month) -> None:
    assert [row["board"] for row in fires(alert("farm-quarantine"), month, month.until_ms)] == ["sbc-c"]
    assert fires(alert("farm-quarantine"), month, month.until_ms - round(DAY * 1000)) == []


def test_the_missing_night_alert(month: Month) -> None:
    """Silent in the morning after a run; two days later there is no answer, which the rule counts as an alarm."""
    rule = alert("farm-no-nightly")
    ask = rule["data"][0]["model"]["query"]

    def nights(at_ms: int) -> list[dict[str, Any]]:
        return rows(month.server, interpolate(ask, {}, at_ms - 129_600_000, at_ms))

    assert nights(month.until_ms)[0]["count"] >= 1
    assert fires(rule, month, month.until_ms) == []
    assert nights(month.until_ms + 2 * round(DAY * 1000)) == []
    assert rule["noDataState"] == "Alerting"
    assert {other["noDataState"] for other in ALERTS if other is not rule} == {"OK"}


def test_what_changed_last_night(month: Month) -> None:
    """The table of Nightly over its own 36 hours names exactly what was injected, the worse first by its sort column."""
    panel = next(p for p in DASHBOARDS["nightly"]["panels"] if p["title"] == "What changed, worst first")
    values = everything(DASHBOARDS["nightly"], month)
    found = rows(
        month.server,
        interpolate(panel["targets"][0]["query"], values, month.until_ms - 129_600_000, month.until_ms),
    )
    found = [row for row in found if row["run"] == month.last_run and row["metric"] == "bw_bytes"]
    found.sort(key=lambda row: row["worst"])
    assert [(row["board"], row["workload"], row["verdict"]) for row in found] == [
        (SLOWER[0], SLOWER[2], "slower"),
        (FASTER[0], FASTER[2], "faster"),
    ]
    assert found[0]["change"] == pytest.approx(-5, abs=1)
