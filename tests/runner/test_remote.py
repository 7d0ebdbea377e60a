"""A run through labgrid's coordinator and exporter, whose parts are killed from outside; counts are from the database."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.fleet import coordinator, places
from tests.fleet.test_places import processes
from tests.lab import ROOT, LabHome, children, in_real_time, lab_of, wait_for

pytestmark = pytest.mark.lab

EAST, WEST = "east", "west"
CAMPAIGN = """\
name: remote
boards: [east, west]
boots: 2
trials: 1
variants:
  only: {baseline: true}
workloads:
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 4s}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LabHome]:
    """A lab of two boards behind a coordinator, with env files and places of its own."""
    (tmp_path / "envs" / "lab").mkdir(parents=True)
    for name in (EAST, WEST):
        alone = in_real_time(name).replace("  measure_alone: host-cpu\n", "")
        (tmp_path / "envs" / f"{name}.yaml").write_text(alone)
    exporter = (ROOT / "envs" / "lab" / "exporter.yaml").read_text()
    names = f'for board, speed in [("{EAST}", 115200), ("{WEST}", 115200)]'
    changed, count = re.subn(r"for board, speed in \[.*\]", names, exporter)
    assert count == 1
    (tmp_path / "envs" / "lab" / "exporter.yaml").write_text(changed)
    declared = "".join(f'{name}: {{matches: ["farm-virtual/{name}/*"]}}\n' for name in (EAST, WEST))
    (tmp_path / "envs" / "lab" / "places.yaml").write_text(declared)
    (tmp_path / "remote.yaml").write_text(CAMPAIGN)
    with lab_of(EAST, WEST, home=tmp_path / "home", cwd=tmp_path) as found:
        try:
            found.farm("coordinator", "up")
            yield found
        finally:
            found.farm("coordinator", "down")


def until_measuring(lab: LabHome, index: int, attempt: int) -> None:
    def measuring() -> bool:
        found = sorted((lab.path / "logs").glob(f"*-remote/{EAST}/boot-{index:03d}-{attempt}.log"))
        return bool(found) and len(re.findall(rb"@q\w{3} go\r", found[0].read_bytes())) >= 2

    wait_for(f"boot {index} of {EAST} measures, try {attempt}", measuring, 180)


def ser2net_of(lab: LabHome, board: str) -> int:
    """The process that has the board's serial line behind the exporter."""
    for pid in children(processes(lab)["labgrid-exporter"]):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"ser2net" in words and f"/{board}/console".encode() in words:
            return pid
    raise AssertionError(f"no ser2net for {board}")


def test_killed_parts_of_the_farm_cost_a_boot_each_and_the_boards_are_given_back(lab: LabHome) -> None:
    address = coordinator.running(lab.path) or ""
    for name in (EAST, WEST):
        wait_for("the exporter serves", lambda: places.seen(address)[name].resources, 20)  # noqa: B023
    run = lab.start("run", "remote.yaml", "--coordinator", "lab", "--seed", "1")
    try:
        until_measuring(lab, 0, 0)
        holder = places.seen(address)[EAST].holder
        assert re.search(rf"/farm-\w+-\d+-{run.pid}-\d+$", holder)
        os.kill(ser2net_of(lab, EAST), signal.SIGKILL)
        until_measuring(lab, 0, 1)
        os.kill(processes(lab)["labgrid-exporter"], signal.SIGKILL)
        until_measuring(lab, 0, 2)
        os.kill(processes(lab)["labgrid-coordinator"], signal.SIGKILL)
        text, _ = run.communicate(timeout=240)
    finally:
        run.kill()
    assert run.returncode == 0, text
    rows = lab.rows(
        "SELECT board, boot_index, attempt, status, "
        "(SELECT count(*) FROM trial WHERE boot_id = boot.id AND trial.status = 'ok') FROM boot ORDER BY 1, 2, 3"
    )
    assert [row[1:] for row in rows if row[0] == EAST] == [
        (0, 0, "failed", 0),
        (0, 1, "failed", 0),
        (0, 2, "failed", 0),
        (0, 3, "ok", 1),
        (1, 0, "ok", 1),
    ], text
    # a board whose own line was whole went on, and lost no more than what was under way when all lines broke
    assert (WEST, 0, 0, "ok", 1) in rows, text
    assert [row[1] for row in rows if row[0] == WEST and row[3:] == ("ok", 1)] == [0, 1], text
    assert all(row[4] == 0 for row in rows if row[3] != "ok"), text
    failed = [row for row in rows if row[3] == "failed"]
    assert len(re.findall(r"FAILED after .*: the serial line is gone", text)) == len(failed), text
    assert {places.seen(address)[name].holder for name in (EAST, WEST)} == {""}
