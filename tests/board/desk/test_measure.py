"""Small measurements through the batch of a campaign, and what is refused or does not count."""

from collections.abc import Callable

import pytest

from farm.errors import UserError
from farm.fleet.env import BoardEnv
from farm.runner.desk import Measured

Measure = Callable[..., Measured]
MIB = 1 << 20


def test_dd_reads_what_it_was_told_to(measure: Measure, farm_board: BoardEnv) -> None:
    found = measure(tool="dd", rw="read", bs="1M", size="16M", trials=2)
    assert (found.board, found.variant) == (farm_board.name, "golden")
    assert found.values("bytes") == (16 * MIB, 16 * MIB)
    seconds = found.values("seconds")
    assert found.bw_bytes == pytest.approx(sum(16 * MIB / one for one in seconds) / 2, rel=0.05)


def test_fio_tells_rates_and_latencies(measure: Measure) -> None:
    found = measure(tool="fio", rw="randread", bs="4k", size="8M", runtime="1s")
    assert found.bw_bytes == pytest.approx(4096 * found.median("iops"), rel=0.02)
    assert 0 < found.median("lat_mean_ns") < 1e9 < found.median("seconds") * 2e9


def test_writes_stay_inside_the_scratch_area(measure: Measure, farm_board: BoardEnv) -> None:
    area = farm_board.farm.scratch.raw
    if area is None:
        with pytest.raises(UserError, match="scratch"):
            measure(tool="dd", rw="write", bs="1M", size="1M")
        return
    assert measure(tool="dd", rw="write", bs="1M", size="4M").values("bytes") == (4 * MIB,)


@pytest.mark.farm_variant("unmet", knobs={"queue/read_ahead_kb": 64}, expect={"read_ahead_kb": 65})
def test_a_boot_that_is_not_as_expected_does_not_count(measure: Measure) -> None:
    with pytest.raises(pytest.fail.Exception, match="void: expected read_ahead_kb = 65, found 64"):
        measure(tool="dd", rw="read", bs="1M", size="1M")


def test_a_workload_that_is_none_is_refused_in_place(measure: Measure) -> None:
    with pytest.raises(UserError, match=r"test_measure\.py:\d+: measure\[0\]\.rw: .*backwards"):
        measure(tool="dd", rw="backwards", bs="1M", size="1M")
