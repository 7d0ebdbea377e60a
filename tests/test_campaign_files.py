"""The campaigns that ship: the studies' parameters, typed here from the posts, and their known doubts."""

import re
from pathlib import Path

import pytest

from farm.campaign import as_run, load_campaign
from farm.plan import BoardFacts, ScratchArea, plan
from farm.workload.model import DdWorkload, FioWorkload

FOLDER = Path(__file__).parents[1] / "envs/campaigns"
KIB, MIB, GIB = 1024, 1024**2, 1024**3


def load(name):
    return load_campaign(FOLDER / f"{name}.yaml")


def doubts(name):
    campaign, area = load(name), ScratchArea("x", 2**40)
    made = plan(campaign, [BoardFacts(board, "", 30, 400e6, area, area) for board in campaign.boards], seed=1)
    return {finding.lint.code for finding in made.findings}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_campaign_loads_and_is_called_like_its_file(path):
    campaign = load_campaign(path)
    assert campaign.name == path.stem
    assert campaign.boots >= 4


@pytest.mark.parametrize("name", ["readahead-posted", "packed", "hsq", "cqe"])
def test_a_studys_comments_name_its_doubts(name):
    said = re.findall(r"^# lint: (\S+)$", (FOLDER / f"{name}.yaml").read_text(), re.MULTILINE)
    assert sorted(said) == sorted(doubts(name))


@pytest.mark.parametrize("name", ["readahead", "kernels"])
def test_our_own_campaigns_leave_no_doubt_but_the_governor(name):
    assert doubts(name) <= {"governor-not-fixed"}


def test_the_demo_compares_readahead_in_few_seconds_a_boot():
    campaign = load("readahead")
    assert campaign.boards == ("virt-rk3568", "virt-mt8395", "virt-th1520")
    assert campaign.boots == 4
    assert campaign.baseline == "ra128"
    assert {name: dict(one.knobs) for name, one in campaign.variants.items()} == {
        "ra128": {"queue/read_ahead_kb": "128"},
        "ra1024": {"queue/read_ahead_kb": "1024"},
    }
    assert {name: dict(one.expect) for name, one in campaign.variants.items()} == {
        "ra128": {"read_ahead_kb": 128},
        "ra1024": {"read_ahead_kb": 1024},
    }
    buffered = campaign.workloads[0]
    assert isinstance(buffered, DdWorkload)
    assert (buffered.target, buffered.bs, buffered.size, buffered.drop_caches) == (
        "raw",
        64 * KIB,
        32 * MIB,
        True,
    )
    direct = [(one.rw, one.bs, one.direct) for one in campaign.workloads if isinstance(one, FioWorkload)]
    assert direct == [("randread", 4 * KIB, True)]
    assert campaign.trials * sum(one.seconds(50e6) for one in campaign.workloads) <= 12
    assert all(one.seconds(50e6) <= 2 for one in campaign.workloads)


def test_the_demo_against_itself_differs_in_nothing():
    demo = load("readahead")
    aa = as_run(demo, {"aa": True})
    assert aa.workloads == demo.workloads
    assert (aa.boots, aa.trials, aa.boards) == (demo.boots, demo.trials, demo.boards)
    knobs = [dict(one.knobs) for one in aa.variants.values()]
    assert knobs == [{"queue/read_ahead_kb": "128"}] * 2


def test_the_kernels_are_proven_by_banner():
    campaign = load("kernels")
    assert {
        name: (one.kernel, one.modules, one.initrd, one.expect["kernel"])
        for name, one in campaign.variants.items()
    } == {
        "debian-6.1": ("kernel-6.1", "modules-6.1", "initrd", "Linux version 6.1."),
        "debian-6.12": ("kernel-6.12", "modules-6.12", "initrd", "Linux version 6.12."),
    }
    assert campaign.baseline == "debian-6.1"


def test_readahead_as_posted():
    campaign = load("readahead-posted")
    assert campaign.boards == ("mt8395-genio-1200-evk", "rk3568-evb")
    assert all(isinstance(one, DdWorkload) for one in campaign.workloads)
    assert [(one.rw, one.target, one.bs, one.size, one.count, one.direct) for one in campaign.workloads] == [
        ("read", "file", 512, 2296521564, None, False),
        ("read", "file", 512, 1048576000, None, False),
        ("read", "file", 512, 1073741824, 2097152, False),
    ]


def test_packed_as_posted():
    campaign = load("packed")
    assert [
        (one.rw, one.bs, one.size, one.direct, one.iodepth, one.numjobs, one.ioengine)
        for one in campaign.workloads
    ] == [
        (rw, 4 * KIB, 512 * MIB, True, 20, 20, "psync") for rw in ("read", "randread", "write", "randwrite")
    ]


def test_hsq_as_posted():
    campaign = load("hsq")
    assert all(
        (one.size, one.direct, one.iodepth, one.numjobs, one.thread, one.ioengine)
        == (512 * MIB, True, 64, 8, True, "psync")
        for one in campaign.workloads
    )
    assert {(one.rw, one.bs // KIB) for one in campaign.workloads} == {
        ("write", 512),
        ("read", 512),
        ("randwrite", 4),
        ("randread", 4),
        ("randwrite", 8),
        ("randread", 8),
        ("randwrite", 16),
        ("randread", 16),
    }


def test_cqe_as_posted():
    campaign = load("cqe")
    assert campaign.boards == ("th1520-licheepi4a",)
    one = campaign.workloads[0]
    assert (one.rw, one.bs, one.size, one.direct, one.iodepth, one.ioengine) == (
        "randread",
        MIB,
        4 * GIB,
        True,
        256,
        "sync",
    )
    # as the kernel prints it (drivers/mmc/core/mmc.c): "%s: Command Queue Engine enabled"
    (pattern,) = campaign.variants["cqe"].expect["dmesg"]
    assert re.search(pattern, "[    2.107011] mmc0: Command Queue Engine enabled")
