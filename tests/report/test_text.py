"""Mail and markdown: what a reviewer asks for is there, in 75 columns, and can be repeated from the mail alone."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from farm.campaign import load_campaign
from farm.report import text
from farm.report.study import study
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

CAMPAIGN = Path(__file__).parents[2] / "envs" / "campaigns" / "readahead.yaml"
# MB/s of the boots in ABBA order; medians 100 and 110 by sorting them by hand.
FAST = {
    "ra128": [99.5, 100.5, 99.8, 100.2, 99.9, 100.1],
    "ra1024": [109.5, 110.5, 109.8, 110.2, 109.9, 110.1],
}
COMMAND = (
    "fio --name=randread-4k --filename=/dev/mmcblk0p1 --rw=randread --bs=4k --size=64M --direct=1 --ioengine=psync "
    "--iodepth=1 --numjobs=1 --runtime=500ms --time_based --ramp_time=200ms --readonly --group_reporting"
)


@pytest.fixture
def measured(store: Store) -> Store:
    settings = {
        "baseline": "ra128", "variants": ["ra128", "ra1024"], "workloads": ["dd-read-64k", "randread-4k"],
        "trials": 1, "band": 0.03, "socs": {"virt-a": "RK3568", "virt-b": "RK3588"}, "commits": {"ra1024": "3c82b698fee1"},
    }  # fmt: skip
    store.begin_run(RunRecord("run1", "readahead", CAMPAIGN.read_text(), 4242, 0.0, settings=settings))
    for board in ("virt-a", "virt-b"):
        left = {name: list(values) for name, values in FAST.items()}
        for index, variant in enumerate(["ra128", "ra1024", "ra1024", "ra128"] * 3):
            value = left[variant].pop(0) * 1e6
            if board == "virt-b":
                value = 1e14 / value if variant == "ra1024" else value * 1.0
            bandwidth = (SampleRecord("read", "bw_bytes", value),)
            tails = (
                SampleRecord("read", "lat_p99_ns", 1e13 / value),
                SampleRecord("read", "lat_p99.9_ns", 2e13 / value),
            )
            store.commit_boot(
                BootRecord(
                    "run1", board, index, index // 4, variant, 0, "ok", "", 60.0 * index, 60.0 * index + 50,
                    facts={
                        "banner": "Linux version 6.12.1 (farm@host) #1 SMP", "card.name": "KLMBG2" + board[-1],
                        "card.fwrev": "0x5", "card.manfid": "0x000015", "ios.timing": "mmc HS200", "ios.width_bits": 8,
                        "ios.clock_hz": 200_000_000, "ios.actual_clock_hz": 198_000_000, "disk_bytes": 31_268_536_320,
                    },
                    trials=(
                        TrialRecord("dd-read-64k", 0, "ok", "", "(now; dd if=/dev/mmcblk0p1 ...)", 0.0, 1.0, bandwidth,
                                    facts={"command": "dd if=/dev/mmcblk0p1 of=/dev/null bs=64k count=512"}),
                        TrialRecord("randread-4k", 0, "ok", "", COMMAND, 0.0, 1.0, bandwidth + tails),
                    ),
                )
            )  # fmt: skip
    store.finish_run("run1", "done", ended=800.0)
    return store


def test_a_mail_has_what_a_reviewer_asks_for(measured: Store) -> None:
    mail = text.mail(study(measured, "run1"))
    assert mail.isascii() and max(map(len, mail.splitlines())) <= text.COLUMNS == 75
    plain = " ".join(mail.split())
    for wanted in (
        "Board virt-a", "SoC: RK3568", "KLMBG2a", "manfid 0x000015", "29.12 GiB", "firmware: 0x5",
        "mmc HS200, 8 bits, 200 MHz (actual 198 MHz)", "Linux version 6.12.1 (farm@host) #1 SMP", "commit of ra1024: 3c82b698fee1",
        "100 MB/s 110 MB/s", "6/6", "faster", "slower", "the boards disagree", "virt-a (RK3568, KLMBG2a",
        "queue/read_ahead_kb = 1024", "drop_caches", "seed 4242",
        "below 0.05 and a change outside the band",
        "dd if=/dev/mmcblk0p1 of=/dev/null bs=64k count=512", "Latency p99", "Latency p99.9",
    ):  # fmt: skip
        assert wanted in plain, wanted
    # ratio and interval of the bandwidth on virt-a: 1.1 by hand
    (low, high) = re.search(r"110 MB/s\s+1\.100\s+([\d.]+) \.\. ([\d.]+)", mail).groups()  # type: ignore[union-attr]
    assert float(low) < 1.1 < float(high)
    # the command line, joined as a shell would, is the one that ran
    assert COMMAND in re.sub(r" \\\n\s+", " ", mail)


def test_the_campaign_in_a_mail_is_the_campaign_that_ran(measured: Store, tmp_path: Path) -> None:
    """Somebody who has only the mail cuts the indented block out and runs it."""
    mail = text.mail(study(measured, "run1"))
    block = re.search(r"^  name: readahead\n(?:(?:  .*)?\n)+?(?=Then:)", mail, re.MULTILINE)
    assert block is not None
    copy = tmp_path / "readahead.yaml"
    copy.write_text(textwrap.dedent(block[0]))
    found, meant = load_campaign(copy), load_campaign(CAMPAIGN)
    assert found.workloads == meant.workloads and found.variants == meant.variants
    assert (found.boards, found.boots, found.trials, found.band) == (
        meant.boards,
        meant.boots,
        meant.trials,
        meant.band,
    )
    assert "  farm run readahead.yaml --seed 4242\n" in mail


def test_the_command_to_repeat_it_asks_for_the_boards_of_the_run(measured: Store) -> None:
    run = measured.run("run1")
    measured.set_settings(run.id, {**run.settings, "asked": ["board=rk 3568", "x"], "count": 2})
    mail = text.mail(study(measured, "run1"))
    assert "farm run readahead.yaml --seed 4242 --board 'board=rk 3568' --board x --count 2" in " ".join(
        mail.split()
    ).replace(" \\ ", " ")
    assert "\n  description: Does a larger readahead window" in mail


def test_markdown_has_tables_that_render(measured: Store) -> None:
    page = text.markdown(study(measured, "run1"))
    tables = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    assert len(tables) == 6  # two boards: bandwidth and two tails
    for table in tables:
        head, rule, *rows = table.splitlines()
        columns = head.count("|")
        assert rows and all(re.sub(r"\\\|", "", line).count("|") == columns for line in (rule, *rows))
    assert "| randread-4k | 100 MB/s | 110 MB/s | 1.100 |" in page
    assert page.count("```") % 2 == 0


def test_hostile_text_obeys_nobody(hostile: Store) -> None:
    """ANSI, NUL, C1, bidirectional marks, HTML and lone surrogates, in every text of a run."""
    found = study(hostile, "latest")
    mail, page = text.mail(found), text.markdown(found)
    assert mail.isascii() and max(map(len, mail.splitlines())) <= 75
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", mail)
    assert "^[[2J" in mail
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", page)
    outside = re.sub(r"^(`{3,}).*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert "<b>" in page and not re.search(r"(?<!\\)<", outside)


@pytest.mark.parametrize("name", ["v" * 64, "a-rather-long-name-of-a-variant"])
def test_long_names_stay_in_their_columns(store: Store, name: str) -> None:
    store.begin_run(RunRecord("r", "c" * 64, "", 1, 0.0, settings={"baseline": "b" * 64}))
    for index in range(8):
        variant = name if index % 4 in (1, 2) else "b" * 64
        sample = SampleRecord("read", "bw_bytes", 1e8 + index)
        trial = TrialRecord("w" * 64, 0, "ok", "", "dd " + "x" * 300 + " y", 0.0, 1.0, (sample,))
        store.commit_boot(
            BootRecord("r", "board" * 20, index, 0, variant, 0, "ok", "", 60.0 * index, 1.0, trials=(trial,))
        )
    mail = text.mail(study(store, "r"))
    assert max(map(len, mail.splitlines())) <= 75
    assert "100 MB/s" in mail and "4/4" in mail and "w" * 64 in mail
