"""When a board is unfit, and when it is let back."""

import sqlite3
from pathlib import Path

import pytest

from farm.fleet import health
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.records import BootRecord, RunRecord

BUS = {
    "card.cid": "aa585951454d552101deadbeef006200",
    "banner": "Linux version 6.12",
    "ios.timing": "mmc HS200",
    "ios.width_bits": 8,
    "ios.clock_hz": 200000000,
    "ios.actual_clock_hz": 198000000,
}


def look(ok: bool, at: float = 0.0, reason: str = "") -> HealthRecord:
    return HealthRecord("b", at, ok, reason)


@pytest.mark.parametrize(
    ("newest_first", "after", "out"),
    [
        ([], 3, False),
        ([False, False], 3, False),
        ([False, False, False], 3, True),
        ([True, False, False, False], 3, False),
        ([False, True, False, False], 3, False),
        ([False, False, False, True], 3, True),
        ([False], 1, True),
    ],
)
def test_quarantine_is_failures_in_a_row_and_one_pass_ends_it(
    newest_first: list[bool], after: int, out: bool
) -> None:
    records = [look(ok, reason="" if ok else "disk: gone") for ok in newest_first]
    assert bool(health.quarantine(records, after)) is out


def test_quarantine_says_how_many_when_and_why_in_one_line() -> None:
    records = [look(False, 1766534900.0, "disk: gone\n| console\x1b[2J"), look(False, 0.0, "older")]
    assert health.quarantine(records, 2) == "2 failures in a row, the last 2025-12-24 00:08 UTC: disk: gone"


def test_a_bus_that_came_up_otherwise_is_a_doubt() -> None:
    assert health.bus_doubt(BUS, BUS) == ""
    slower = {**BUS, "ios.timing": "mmc DDR52", "ios.clock_hz": 52000000}
    assert health.bus_doubt(slower, BUS) == (
        "ios.timing is mmc DDR52, and was mmc HS200 at the last good check; "
        "ios.clock_hz is 52000000, and was 200000000 at the last good check"
    )


@pytest.mark.parametrize("changed", ["card.cid", "banner"])
def test_another_card_or_kernel_may_run_its_bus_otherwise(changed: str) -> None:
    assert health.bus_doubt({**BUS, "ios.timing": "mmc DDR52"}, {**BUS, changed: "other"}) == ""
    assert health.bus_doubt(BUS, None) == ""


@pytest.mark.parametrize(
    ("passed", "fine"), [(2.0, True), (1.0, False), (1.97, True), (1.9, False), (3.05, True), (3.2, False)]
)
def test_a_clock_is_right_within_two_percent_of_what_is_known_here(passed: float, fine: bool) -> None:
    # 2 to 3 seconds passed here, depending on when the answers were made
    assert (health.clock_doubt(passed, 2.0, 3.0) == "") is fine


@pytest.mark.parametrize(
    ("facts", "life", "worn"),
    [
        ({}, "", False),
        ({"ext_csd.life_time_a": 1, "ext_csd.life_time_b": 2, "ext_csd.pre_eol": 1}, "10-20 % used", False),
        ({"ext_csd.life_time_a": 11, "ext_csd.life_time_b": 1}, "exceeded", True),
        ({"ext_csd.life_time_a": 10, "ext_csd.life_time_b": 0}, "90-100 % used", False),
        ({"ext_csd.life_time_a": 0, "ext_csd.life_time_b": 0}, "", False),
        ({"ext_csd.life_time_a": 3, "ext_csd.pre_eol": 3}, "20-30 % used", True),
        ({"card.life_time": "0x01 0x0b", "card.pre_eol": "0x01"}, "exceeded", True),
        ({"card.life_time": "0x02 0x03", "card.pre_eol": "0x03"}, "20-30 % used", True),
        ({"card.life_time": "garbage", "card.pre_eol": "\x1b"}, "", False),
    ],
)
def test_wear_is_what_the_card_says_of_itself(facts: dict[str, object], life: str, worn: bool) -> None:
    assert health.life_text(facts) == life
    assert bool(health.wear_doubt(facts)) is worn


def test_looks_come_back_from_the_store_newest_first_and_boards_are_kept_apart(tmp_path: Path) -> None:
    with Store.open(tmp_path / "farm.db", create=True) as store:
        first = HealthRecord("a", 1.5, True, "", "check", {"ios.timing": "mmc HS200"})
        second = HealthRecord("a", 2.5, False, "console \udcff\x1b", "run")
        for record in (first, HealthRecord("b", 2.0, False, "x"), second):
            store.health.add(record)
        assert store.health.last("a") == [second, first]
        assert store.health.last("a", 1) == [second]
        assert store.health.last_good("a") == first
        assert store.health.last_good("b") is None
    with sqlite3.connect(tmp_path / "farm.db") as db:
        assert db.execute("SELECT board, ok, origin FROM health ORDER BY id").fetchall() == [
            ("a", 1, "check"),
            ("b", 0, "check"),
            ("a", 0, "run"),
        ]


def test_the_last_good_boot_is_the_last_ok_one_that_farm_made(tmp_path: Path) -> None:
    with Store.open(tmp_path / "farm.db", create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
        for index, status in enumerate(("ok", "ok", "failed")):
            store.commit_boot(BootRecord("r", "a", index, 0, "v", 0, status, "", index, index + 0.5))
        imported = RunRecord("i", "c", "", 1, 0.0, settings={"imported": True})
        store.import_samples(imported, [BootRecord("i", "a", 0, 0, "v", 0, "ok", "", 9.0, 9.5)])
        boots = store.health.good_boots()
    assert {board: boot.ended for board, boot in boots.items()} == {"a": 1.5}


def test_what_is_known_of_a_board_is_what_its_last_good_check_said_else_its_last_good_boot(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "farm.db", create=True) as store:
        store.begin_run(RunRecord("r", "c", "", 1, 0.0))
        for board in ("a", "b"):
            facts = {"governor": "performance", "memory_bytes": 1}
            store.commit_boot(BootRecord("r", board, 0, 0, "v", 0, "ok", "", 1.0, 1.5, facts=facts))
        store.health.add(HealthRecord("a", 1.0, True, "", "check", {"governor": "schedutil"}))
        store.health.add(HealthRecord("a", 2.0, False, "disk: no card"))
        assert store.health.facts(["a", "b", "c"]) == {
            "a": {"governor": "schedutil"},
            "b": {"governor": "performance", "memory_bytes": 1},
        }
