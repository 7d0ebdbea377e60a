"""Commands start at once because each loads what it needs and no more."""

import subprocess
import sys

import pytest

OF_BOARDS = {"labgrid", "grpc", "influxdb_client", "urllib3", "ruptures", "scipy.stats"}


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("farm.cli", {*OF_BOARDS, "numpy", "scipy", "pydantic", "yaml", "jinja2"}),
        ("farm.store.db", {*OF_BOARDS, "numpy", "scipy", "pydantic"}),
        ("farm.report.study, farm.report.terminal, farm.report.html", OF_BOARDS),
    ],
)
def test_what_a_command_loads(modules: str, unwanted: set[str]) -> None:
    code = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert unwanted.isdisjoint(loaded.split())
    assert "sqlite3" in loaded.split() or modules == "farm.cli"
