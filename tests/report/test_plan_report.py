import io
from pathlib import Path

import pytest
from rich.console import Console

from farm.campaign import load_campaign
from farm.plan import BoardFacts, ScratchArea, plan
from farm.report.plan import render_plan

CAMPAIGNS = sorted((Path(__file__).parents[2] / "envs/campaigns").glob("*.yaml"))
AREA = ScratchArea("scratch.raw (partition 1)", 2**34)


def rendered(path, *, terminal=False, width=80, **facts):
    campaign = load_campaign(path)
    board = BoardFacts(
        "virt-rk3568", "SD behind 0000:00:03.0", AREA, AREA, 20, "uboot-write", "virtio 0",
        dict.fromkeys(campaign.variants, 60 * 2**20), **facts,
    )  # fmt: skip
    out = io.StringIO()
    render_plan(plan(campaign, [board], seed=1), Console(file=out, force_terminal=terminal, width=width))
    return out.getvalue()


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_no_line_is_wider_than_100_columns_and_a_pipe_gets_plain_text(path):
    text = rendered(path)
    assert max(len(line) for line in text.split("\n")) <= 100
    assert "\x1b" not in text


def test_a_narrow_terminal_is_kept_to():
    text = rendered(CAMPAIGNS[0], terminal=True, width=70)
    assert "\x1b[1m" in text
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(len(line) for line in plain.split("\n") if "/" not in line) <= 70


def test_what_a_person_needs_to_see(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nboards: [b]\nboots: 4\ntrials: 2\nvariants:\n  old: {baseline: true, kernel: k1}\n  new: {kernel: k2}\n"
        "workloads:\n- {tool: dd, rw: write, bs: 1M, size: 8M, fsync: true, prefill: true}\n"
    )
    text = rendered(path, write_rate=50e6)
    assert text.startswith("c: old, new (baseline old), seed 1\n")
    assert "  dd-write-1M-fsync: dd if=/dev/zero of=RAW bs=1M count=8 conv=fsync\n" in text
    # seed 1: a b for block 0, b a for block 1 (random.Random(1): 0.134 0.847, 0.763 0.255)
    assert "  block 0: old new new old\n  block 1: new old old new\n" in text
    assert "  flashed: at most 360 MiB in 6 flashes to virtio 0 by uboot-write\n" in text
    assert "  written: 128 MiB to scratch.raw (partition 1) by trials of dd-write-1M-fsync\n" in text
    assert "  written: 64 MiB to scratch.raw (partition 1) by pre-fill\n" in text
    assert "  in all: 192 MiB to scratch.raw (partition 1)\n" in text
    assert "governor-not-fixed" in text
    assert text.endswith("nothing was touched\n")


def test_text_of_the_campaign_is_no_markup(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\ndescription: '[bold]x[/bold] [link=http://a]b'\nboards: [b]\nboots: 2\n"
        "variants: {a: {baseline: true}}\nworkloads: [{tool: dd, rw: read, size: 1M}]\n"
    )
    assert "[bold]x[/bold] [link=http://a]b\n" in rendered(path)
    assert "written: nothing; every workload reads" in rendered(path)
