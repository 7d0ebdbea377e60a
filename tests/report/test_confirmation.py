"""What a nightly run calls slower is measured again with fresh boots before anyone is told."""

from __future__ import annotations

from farm.report import html, text
from farm.report.confirmation import wanted
from farm.report.study import Study, study
from farm.store.db import Store
from tests.report.stored import put


def verdict(found: Study, label: str, board: str = "b"):
    rows = [
        row
        for block in found.table.blocks
        if block.board == board
        for row in block.rows
        if row.label == label
    ]
    assert len(rows) == 1 and rows[0].verdict is not None
    return rows[0].verdict


def nightly(store: Store, **more: object) -> None:
    put(store, "first", **{"ratio": {"one": 0.9, "two": 1.1}, "confirm": True, **more})  # type: ignore[arg-type]


def again(store: Store, run: str = "again", **more: object) -> None:
    settings = {"seed": 9, "started": 1.81e9, "workloads": ("one",), "confirms": "first", **more}
    put(store, run, **settings)  # type: ignore[arg-type]


def test_what_is_slower_has_to_be_measured_again(store: Store) -> None:
    put(store, "first", ratio={"one": 0.9}, boards=("b", "c"), confirm=True)
    found = wanted(study(store, "first", unconfirmed=True).judged)
    assert found is not None
    assert (found.boards, found.candidates, found.workloads) == (("b", "c"), ("cand",), ("one",))
    put(store, "calm", confirm=True, seed=2)
    assert wanted(study(store, "calm", unconfirmed=True).judged) is None


def test_a_slower_tail_has_to_be_measured_again_too(store: Store) -> None:
    put(store, "first", ratio=0.9, confirm=True)
    found = study(store, "first", unconfirmed=True)
    assert {one.metric for one in found.judged} == {"bw_bytes", "lat_p99_ns"}
    only_tail = [one for one in found.judged if one.metric == "lat_p99_ns"]
    assert wanted(only_tail) is not None


def test_until_then_nothing_is_called_slower(store: Store) -> None:
    nightly(store)
    for status in ("", "interrupted"):
        if status:
            again(store, ratio=0.9, status=status)
        found = study(store, "first")
        one, two = verdict(found, "one"), verdict(found, "two")
        assert one.verdict == "inconclusive" and "not-confirmed" in one.flags
        assert one.reason.startswith(
            "Inconclusive until it is measured again with fresh boots, as this run wants. Slower:"
        )
        assert two.verdict == "faster", "only slower is held back"
    assert verdict(study(store, "first", unconfirmed=True), "one").verdict == "slower"


def test_what_holds_in_both_is_told_with_both(store: Store) -> None:
    nightly(store)
    again(store, ratio=0.9)
    found = study(store, "first")
    one = verdict(found, "one")
    assert one.verdict == "slower" and "confirmed" in one.flags
    assert "Confirmed with fresh boots in run again. Slower:" in one.reason
    assert [tail.blocks[0].rows[0].verdict.verdict for tail in found.tails] == ["slower"]
    for said in (text.mail(found), text.markdown(found), html.page(found, {})):
        assert "Confirmed with fresh boots in run again" in " ".join(said.split())
    assert "what run first called slower" in " ".join(text.mail(study(store, "again")).split())


def test_what_does_not_hold_is_not_told(store: Store) -> None:
    nightly(store)
    again(store)
    one = verdict(study(store, "first"), "one")
    assert one.verdict == "inconclusive" and "not-confirmed" in one.flags
    assert one.reason.startswith("Inconclusive: not confirmed with fresh boots in run again. There: Same, ")
    assert "Before: Slower: " in one.reason


def test_a_board_that_was_not_measured_again_is_not_confirmed(store: Store) -> None:
    nightly(store, boards=("b", "c"))
    again(store, ratio=0.9, boards=("c",))
    found = study(store, "first")
    assert (verdict(found, "one", "b").verdict, verdict(found, "one", "c").verdict) == (
        "inconclusive",
        "slower",
    )
    assert "There: It has no value there." in verdict(found, "one", "b").reason


def test_runs_that_want_no_confirmation_are_as_they_were(store: Store) -> None:
    put(store, "first", ratio=0.9)
    again(store)
    assert verdict(study(store, "first"), "one").verdict == "slower"


def test_confirming_and_aa_runs_are_no_nights(store: Store) -> None:
    from farm.report.nights import nightly as nights

    nightly(store)
    again(store)
    put(store, "aa1", aa=True, variants=("base", "base-again"), seed=3)
    assert {night.run for series in nights(store) for night in series.nights} == {"first"}
