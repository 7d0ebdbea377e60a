"""A run through labgrid's coordinator and exporter, whose parts are killed from outside; counts are from the database."""

import os
import re
import signal
from pathlib import Path

import pytest

from farm.fleet import coordinator, places
from tests.fleet.test_places import processes
from tests.lab import BOARD, LabHome, wait_for

pytestmark = pytest.mark.lab

CAMPAIGN = """\
name: remote
boards: [virt-rk3568]
boots: 2
trials: 1
variants:
  only: {baseline: true}
workloads:
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 4s}
"""


def measuring(lab: LabHome, index: int, attempt: int) -> bool:
    found = sorted((lab.path / "logs").glob(f"*-remote/{BOARD}/boot-{index:03d}-{attempt}.log"))
    return bool(found) and len(re.findall(rb"@q\w{3} go\r", found[0].read_bytes())) >= 2


def test_killed_parts_of_the_farm_cost_a_boot_each_and_the_board_is_given_back(
    lab_home: LabHome, tmp_path: Path
) -> None:
    (tmp_path / "remote.yaml").write_text(CAMPAIGN)
    lab_home.farm("coordinator", "up")
    address = coordinator.running(lab_home.path) or ""
    try:
        wait_for("the exporter serves", lambda: places.seen(address)[BOARD].resources, 20)
        words = ("run", str(tmp_path / "remote.yaml"), "--board", "board=rk3568", "--coordinator", "lab")
        run = lab_home.start(*words, "--seed", "1")
        try:
            wait_for("boot 0 measures", lambda: measuring(lab_home, 0, 0), 120)
            holder = places.seen(address)[BOARD].holder
            assert re.search(rf"/farm-\w+-\d+-{run.pid}-\d+$", holder)
            os.kill(processes(lab_home)["ser2net"], signal.SIGKILL)
            wait_for("boot 0 measures again", lambda: measuring(lab_home, 0, 1), 180)
            os.kill(processes(lab_home)["labgrid-coordinator"], signal.SIGKILL)
            text, _ = run.communicate(timeout=240)
        finally:
            run.kill()
        assert run.returncode == 0, text
        rows = lab_home.rows(
            "SELECT boot_index, attempt, status, (SELECT count(*) FROM trial WHERE boot_id = boot.id) FROM boot "
            "WHERE run_id = (SELECT id FROM run ORDER BY started DESC LIMIT 1) ORDER BY boot_index, attempt"
        )
        assert rows == [(0, 0, "failed", 0), (0, 1, "failed", 0), (0, 2, "ok", 1), (1, 0, "ok", 1)], text
        assert len(re.findall(r"FAILED after .*: the serial line is gone", text)) == 2
        assert places.seen(address)[BOARD].holder == ""
    finally:
        lab_home.farm("coordinator", "down")
