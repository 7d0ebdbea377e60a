"""Doubts about what runs: each of them is a reason for void, and none is overlooked."""

import pytest

from farm.board.facts import Facts, parse_probe
from farm.board.proof import check_args, check_banner, check_bus, check_expect
from tests.board.test_facts import PROBE


@pytest.fixture
def facts() -> Facts:
    return parse_probe(PROBE)


def test_the_flashed_banner_has_to_run(facts) -> None:
    banner = "Linux version 6.1.0-37-arm64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP Debian 6.1.140-1"
    assert check_banner(facts, banner) == []
    assert check_banner(facts, banner + "\n") == []
    (doubt,) = check_banner(facts, banner.replace("6.1.140-1", "6.1.141-1"))
    assert doubt.startswith("another kernel runs than was flashed: running 'Linux version 6.1.0-37")
    assert "6.1.141-1" in doubt


def test_every_argument_has_to_arrive(facts) -> None:
    assert check_args(facts, "console=ttyS2,1500000") == []
    assert check_args(facts, "") == []
    assert check_args(facts, "console=ttyS2,1500000 mmc.cqe=1") == [
        "kernel arguments 'mmc.cqe=1' did not reach the kernel"
    ]
    # a part of a word is not the word
    assert check_args(facts, "console=ttyS2") != []


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"read_ahead_kb": 1024}, None),
        ({"read_ahead_kb": "1024"}, None),
        ({"read_ahead_kb": 128}, "expected read_ahead_kb = 128, found 1024"),
        ({"scheduler": "mq-deadline"}, None),
        ({"scheduler": "none"}, "expected scheduler = none, found mq-deadline"),
        ({"ios.timing": "mmc HS400"}, "expected ios.timing = mmc HS400, found mmc HS200"),
        ({"no_such_fact": 1}, "expected no_such_fact = 1, but the board does not say"),
        ({"kernel": "6.1.0-37"}, None),
        ({"kernel": "6.12"}, "expected a kernel with '6.12' in its banner"),
        ({"dmesg": ("new HS200 MMC card",)}, None),
        (
            {"dmesg": ("new HS\\d+", "Command Queue")},
            "expected a kernel line matching 'Command Queue', found none",
        ),
    ],
)
def test_expectations(facts, expect, said) -> None:
    doubts = check_expect(facts, expect)
    if said is None:
        assert doubts == []
    else:
        assert len(doubts) == 1
        assert doubts[0].startswith(said)


def test_the_bus_has_to_be_the_baselines_unless_it_is_what_changes(facts) -> None:
    baseline = {"ios.timing": "mmc HS200", "ios.actual_clock_hz": 200_000_000}
    assert check_bus(facts, baseline, {}) == [
        "ios.actual_clock_hz is 198000000, but the baseline ran with 200000000"
    ]
    assert check_bus(facts, baseline, {"ios.actual_clock_hz": 198_000_000}) == []
    assert check_bus(facts, {}, {}) == []
