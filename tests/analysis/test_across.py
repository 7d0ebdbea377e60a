"""Agreement and disagreement between boards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.analysis.across import BoardVerdict, across
from farm.analysis.compare import Verdict, compare

EMPTY = compare([], [], [], "a", workloads=["w"], candidates=["b"])[0]


def on(board: str, word: str, ratio: float | None, **more: object) -> BoardVerdict:
    verdict: Verdict = replace(EMPTY, verdict=word, ratio=ratio, **more)  # type: ignore[arg-type]
    return BoardVerdict(board, f"card-{board}", verdict)


@pytest.mark.parametrize(
    ("boards", "agreement", "says"),
    [
        (
            [on("p", "faster", 1.59), on("q", "slower", 0.95)],
            "disagree",
            "w, b: the boards disagree: faster on p (card-p) x 1.59, slower on q (card-q) x 0.95.",
        ),
        (
            [on("p", "faster", 1.59), on("q", "same", 1.01), on("r", "inconclusive", 1.2)],
            "disagree",
            "w, b: the boards disagree: faster on p (card-p) x 1.59, same on q (card-q) x 1.01; "
            "inconclusive on r (card-r) x 1.20.",
        ),
        (
            [on("p", "slower", 0.8), on("q", "slower", 0.9)],
            "agree",
            "w, b: every board agrees: slower on p (card-p) x 0.80 and q (card-q) x 0.90.",
        ),
        (
            [on("p", "slower", 0.8), on("q", "slower", 0.9), on("r", "inconclusive", None)],
            "agree",
            "w, b: these boards agree: slower on p (card-p) x 0.80 and q (card-q) x 0.90; "
            "inconclusive on r (card-r) no ratio.",
        ),
        (
            [on("p", "faster", 1.3), on("q", "inconclusive", 0.7)],
            "ratios-disagree",
            "w, b: faster on p (card-p) x 1.30, but unproven the other way on q (card-q) x 0.70.",
        ),
        (
            [on("p", "faster", 1.3), on("q", "inconclusive", 0.99, unstable=True)],
            "open",
            "w, b: faster on p (card-p) x 1.30; inconclusive on q (card-q) x 0.99, unstable.",
        ),
        (
            [on("p", "inconclusive", 1.02), on("q", "inconclusive", 0.98)],
            "open",
            "w, b: nothing is proven on any board: ratios p (card-p) x 1.02 and q (card-q) x 0.98.",
        ),
    ],
)
def test_sentences(boards: list[BoardVerdict], agreement: str, says: str) -> None:
    (found,) = across(boards)
    assert (found.agreement, found.sentence) == (agreement, says)


def test_one_board_has_nothing_to_agree_with_and_workloads_stay_apart() -> None:
    assert across([on("p", "faster", 1.5)]) == ()
    pairs = across(
        [
            on("p", "faster", 1.5),
            on("q", "faster", 1.5),
            on("p", "same", 1.0, workload="v"),
            on("q", "same", 1, workload="v"),
        ]
    )
    assert [(one.workload, one.agreement) for one in pairs] == [("w", "agree"), ("v", "agree")]


def test_two_boards_of_one_name_are_told_apart_by_their_cards() -> None:
    one, other = on("p", "faster", 1.5), on("p", "inconclusive", 0.5)
    (found,) = across([one, BoardVerdict("p", "other", other.verdict)])
    assert found.agreement == "ratios-disagree" and "p (other) x 0.50" in found.sentence


def test_latencies_point_the_other_way() -> None:
    boards = [on("p", "faster", 0.5), on("q", "inconclusive", 2.0)]
    assert across(boards, higher_is_better=False)[0].agreement == "ratios-disagree"
    assert across(boards, higher_is_better=False, band={"w": 1.5})[0].agreement == "open"
