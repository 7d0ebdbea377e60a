"""The env files of real boards: nobody has run them here, so what can be checked is that they load, bind and plan."""

from pathlib import Path

import pytest
from labgrid import Environment

from farm.campaign import load_campaign
from farm.fleet import env
from farm.runner.planning import missing, plan_run

ROOT = Path(__file__).parents[2]
BOARDS = {
    "rk3568-evb": ("uboot-write", 1500000, "fe310000.mmc", "NetworkPowerDriver"),
    "mt8395-genio-1200-evk": ("fastboot", 921600, "11230000.mmc", "PDUDaemonDriver"),
    "mt7988-bpi-r4": ("netboot", 115200, "11230000.mmc", "NetworkPowerDriver"),
    "th1520-licheepi4a": ("fastboot", 115200, "ffe7080000.mmc", "DigitalOutputPowerDriver"),
}


@pytest.mark.parametrize("name", BOARDS)
def test_labgrid_and_farm_both_take_the_file(name: str) -> None:
    method, baud, controller, power = BOARDS[name]
    path = ROOT / "envs" / f"{name}.yaml"
    board = env.load(str(path), {})
    assert (board.farm.flash.method, board.farm.disk.controller) == (method, controller)
    assert board.place == name
    target = Environment(str(path)).get_target("main")
    strategy = target.get_driver("FarmStrategy", activate=False)
    assert strategy.console.port.speed == baud
    assert type(strategy.power).__name__ == power


@pytest.mark.parametrize("name", BOARDS)
def test_the_file_says_where_it_is_from_and_that_it_was_not_run(name: str) -> None:
    text = (ROOT / "envs" / f"{name}.yaml").read_text()
    assert "NOT RUN" in text
    assert text.count("# from:") >= 3


@pytest.mark.parametrize("name", ["packed", "hsq", "cqe", "readahead-posted"])
def test_the_studies_plan_on_their_boards_without_images(name: str) -> None:
    campaign = load_campaign(ROOT / "envs" / "campaigns" / f"{name}.yaml")
    boards = [env.load(str(ROOT / "envs" / f"{board}.yaml"), {}) for board in campaign.boards]
    assert plan_run(campaign, boards, 1).seconds > 3600
    for board in boards:
        assert any(
            line.startswith(f"{board.name}: image kernel is not there yet")
            for line in missing(campaign, boards)
        )
