"""Dashboards against Grafana's own types (@grafana/schema): the real ones pass, each with one wrong key does not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "schema"
DASHBOARDS = sorted((Path(__file__).parents[2] / "grafana" / "dashboards").glob("*.json"))


@pytest.fixture(scope="session")
def modules() -> None:
    """The locked packages in tests/grafana/schema/node_modules, installed where they are not yet."""
    assert shutil.which("npm"), "npm is missing; as root: apt-get install nodejs npm"
    done = HERE / "node_modules" / ".package-lock.json"
    if not done.exists() or done.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True, timeout=300
        )
        done.touch()


@pytest.fixture(scope="session")
def complaints(modules: None) -> Callable[[list[Path]], dict[Path, list[str]]]:
    def ask(files: list[Path]) -> dict[Path, list[str]]:
        done = subprocess.run(
            ["node", HERE / "validate.mjs", *files],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        )
        return {Path(name): found for name, found in json.loads(done.stdout).items()}

    return ask


def wrong() -> dict[str, dict[str, Any]]:
    """Dashboards with one thing wrong, by what it is."""
    boards = {path.stem: json.loads(path.read_text("utf-8")) for path in DASHBOARDS}
    made: dict[str, dict[str, Any]] = {}

    def spoil(name: str, board: str, change: Callable[[dict[str, Any]], Any]) -> None:
        made[name] = deepcopy(boards[board])
        change(made[name])

    spoil("dashboard-key", "trend", lambda d: d.update(refreshes="5m"))
    spoil("dashboard-type", "trend", lambda d: d.update(schemaVersion="41"))
    spoil("variable-key", "trend", lambda d: d["templating"]["list"][1].update(multiple=True))
    spoil("annotation-key", "trend", lambda d: d["annotations"]["list"][0]["target"].update(textColum="text"))
    for kind, board in (
        ("table", "nightly"),
        ("timeseries", "trend"),
        ("state-timeline", "trend"),
        ("stat", "nightly"),
        ("bargauge", "compare"),
    ):
        at = next(i for i, panel in enumerate(boards[board]["panels"]) if panel["type"] == kind)
        spoil(f"{kind}-panel-key", board, lambda d, at=at: d["panels"][at].update(titel="x"))
        spoil(f"{kind}-option", board, lambda d, at=at: d["panels"][at]["options"].update(colour="red"))
        spoil(f"{kind}-target", board, lambda d, at=at: d["panels"][at]["targets"][0].update(format="table"))
        spoil(f"{kind}-no-query", board, lambda d, at=at: d["panels"][at]["targets"][0].pop("query"))
        spoil(
            f"{kind}-field",
            board,
            lambda d, at=at: d["panels"][at]["fieldConfig"]["defaults"].update(units="Bps"),
        )
        spoil(
            f"{kind}-custom", board,
            lambda d, at=at: d["panels"][at]["fieldConfig"]["defaults"].setdefault("custom", {}).update(lineWidht=1),
        )  # fmt: skip
        spoil(
            f"{kind}-override", board,
            lambda d, at=at: d["panels"][at]["fieldConfig"]["overrides"].append(
                {"matcher": {"id": "byName", "options": "x"}, "properties": [{"id": "unitt", "value": "Bps"}]}
            ),
        )  # fmt: skip
    spoil("unknown-panel-type", "trend", lambda d: d["panels"][0].update(type="graph"))
    spoil(
        "wrong-word",
        "trend",
        lambda d: d["panels"][0]["fieldConfig"]["defaults"]["custom"].update(drawStyle="lines"),
    )
    return made


def test_the_dashboards_are_valid(complaints: Callable[[list[Path]], dict[Path, list[str]]]) -> None:
    assert complaints(DASHBOARDS) == {path: [] for path in DASHBOARDS}


def test_one_wrong_key_is_enough(
    complaints: Callable[[list[Path]], dict[Path, list[str]]], tmp_path: Path
) -> None:
    files = []
    for name, board in wrong().items():
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(board), "utf-8")
    found = complaints(files)
    assert len(found) == 41
    assert [path.stem for path, words in found.items() if not words] == []


def test_the_lock_names_no_host() -> None:
    text = (HERE / "package-lock.json").read_text("utf-8")
    assert '"integrity"' in text
    assert '"resolved"' not in text
