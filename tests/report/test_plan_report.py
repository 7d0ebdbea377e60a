import io
from pathlib import Path

import pytest
from rich.console import Console

from farm.analysis.noise import Calibration, Noise
from farm.campaign import load_campaign
from farm.plan import BoardFacts, ScratchArea, plan
from farm.report.plan import render_plan

CAMPAIGNS = sorted((Path(__file__).parents[2] / "envs/campaigns").glob("*.yaml"))
AREA = ScratchArea("scratch.raw (partition 1)", 2**34)


def test_a_flash_of_images_that_are_not_there_yet_is_still_one() -> None:
    campaign = load_campaign(CAMPAIGNS[0])
    board = BoardFacts(
        "evb",
        "MMC behind x",
        20,
        50e6,
        AREA,
        AREA,
        "uboot-write",
        "mmc 0",
        dict.fromkeys(campaign.variants, 0),
    )
    out = io.StringIO()
    render_plan(plan(campaign, [board], seed=1), Console(file=out, width=100))
    assert "flashed: images of unknown size, which are not there yet, to mmc 0 by uboot-write" in " ".join(
        out.getvalue().split()
    )


def rendered(path, *, terminal=False, width=80, write_rate=400e6):
    campaign = load_campaign(path)
    board = BoardFacts(
        "virt-rk3568", "SD behind 0000:00:03.0", 20, write_rate, AREA, AREA, "uboot-write", "virtio 0",
        dict.fromkeys(campaign.variants, 60 * 2**20),
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


def test_looks_noise_and_boots_needed_are_said(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nboards: [b]\nboots: {min: 4, max: 8}\ntrials: 2\nvariants: {old: {baseline: true}, new: {}}\n"
        "workloads:\n- {tool: dd, rw: write, bs: 1M, size: 8M}\n- {tool: dd, rw: read, bs: 1M, size: 8M, band: measured}\n"
    )
    found = Calibration("aa1", 1.8e9, "SD\x1b (0x01)", {("bw_bytes", "write"): Noise(0.03, 10, 12)})
    board = BoardFacts("b", "SD", 20, 400e6, AREA, AREA, "netboot")
    out = io.StringIO()
    known = {"b": {"dd-write-1M": found, "dd-read-1M": found}}
    made = plan(load_campaign(path), [board], seed=1, calibrations=known)
    render_plan(made, Console(file=out, width=100))
    text = out.getvalue()
    assert max(len(line) for line in text.split("\n")) <= 100 and "\x1b" not in text
    plain = " ".join(text.split())
    assert "b: 8 to 16 boots, 32 to 64 trials, about " in plain
    # 16 boots of two trials of 8 MiB; 8 of them at the first look
    assert "written: 256 MiB to scratch.raw (partition 1) by trials of dd-write-1M" in plain
    assert "settled at the first look: 128 MiB written in all" in plain
    assert "3 looks: after 4 boots per variant, and after each block up to 8" in plain
    assert "noise by A/A run aa1 of 2027-01-15 08:00 UTC, card SD^[ (0x01):" in plain
    # the band by hand: 1.96 x 0.03 x sqrt(10/3.940) x sqrt(2/4) = 0.0662, 6.85 %
    assert "dd-read-1M: boots spread by 3.0 %, band 6.85 % (measured); boots per variant needed:" in plain
    assert "dd-write-1M: boots spread by 3.0 %, band 3 %;" in plain
    assert "boots: 8 are fewer than the" in plain
    out = io.StringIO()
    render_plan(plan(load_campaign(path), [board], seed=1), Console(file=out, width=100))
    assert "noise: unknown" in out.getvalue() and "farm run --aa CAMPAIGN measures it" in " ".join(
        out.getvalue().split()
    )
