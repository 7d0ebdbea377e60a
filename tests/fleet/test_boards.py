"""`farm boards`, and which boards a run takes: env files, store and locks are real, no board is touched."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm import cli
from farm.errors import BoardError, UserError
from farm.fleet import boards, busy, choice, inventory
from farm.fleet.crew import Crew
from farm.store.db import Store
from farm.store.health import HealthRecord
from tests.lab import BOARD, LabHome

pytestmark = pytest.mark.lab
REAL = """\
targets:
  main: {{}}
farm:
  soc: TEST
  tags: {{board: test{number}, farm: unit}}
  disk: {{controller: mmc0-test, type: MMC, size: 4GiB}}
  flash: {{method: netboot, load: {{kernel: 0x1000}}}}
  golden: {{kernel: Image}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with envs/ of two boards, and farm's caches in it."""
    (tmp_path / "envs").mkdir()
    for number in (1, 2):
        (tmp_path / "envs" / f"unit{number}.yaml").write_text(REAL.format(number=number))
    (tmp_path / "envs" / "broken.yaml").write_text("targets: {main: {}}\nfarm: {soc: X}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def state(home: Path, name: str) -> tuple[str, str]:
    (row,) = [one for one in inventory.rows(home) if one.name == name]
    return row.state, row.why


def test_who_only_looks_whether_a_board_is_free_keeps_nobody_from_it(here: Path) -> None:
    (env,) = boards.load(["unit1"], here)
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            busy.holder(env, here)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(300):
            with busy.hold([env], here, "farm run"):
                pass
    finally:
        done.set()
        watcher.join()


def test_all_virtual_boards_are_those_whose_files_are_right(here: Path) -> None:
    assert "virt-rk3568" in cli._virtual_names(None)  # though broken.yaml is broken


def ail(home: Path, name: str, times: int, *, well: bool = False) -> None:
    with Store.open(home / "farm.db", create=True) as store:
        for _ in range(times):
            store.health.add(HealthRecord(name, 1766534900.0, well, "" if well else "disk: no card"))


def test_free_quarantined_let_back(here: Path) -> None:
    assert state(here, "unit1") == ("free", "")
    ail(here, "unit1", 2)
    assert state(here, "unit1")[0] == "free"
    ail(here, "unit1", 1)
    assert state(here, "unit1") == (
        "quarantined",
        "3 failures in a row, the last 2025-12-24 00:08 UTC: disk: no card; let it back with: farm check unit1",
    )
    assert state(here, "unit2")[0] == "free"
    ail(here, "unit1", 1, well=True)
    assert state(here, "unit1")[0] == "free"


def test_busy_says_by_whom_and_ends_with_the_holder(here: Path) -> None:
    (env,) = boards.load(["unit1"], here)
    with busy.hold([env], here, "farm run night"):
        assert re.fullmatch(r"farm run night, pid \d+", state(here, "unit1")[1])
        with (
            pytest.raises(BoardError, match=r"unit1: is busy: farm run night, pid \d+"),
            busy.hold([env], here, "x"),
        ):
            pass
    assert state(here, "unit1") == ("free", "")


@pytest.fixture
def unwritable(here: Path) -> Iterator[Path]:
    """The directory, with boards, locks and results in it, as somebody sees it who may only read."""
    (env,) = boards.load(["unit1"], here)
    ail(here, "unit1", 3)
    with busy.hold([env], here, "farm run night"):
        inventory.rows(here)  # what is imported on the way is imported by its owner
        parents = [one for one in here.parents if one.name.startswith(("pytest-", "popen-"))]
        modes = {one: one.stat().st_mode for one in (here, *here.rglob("*"), *parents)}
        for one in modes:
            one.chmod(0o555 if one.is_dir() else 0o444)
        nobody = os.geteuid() == 0  # root may write everywhere
        if nobody:
            os.setresuid(65534, 65534, 0)
        try:
            yield here
        finally:
            if nobody:
                os.setresuid(0, 0, 0)
            for one, mode in modes.items():
                one.chmod(mode)


def test_a_home_that_cannot_be_written_lists_its_boards(unwritable: Path) -> None:
    with pytest.raises(PermissionError):
        (unwritable / "new").touch()
    assert state(unwritable, "unit1")[0] == "busy"
    assert state(unwritable, "unit2") == ("free", "")
    assert inventory.rows(unwritable / "nowhere", ["unit2"])[0].state == "free"


def test_a_wrong_env_file_is_a_row_and_hides_no_other_board(here: Path) -> None:
    kind, why = state(here, "broken")
    assert kind == "wrong"
    assert "broken.yaml" in why
    assert state(here, "unit1")[0] == "free"


def test_a_coordinator_that_does_not_answer_makes_its_boards_offline(here: Path) -> None:
    text = (here / "envs" / "unit1.yaml").read_text()
    remote = "  main: {}\n  remote: {resources: {RemotePlace: {name: unit1}}}\n"
    (here / "envs" / "unit1.yaml").write_text(text.replace("  main: {}\n", remote))
    rows = {row.name: row for row in inventory.rows(here, None, "127.0.0.1:9")}
    assert rows["unit1"].state == "offline"
    assert "no coordinator at 127.0.0.1:9" in rows["unit1"].why
    assert rows["unit2"].state == "free"


def first(home: Path, *asked: str, count: int | None = None, **more: bool) -> list[str]:
    return choice.first(choice.wishes(asked, count), home, **more)


def test_boards_by_tag_are_free_ones_and_no_more_than_asked(here: Path) -> None:
    assert first(here, "farm=unit") == ["unit1", "unit2"]
    assert first(here, "farm=unit", count=1) == ["unit1"]
    assert first(here, "board=test2", "unit1") == ["unit1", "unit2"]
    assert first(here, "farm=unit", "unit1", count=1) == ["unit1", "unit2"], (
        "a named board is not one of the tag's"
    )
    ail(here, "unit1", 3)
    assert first(here, "farm=unit", count=1) == ["unit2"]
    assert first(here, "farm=unit", count=2, check=True) == ["unit2", "unit1"]
    with pytest.raises(
        BoardError, match=r"farm=unit: 2 boards are wanted and 1 are free .unit1 is quarantined."
    ):
        first(here, "farm=unit", count=2)
    with pytest.raises(UserError, match=r"no board has the tag farm=none; there are .*board=test1"):
        first(here, "farm=none")
    with pytest.raises(UserError, match="a count needs boards by tag"):
        first(here, "unit1", count=2)


def crew(home: Path, store: Store, *asked: str, count: int | None = None, **more) -> Crew:
    said: list[str] = []
    made = Crew(choice.wishes(asked, count), home, store, what="farm run night", say=said.append, **more)
    made.said = said
    return made


def test_equal_boards_of_a_tag_share_and_named_ones_do_not(here: Path) -> None:
    text = REAL.format(number=1)
    (here / "envs" / "unit3.yaml").write_text(text)
    with Store.open(here / "farm.db", create=True) as store:
        with crew(here, store, "farm=unit") as made:
            assert [env.name for env in made.gather()] == ["unit1", "unit2", "unit3"]
            assert made.shares == {"unit1": "board=test1", "unit2": "board=test2", "unit3": "board=test1"}
            assert made.members("board=test1")[:2] == ("unit1", "unit3")
            assert state(here, "unit3")[0] == "busy"
        with crew(here, store, "unit1", "unit3") as made:
            made.gather()
            assert made.shares == {"unit1": "unit1", "unit3": "unit3"}
    assert state(here, "unit3") == ("free", "")


def test_all_boards_or_none_and_who_is_waited_for_is_named(here: Path) -> None:
    (env,) = boards.load(["unit2"], here)
    with Store.open(here / "farm.db", create=True) as store:
        with busy.hold([env], here, "farm check"), crew(here, store, "unit1", "unit2") as made:
            with pytest.raises(BoardError, match=r"unit2: is busy: farm check, pid"):
                made.gather()
            assert state(here, "unit1") == ("free", "")
            with pytest.raises(BoardError, match=r"unit2: is busy: farm check, pid"):
                made.gather(0.5)
            assert len(made.said) == 1
            assert re.fullmatch(r"waits: unit2: is busy: farm check, pid \d+", made.said[0])
        with crew(here, store, "unit1", "unit2") as made, ThreadPoolExecutor(1) as pool:
            held = busy.hold([env], here, "farm check")
            held.__enter__()
            pool.submit(lambda: (time.sleep(0.5), held.__exit__(None, None, None)))
            assert [one.name for one in made.gather(20)] == ["unit1", "unit2"]


def test_boards_come_free_while_a_run_goes_on(here: Path) -> None:
    (second,) = boards.load(["unit2"], here)
    with (
        Store.open(here / "farm.db", create=True) as store,
        crew(here, store, "farm=unit", count=None) as made,
    ):
        with busy.hold([second], here, "farm check"):
            assert [one.name for one in made.gather()] == ["unit1"]
            groups = {"board=test1", "board=test2"}
            assert made.arrivals(groups) == []
        assert made.arrivals({"board=test1"}) == [], "its blocks are done already"
        assert [one.name for one in made.arrivals(groups)] == ["unit2"]
        assert state(here, "unit2")[1].startswith("farm run night, pid ")
        made.leave("unit2", unwell=True)
        assert state(here, "unit2") == ("free", "")
        assert made.arrivals(groups) == [], "nobody has found it well since"
        store.health.add(HealthRecord("unit2", time.time(), False, "disk: no card"))
        assert made.arrivals(groups) == []
        store.health.add(HealthRecord("unit2", time.time(), True))
        assert [one.name for one in made.arrivals(groups)] == ["unit2"]
        made.leave("unit1", unwell=False)
        assert made.arrivals(groups) == [], "it is through with its share"
        (here / "envs" / "unit3.yaml").write_text(REAL.format(number=1))
        assert [one.name for one in made.arrivals(groups)] == ["unit3"]
        (here / "envs" / "unit4.yaml").write_text("targets: [")
        assert made.arrivals(groups) == []


def test_no_more_boards_join_than_were_asked_for(here: Path) -> None:
    with Store.open(here / "farm.db", create=True) as store, crew(here, store, "farm=unit", count=1) as made:
        assert [one.name for one in made.gather()] == ["unit1"]
        assert made.arrivals({"board=test2"}) == []
        made.leave("unit1", unwell=True)
        assert [one.name for one in made.arrivals({"board=test2"})] == ["unit2"]


def test_a_run_leaves_quarantined_boards_out_and_refuses_when_none_is_left(here: Path) -> None:
    ail(here, "unit1", 3)
    envs = boards.load(["unit1", "unit2"], here)
    said: list[str] = []
    with Store.open(here / "farm.db") as store:
        choice.fit(envs, store, said.append)
        (line,) = said
        assert line.startswith("unit1: left out, quarantined: 3 failures in a row")
        with pytest.raises(BoardError, match=r"every board is quarantined \(unit1\).*farm check unit1"):
            choice.fit(envs[:1], store, said.append)


def test_a_board_without_a_place_cannot_be_had_through_a_coordinator(here: Path) -> None:
    with pytest.raises(UserError, match=r"unit1\.yaml: targets\.remote: has no target `remote`"):
        choice.remote(boards.load(["unit1"], here))
    (virtual,) = boards.load([str(Path(boards.__file__).parents[2] / "envs" / f"{BOARD}.yaml")], here)
    assert virtual.place == BOARD
    assert choice.remote([virtual])[0].target == "remote"


def test_the_command_lists_the_virtual_board_and_prints_json(lab_home: LabHome) -> None:
    rows = {row["name"]: row for row in json.loads(lab_home.farm("boards", "--json").stdout)}
    assert rows[BOARD]["state"] in ("free", "quarantined")
    assert rows[BOARD]["tags"]["board"] == "rk3568"
    text = lab_home.farm("boards", BOARD).stdout
    assert text.splitlines()[0].split()[:2] == ["board", "state"]
    assert max(map(len, text.splitlines()[:2])) <= 100
