"""Two controllers at one coordinator, one of them on "another host"; a board that it gives back joins the other's run.

Two equal virtual boards, real labgrid-coordinator and labgrid-exporter; counts are from the databases.
"""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farm.fleet import coordinator, places
from tests.lab import ROOT, LabHome, environment, in_real_time, wait_for

pytestmark = pytest.mark.lab
A, B = "twin-a", "twin-b"

CAMPAIGN = """\
name: {name}
boards: [{boards}]
boots: {boots}
trials: 1
variants:
  only: {{baseline: true}}
workloads:
  - {{tool: dd, rw: read, bs: 1M, count: 4, direct: true}}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the env files of two equal boards, which share a tag, and with a lab's files for these."""
    (tmp_path / "envs" / "lab").mkdir(parents=True)
    for name in (A, B):
        text = in_real_time(name)
        assert "tags: {board: rk3568, arch: arm64}" in text
        own = text.replace("{board: rk3568, arch: arm64}", "{board: shared, farm: test}")
        (tmp_path / "envs" / f"{name}.yaml").write_text(own)
    exporter = (ROOT / "envs" / "lab" / "exporter.yaml").read_text()
    loop = re.search(r"^# for board, speed in .*$", exporter, re.MULTILINE)
    assert loop
    own = f'# for board, speed in [("{A}", 1500000), ("{B}", 1500000)]'
    (tmp_path / "envs/lab/exporter.yaml").write_text(exporter.replace(loop[0], own))
    (tmp_path / "envs/lab/places.yaml").write_text(
        "".join(f'{name}: {{matches: ["farm-virtual/{name}/*"]}}\n' for name in (A, B))
    )
    (tmp_path / "shared.yaml").write_text(CAMPAIGN.format(name="shared", boards="farm=test", boots=6))
    (tmp_path / "other.yaml").write_text(CAMPAIGN.format(name="other", boards=B, boots=2))
    return tmp_path


def farm(here: Path, env: dict[str, str], *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "farm", *words],
        env=env,
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def done(process: "subprocess.Popen[str]", seconds: float = 300) -> str:
    try:
        text, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, text
    return text


def test_a_board_that_another_hosts_controller_gives_back_joins_at_a_whole_block(here: Path) -> None:
    one, two = (LabHome(here / name, environment(here / name)) for name in ("one", "two"))
    try:
        done(farm(here, one.env, "virtual", "up", A, B))
        done(farm(here, one.env, "coordinator", "up"))
        address = coordinator.running(one.path) or ""
        exports = re.findall(r"export (LG_VIRTUAL\w+)=(\S+)", one.farm("virtual", "env").stdout)
        two = replace(two, env={**two.env, **dict(exports), "LG_HOSTNAME": "elsewhere"})
        other = farm(here, two.env, "run", "other.yaml", "--coordinator", address)
        assert other.stdout is not None
        said = ""
        while "boot 1/2" not in said:
            line = other.stdout.readline()
            assert line, said
            said += line
        assert re.match(rf"elsewhere/farm-\w+-\d+-{other.pid}-\d+$", places.seen(address)[B].holder)
        shared = farm(here, one.env, "run", "shared.yaml", "--coordinator", "lab", "--seed", "1")
        wait_for("both at work", lambda: places.seen(address)[A].holder, 60)
        assert places.seen(address)[A].holder.split("-")[-2] == str(shared.pid)
        assert not places.seen(address)[A].holder.startswith("elsewhere/")
        assert places.seen(address)[B].holder.startswith("elsewhere/")
        done(other)
        text = done(shared)
        assert f"{B}: came free, joins" in text
        rows = one.rows("SELECT board, block, count(*) FROM boot WHERE status = 'ok' GROUP BY board, block")
        assert sorted(block for _, block, _ in rows) == [0, 1, 2], rows  # none twice, none on two boards
        assert {count for *_, count in rows} == {2}
        assert {board for board, *_ in rows} == {A, B}
        assert two.rows("SELECT board, status FROM boot") == [(B, "ok"), (B, "ok")]
        assert two.rows("SELECT max(ended) FROM boot") > one.rows("SELECT min(started) FROM boot")
        settings = one.rows(
            "SELECT json_extract(settings, '$.boards'), json_extract(settings, '$.shares') FROM run"
        )
        assert settings == [
            (f'["{A}","{B}"]', f'{{"{A}":"board=shared (virtual)","{B}":"board=shared (virtual)"}}')
        ]
        assert {place.holder for place in places.seen(address).values()} == {""}
    finally:
        farm(here, one.env, "coordinator", "down").wait(60)
        farm(here, one.env, "virtual", "down").wait(60)
