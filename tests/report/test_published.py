"""What people posted, imported as a mail and compared: one row of tests/published, one honest answer.

Figures are typed from the posts, ratios worked out by hand: 61.86 MB/s is 2296521564 / 37.124446 and so on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from farm.cli import app
from farm.errors import UserError
from farm.importing import Source, import_files, sample_numbers
from farm.report import html, text
from farm.report.compare_view import Row
from farm.report.study import Study, latencies, study
from farm.store.db import Store

POSTS = Path(__file__).parents[1] / "published"
MIB = 1024**2
Import = Callable[..., Study]


@pytest.fixture
def posted(store: Store) -> Import:
    """Imports (variant, board, card, file, samples) entries into one run and studies it."""

    def run(*entries: tuple[str, str, str | None, str, str | None]) -> Study:
        for variant, board, card, file, numbers in entries:
            source = Source(variant, board, None, sample_numbers(numbers), card)
            import_files(store, "posted", source, [(file, (POSTS / file).read_bytes())])
        return study(store, "posted")

    return run


def rows(found: Study, board: str | None = None) -> dict[str, Row]:
    return {
        row.label: row for block in found.table.blocks if board in (None, block.board) for row in block.rows
    }


def codes(found: Study) -> dict[str, tuple[str, ...]]:
    return {doubt.code: doubt.boards for doubt in found.doubts}


def check(row: Row, before: float, after: float, ratio: float) -> None:
    """Bandwidths in bytes/second; nothing may be said but the ratio."""
    assert row.base.value == pytest.approx(before, rel=1e-3)
    assert row.cand is not None and row.cand.value == pytest.approx(after, rel=1e-3)
    assert row.ratio == pytest.approx(ratio, rel=2e-3)
    assert row.verdict is not None and row.verdict.verdict == "inconclusive"
    assert "unknown" in row.verdict.reason and "4 boots per variant" in row.verdict.reason


READAHEAD = [
    ("before", "MediaTek", "SD card", "readahead-mediatek-before.txt", None),
    ("after", "MediaTek", "SD card", "readahead-mediatek-after.txt", None),
    ("before", "Rockchip", "KLMBG2JETDB041", "readahead-rockchip.txt", "1"),
    ("after", "Rockchip", "KLMBG2JETDB041", "readahead-rockchip.txt", "2"),
    ("before", "RK3568", "HS200 eMMC", "readahead-rk3568.txt", "1"),
    ("after", "RK3568", "HS200 eMMC", "readahead-rk3568.txt", "2"),
]


@pytest.mark.parametrize(
    ("board", "before", "after", "ratio"),
    [
        ("MediaTek", 61.86e6, 79.31e6, 1.282),
        ("Rockchip", 268.02e6, 236.36e6, 0.882),
        ("RK3568", 178.66e6, 183.23e6, 1.026),
    ],
)
def test_readahead(posted: Import, board: str, before: float, after: float, ratio: float) -> None:
    found = posted(*READAHEAD)
    check(rows(found, board)["dd-read-512"], before, after, ratio)
    assert "dd-512-byte-blocks" in codes(found)


def test_the_boards_of_the_readahead_change_disagree_unproven(posted: Import) -> None:
    found = posted(*READAHEAD)
    (sentence,) = [one.sentence for one in found.agreement]
    assert "the boards disagree, unproven" in sentence
    for named in (
        "MediaTek (SD card) x 1.28",
        "Rockchip (KLMBG2JETDB041) x 0.88",
        "RK3568 (HS200 eMMC) x 1.03",
    ):
        assert named in sentence
    assert codes(found)["caches-not-dropped"] == ("RK3568 before",)  # and of nobody else


PACKED = [("non-packed", "emmc", None, "packed.txt", "1-12"), ("packed", "emmc", None, "packed.txt", "13-24")]


@pytest.mark.parametrize(
    ("workload", "before", "after", "ratio"),
    [
        ("sequential-read", 28.9, 165, 5.709),
        ("random-read", 15.8, 144, 9.114),
        ("sequential-write", 25, 89.1, 3.564),
        ("random-write", 18.1, 90.4, 4.994),
    ],
)
def test_packed(posted: Import, workload: str, before: float, after: float, ratio: float) -> None:
    found = posted(*PACKED)
    check(rows(found)[workload], before * MIB, after * MIB, ratio)
    assert {"depth-without-async-engine", "jobs-share-range"} <= codes(found).keys()


def test_packed_before_is_a_small_part_of_its_bus(posted: Import) -> None:
    """The mean that was posted, 28.7 MiB/s, of 400 MB/s."""
    found = posted(*PACKED)
    assert found.boards[0].card == "HBG4a2"
    share = found.shares["emmc", "non-packed", "sequential-read"]
    assert share.bandwidth == pytest.approx(28.7 * MIB, rel=2e-3)
    assert (share.limit, round(100 * share.share, 1)) == (400e6, 7.5)
    (doubt,) = [one for one in found.doubts if one.code == "below-15-percent-of-bus"]
    assert "sequential-read 7.5 %" in doubt.message and "look at the clock" in doubt.remedy


HSQ = [("fixed", "emmc", None, "hsq.txt", "1-12"), ("dynamic", "emmc", None, "hsq.txt", "13-24")]


@pytest.mark.parametrize(
    ("workload", "before", "after", "ratio"),
    [
        ("sequential-write", 165e6, 166e6, 1.006),
        ("sequential-read", 326e6, 326e6, 1.0),
        ("random-write", 83e6, 86.2e6, 1.0386),
        ("random-read", 48.2e6, 48e6, 0.9959),
    ],
)
def test_hsq(posted: Import, workload: str, before: float, after: float, ratio: float) -> None:
    found = posted(*HSQ)
    check(rows(found)[workload], before, after, ratio)
    assert {"depth-without-async-engine", "jobs-share-range"} <= codes(found).keys()
    assert "-rw=randread -bs=4K" in found.commands["random-read"]


def test_cqe_on_th1520(posted: Import) -> None:
    found = posted(
        ("no-cqe", "TH1520", None, "cqe-th1520-before.txt", None),
        ("cqe", "TH1520", None, "cqe-th1520-after.txt", None),
    )
    check(rows(found)["randread-1M"], 218.55e6, 87.36e6, 0.3997)
    assert "depth-without-async-engine" in codes(found)


def test_cqe_on_rk3588(posted: Import) -> None:
    found = posted(
        ("no-cqe", "RK3588", None, "cqe-rk3588.txt", "1"), ("cqe", "RK3588", None, "cqe-rk3588.txt", "2")
    )
    check(rows(found)["read"], 209 * MIB, 215 * MIB, 1.0286)


def test_reports_of_imported_results_claim_nothing(posted: Import, store: Store) -> None:
    found = posted(*PACKED)
    for report in (text.mail(found), text.markdown(found), html.page(found, latencies(store, found))):
        plain = " ".join(report.split())
        assert "nothing is proven" in plain and "? (3/3 posted)" in plain
        assert "faster," not in plain.replace("▲ faster,", "") and "proven by its banner" not in plain
        assert "clock was not posted" in plain


def test_the_commands_do_it_in_two_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_HOME", str(tmp_path))
    call = CliRunner().invoke
    place = ["--board", "emmc", "--run", "packed", str(POSTS / "packed.txt")]
    first = call(app, ["import", "--as", "non-packed", "--samples", "1-12", *place])
    second = call(app, ["import", "--as", "packed", "--samples", "13-24", *place])
    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    data = json.loads(call(app, ["compare", "packed", "--format", "json"]).stdout)
    (block,) = data["blocks"]
    assert (data["imported"], block["candidate"], len(block["rows"])) == (True, "packed", 4)
    assert {row["verdict"]["verdict"] for row in block["rows"]} == {"inconclusive"}
    assert block["rows"][0]["ratio"] == pytest.approx(5.709, abs=1e-3)
    done = call(app, ["report", "packed", "-o", str(tmp_path / "packed.html")])
    assert done.exit_code == 0 and "HBG4a2" in (tmp_path / "packed.html").read_text()
    assert call(app, ["import", "--board", "emmc", str(POSTS / "packed.txt")]).exit_code != 0


def test_bad_imports_say_what_is_wrong(store: Store) -> None:
    def attempt(content: bytes, numbers: str | None = None, **more: str) -> str:
        with pytest.raises(UserError) as caught:
            source = Source("v", "b", None, sample_numbers(numbers))
            import_files(store, "run", source, [("mail.txt", content)], **more)
        return str(caught.value)

    assert attempt(b"hello\n").startswith("mail.txt: holds no usable measurement")
    rockchip = (POSTS / "readahead-rockchip.txt").read_bytes()
    assert "numbered 1 to 2" in attempt(rockchip, "3")
    for wrong in ("", "0", "2-1", "a", "1,,2", "1-"):
        assert "write for example 1-12,14" in attempt(rockchip, wrong)
    assert store.runs() == []
    import_files(store, "run", Source("before", "b"), [("mail.txt", rockchip)])
    assert "has the baseline 'before' already" in attempt(rockchip, baseline="other")
