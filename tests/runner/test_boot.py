"""One boot in this process, with a fault at an exact moment: what is in doubt is void, never a number."""

from pathlib import Path

import pytest

from farm.campaign import load_campaign
from farm.fleet import boards as fleet
from farm.runner.boot import BootRunner
from farm.runner.checkup import open_strategy
from farm.runner.task import Task, make_bundle
from farm.schedule import PlannedBoot
from farm.store.db import Store
from farm.store.records import RunRecord
from farm.virtual import lab
from tests.lab import BOARD, LabHome

pytestmark = pytest.mark.lab

CAMPAIGN = """\
name: behind-the-back
boards: [virt-rk3568]
boots: 2
trials: 1
variants:
  only: {baseline: true, kernel: kernel-6.12, modules: modules-6.12}
workloads:
  - {tool: dd, rw: read, bs: 1M, size: 16M, direct: true}
"""


def test_a_kernel_written_behind_farms_back_is_void_and_gives_no_number(
    lab_home: LabHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_HOME", str(lab_home.path))
    for name, value in lab.environment(lab_home.path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    campaign = load_campaign(tmp_path / "campaign.yaml")
    (board,) = fleet.ready([BOARD], lab_home.path, start=False, say=print)
    bundle = make_bundle(board, campaign, campaign.variants["only"], tmp_path)
    strategy = open_strategy(board)
    honest = strategy.method.boot
    slot = board.farm.flash.slots["kernel"].start

    def boot(ports, what) -> None:
        # verified, powered, about to boot: now another kernel gets onto the device
        with (lab_home.path / "virtual" / BOARD / "flash.img").open("r+b") as flash:
            flash.seek(slot)
            flash.write(board.image("kernel-6.1").read_bytes())
        honest(ports, what)

    monkeypatch.setattr(strategy.method, "boot", boot)
    task = Task("run-1", board, campaign, tmp_path / "logs", {"only": bundle})
    record = BootRunner(task, strategy, lambda message: None).run(PlannedBoot(0, 0, "only"), 0)
    strategy.recover()
    strategy.target.cleanup()

    assert record.status == "void"
    assert record.reason.startswith("another kernel runs than was flashed: running 'Linux version 6.1.")
    with Store.open(tmp_path / "farm.db", create=True) as store:
        store.begin_run(RunRecord("run-1", "behind-the-back", CAMPAIGN, 1, 0.0))
        store.commit_boot(record)
        trials = store.trials("run-1")
        assert [(trial.status, trial.samples) for trial in trials] == [("void", ())]
        assert all(row.value is None for row in store.values("run-1"))
