"""What a worker does around a boot; the boots themselves are in test_run.py, on a virtual board."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.board.console import Watch
from farm.errors import BoardError, FarmError, UserError
from farm.runner import worker
from farm.runner.boot import BootRunner
from farm.runner.messages import BootDone
from farm.schedule import PlannedBoot


@pytest.mark.parametrize(("at_once", "order"), [(1, ["run", "stored", "off"]), (None, ["run", "stored"])])
def test_a_board_that_shares_its_host_is_off_while_it_waits_and_its_boot_is_stored_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int | None, order: list[str]
) -> None:
    monkeypatch.setenv("FARM_CACHE", str(tmp_path))
    done: list[str] = []
    record = SimpleNamespace(status="ok", events=())
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


class NoPower:
    """A strategy whose board breaks in a boot, and whose power switch no longer answers then."""

    status, bundle, ssh = None, None, None

    def __init__(self, breaks: Exception) -> None:
        self.breaks, self.watched = breaks, SimpleNamespace(watch=Watch())

    def transition(self, state: str) -> None:
        self.watched.watch.feed(b"mmc0: error -110\r\n")
        raise self.breaks

    def recover(self) -> None:
        raise BoardError("the power switch failed: refused", step="power off")


def _boot_without_power(tmp_path: Path, breaks: Exception) -> tuple[list[BootDone], str]:
    """What is stored of such a boot, and what is said of it."""
    stored: list[BootDone] = []
    pipe = SimpleNamespace(
        send=lambda message: stored.append(message) if isinstance(message, BootDone) else None,
        recv=lambda: None,
    )
    farm = SimpleNamespace(measure_alone=None, at_once=None, power_cycles=3)
    task = SimpleNamespace(
        run_id="r",
        logs=tmp_path,
        bundles={"v": None},
        board=SimpleNamespace(name="b", farm=farm, target="main"),
    )
    runner = BootRunner(task, NoPower(breaks), lambda message: None)
    with pytest.raises(FarmError) as ended:
        worker._boot(pipe, task, runner, PlannedBoot(0, 0, "v"), 0)
    return stored, str(ended.value)


def test_a_failed_boot_is_on_record_even_where_its_board_cannot_be_switched_off(tmp_path: Path) -> None:
    (stored,), said = _boot_without_power(tmp_path, BoardError("the serial line is gone", step="console"))
    reason = "the serial line is gone; then power off: the power switch failed: refused"
    assert (stored.record.status, stored.record.reason) == ("failed", reason)
    assert [event["kind"] for event in stored.record.events] == ["console", "recovery"]
    log = tmp_path / "b" / "boot-000-0.log"
    assert said.splitlines() == [
        f"b: recovery: {reason}",
        "    | mmc0: error -110",
        f"    full console log: {log}",
    ]


def test_what_is_wrong_with_the_input_is_said_where_the_switch_does_not_answer_either(tmp_path: Path) -> None:
    assert _boot_without_power(tmp_path, UserError("has no fio", key="farm.fio")) == (
        [],
        "farm.fio: has no fio",
    )
