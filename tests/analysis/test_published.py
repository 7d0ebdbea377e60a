"""The figures of the mailing list: one row, one honest answer. Typed from published.md, ratios by a pocket calculator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from farm.analysis.across import BoardVerdict, across
from farm.analysis.compare import Verdict, compare
from farm.analysis.limits import bus_limit, bus_share

SECONDS, RATE = False, True  # which is better: more of it?

ROWS: list[tuple[str, Sequence[float], Sequence[float], bool, float]] = [
    ("readahead MediaTek", [37.124446], [28.956049], SECONDS, 0.77997),
    ("readahead Rockchip HS400ES", [3.912249], [4.436271], SECONDS, 1.13394),
    ("readahead RK3568", [6.01], [5.86], SECONDS, 0.97504),
    ("packed read", [28.9, 26.4, 30.9], [165, 167, 164], RATE, 5.70934),
    ("packed randread", [18.2, 8.9, 15.8], [147, 141, 144], RATE, 9.11392),
    ("packed write", [21.1, 27.9, 25], [87.8, 89.1, 90.0], RATE, 3.564),
    ("packed randwrite", [21.5, 18.1, 18.1], [90.9, 89.8, 90.4], RATE, 4.99448),
    ("hsq write", [168, 164, 165], [167, 166, 166], RATE, 1.00606),
    ("hsq read", [326, 326, 326], [327, 326, 326], RATE, 1.0),
    ("hsq randwrite", [82.6, 83, 83], [86.1, 86.2, 87.7], RATE, 1.03855),
    ("hsq randread", [48.2, 48.3, 47.6], [48.1, 48, 48], RATE, 0.99585),
    ("cqe TH1520", [219], [87.4], RATE, 0.39909),
    ("cqe RK3588", [209], [215], RATE, 1.02871),
]


def posted(before: Sequence[float], after: Sequence[float], higher: bool, *, known: bool) -> Verdict:
    values = np.array([*before, *after], dtype=float)[:, None]
    variants = ["before"] * len(before) + ["after"] * len(after)
    times = np.arange(len(values)) * 60.0 if known else np.full(len(values), math.nan)
    (verdict,) = compare(
        values, times, variants, "before", workloads=["w"], higher_is_better=higher, n_known=known
    )
    return verdict


@pytest.mark.parametrize(("name", "before", "after", "higher", "ratio"), ROWS, ids=[row[0] for row in ROWS])
def test_every_row_is_inconclusive(
    name: str, before: Sequence[float], after: Sequence[float], higher: bool, ratio: float
) -> None:
    verdict = posted(before, after, higher, known=False)
    assert verdict.verdict == "inconclusive" and verdict.p is None
    assert verdict.ratio == pytest.approx(ratio, abs=1e-5)
    assert "unknown" in verdict.reason and "4 boots" in verdict.reason
    # Not even if somebody vouched for the boots: one or three are too few.
    assert posted(before, after, higher, known=True).verdict == "inconclusive"


def test_readahead_disagreement_names_the_cards() -> None:
    """1.28, 0.88, 1.03 in bandwidth: opposite ways, unproven."""
    cards = [("MediaTek", "SD"), ("Rockchip", "KLMBG2JETDB041"), ("RK3568", "HS200 eMMC")]
    boards = [
        BoardVerdict(board, card, posted([1 / b for b in before], [1 / a for a in after], RATE, known=False))
        for (board, card), (_, before, after, _, _) in zip(cards, ROWS, strict=False)
    ]
    (found,) = across(boards)
    assert found.agreement == "ratios-disagree"
    assert found.sentence == (
        "w, after: the boards disagree, unproven: ratios MediaTek (SD) x 1.28, "
        "Rockchip (KLMBG2JETDB041) x 0.88 and RK3568 (HS200 eMMC) x 1.03."
    )


def test_packed_before_is_a_fourteenth_of_its_bus() -> None:
    """28.7 MiB/s on 8 bit HS400ES at 200 MHz: 30.09 of 400 MB/s."""
    share = bus_share(28.7 * 1024**2, bus_limit(200_000_000, 8, "mmc HS400 enhanced strobe"))
    assert share is not None and share.share == pytest.approx(0.0752, abs=1e-4)
    assert share.flag == "below-15-percent-of-bus" and "7.5 %" in share.reason and "clock" in share.reason
