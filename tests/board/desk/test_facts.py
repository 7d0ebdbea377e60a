"""What the board says of itself is what its env file declares, and what its own files say."""

import pytest

from farm.board import proof
from farm.board.facts import Facts
from farm.board.safety import UnsafeError, check_disk, writable
from farm.board.strategy import FarmStrategy
from farm.fleet.env import BoardEnv

SECTOR = 512


def test_the_kernel_that_was_flashed_runs(farm_facts: Facts, strategy: FarmStrategy) -> None:
    assert strategy.bundle is not None
    assert strategy.shell.run_check("cat /proc/version") == [strategy.bundle.banner.strip()]
    assert proof.check_banner(farm_facts, strategy.bundle.banner) == []
    assert proof.check_args(farm_facts, strategy.bundle.args) == []


def test_another_kernel_would_not_pass_for_it(farm_facts: Facts) -> None:
    (doubt,) = proof.check_banner(farm_facts, "Linux version 2.6.39 (nobody@nowhere)")
    assert "another kernel runs than was flashed" in doubt


def test_the_card_and_its_bus_are_known(farm_facts: Facts, farm_board: BoardEnv) -> None:
    disk = farm_board.farm.disk
    assert (farm_facts.disk.size, farm_facts.disk.type) == (disk.size, disk.type)
    assert disk.controller in str(farm_facts.values["controller"])
    assert len(farm_facts.disk.cid) == 32
    assert farm_facts.values["ios.width_bits"] in (1, 4, 8)
    assert int(str(farm_facts.values["ios.clock_hz"])) > 0


def test_the_card_says_what_its_queue_does(farm_facts: Facts, strategy: FarmStrategy) -> None:
    node = farm_facts.disk.node.removeprefix("/dev/")
    said = strategy.shell.run_check(f"cat /sys/block/{node}/queue/read_ahead_kb")
    assert said == [str(farm_facts.values["read_ahead_kb"])]


def test_scratch_areas_may_be_written_and_nothing_that_differs_by_a_sector(
    farm_facts: Facts, farm_board: BoardEnv
) -> None:
    disk, scratch = farm_board.farm.disk, farm_board.farm.scratch
    areas = [area for area in (scratch.raw, scratch.files) if area is not None]
    for area in areas:
        assert writable(area, disk, farm_facts.disk).startswith(farm_facts.disk.node)
        larger = area.model_copy(update={"size": area.size + SECTOR})
        with pytest.raises(UnsafeError):
            writable(larger, disk, farm_facts.disk)


def test_another_card_is_refused(farm_facts: Facts, farm_board: BoardEnv) -> None:
    other = farm_board.farm.disk.model_copy(update={"size": farm_board.farm.disk.size * 2})
    with pytest.raises(UnsafeError, match=r"will not touch the disk: .* insert the right card"):
        check_disk(other, farm_facts.disk)
