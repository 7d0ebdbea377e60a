"""What a worker does around a boot; the boots themselves are in test_run.py, on a virtual board."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.runner import worker
from farm.runner.messages import BootDone
from farm.schedule import PlannedBoot


@pytest.mark.parametrize(("at_once", "order"), [(1, ["run", "stored", "off"]), (None, ["run", "stored"])])
def test_a_board_that_shares_its_host_is_off_while_it_waits_and_its_boot_is_stored_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int | None, order: list[str]
) -> None:
    monkeypatch.setenv("FARM_CACHE", str(tmp_path))
    done: list[str] = []
    record = SimpleNamespace(status="ok")
    strategy = SimpleNamespace(recover=lambda: done.append("off"))
    runner = SimpleNamespace(run=lambda planned, attempt: done.append("run") or record, strategy=strategy)
    pipe = SimpleNamespace(
        send=lambda message: done.append("stored") if isinstance(message, BootDone) else None,
        recv=lambda: None,
    )
    farm = SimpleNamespace(measure_alone="host-cpu", at_once=at_once, power_cycles=3)
    task = SimpleNamespace(board=SimpleNamespace(name="b", farm=farm, target="main"))
    worker._boot(pipe, task, runner, PlannedBoot(0, 0, "v"), 0)
    assert done == order
