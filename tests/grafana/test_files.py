"""Dashboards and provisioning as files: generated from one place, nothing empty without a word, units everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.generate import files

HOME = Path(__file__).parents[2] / "grafana"
DASHBOARDS = {
    path.name: json.loads(path.read_text("utf-8")) for path in sorted((HOME / "dashboards").glob("*.json"))
}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, one in DASHBOARDS.items()
    for panel in one["panels"]
]


def test_the_files_are_what_is_generated() -> None:
    assert sorted(DASHBOARDS) == ["boards.json", "compare.json", "nightly.json", "trend.json"]
    for name, text in files().items():
        assert (HOME / "dashboards" / name).read_text("utf-8") == text, (
            f"run: python grafana/generate.py ({name})"
        )


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_says_why_it_is_empty_and_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["noValue"]
    assert panel["description"].endswith(".")


@pytest.mark.parametrize(
    "panel", [one for one in PANELS if one.values[0]["type"] in ("timeseries", "bargauge", "stat")]
)
def test_every_number_has_a_unit(panel: dict[str, Any]) -> None:
    config = panel["fieldConfig"]
    listed = {p["id"] for override in config["overrides"] for p in override["properties"]}
    assert config["defaults"].get("unit") or "unit" in listed
    if '"$metric"' in panel["targets"][0]["query"]:
        units = {
            override["matcher"]["options"]: p["value"]
            for override in config["overrides"]
            for p in override["properties"]
            if p["id"] == "unit"
        }
        for metric, unit in {"bw_bytes": "Bps", "iops": "iops", "lat_p99.9_ns": "ns"}.items():
            name = f"evb-a randread-4k read next {metric}"
            assert [value for pattern, value in units.items() if re.search(pattern.strip("/"), name)] == [
                unit
            ]


def test_panels_do_not_overlap() -> None:
    for one in DASHBOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in one["panels"]:
            grid = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(grid["x"], grid["x"] + grid["w"])
                for y in range(grid["y"], grid["y"] + grid["h"])
            }
            assert not cells & taken, panel["title"]
            assert grid["x"] + grid["w"] <= 24
            taken |= cells


def test_variables_of_the_issue() -> None:
    names = {name: [v["name"] for v in one["templating"]["list"]] for name, one in DASHBOARDS.items()}
    for wanted in ("campaign", "board", "card", "workload", "variant", "metric"):
        assert wanted in names["trend.json"]
        assert wanted in names["compare.json"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_data_sources(version: int) -> None:
    text = (HOME / "datasources" / f"influxdb-{version}.yaml").read_text("utf-8")
    (source,) = yaml.safe_load(text)["datasources"]
    assert (source["uid"], source["type"], source["jsonData"]["version"]) == ("farm", "influxdb", "InfluxQL")
    assert source["jsonData"]["dbName"] == "farm"
    header = source["secureJsonData"].get("httpHeaderValue1", "").split()[:1]
    assert header == {1: [], 2: ["Token"], 3: ["Bearer"]}[version]


def test_alerts_ask_the_provisioned_server() -> None:
    group = yaml.safe_load((HOME / "provisioning" / "alerting" / "farm.yaml").read_text("utf-8"))["groups"][0]
    assert [rule["uid"] for rule in group["rules"]] == [
        "farm-regression",
        "farm-changepoint",
        "farm-quarantine",
        "farm-no-nightly",
    ]
    for rule in group["rules"]:
        assert [ask["refId"] for ask in rule["data"]] == ["A", "B", "C"]
        assert [ask["datasourceUid"] for ask in rule["data"]] == ["farm", "__expr__", "__expr__"]
        assert rule["condition"] == "C"


def test_compose_pins_versions_and_mounts_what_exists() -> None:
    services = yaml.safe_load((HOME / "compose.yaml").read_text("utf-8"))["services"]
    for service in services.values():
        assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", service["image"])
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (HOME / source).exists(), source
