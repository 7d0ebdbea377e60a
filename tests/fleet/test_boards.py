"""`farm boards`, and which boards a run takes: env files, store and locks are real, no board is touched."""

import json
import re
from pathlib import Path

import pytest

from farm.errors import BoardError, UserError
from farm.fleet import boards, busy, choice, inventory
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


def test_boards_by_tag_are_free_ones_and_no_more_than_asked(here: Path) -> None:
    assert choice.named(["farm=unit"], None, here) == ["unit1", "unit2"]
    assert choice.named(["farm=unit"], 1, here) == ["unit1"]
    assert choice.named(["board=test2", "unit1"], None, here) == ["unit2", "unit1"]
    ail(here, "unit1", 3)
    assert choice.named(["farm=unit"], 1, here) == ["unit2"]
    with pytest.raises(
        BoardError, match=r"farm=unit: 2 boards are wanted and 1 are free .unit1 is quarantined."
    ):
        choice.named(["farm=unit"], 2, here)
    with pytest.raises(UserError, match=r"no board has the tag farm=none; there are .*board=test1"):
        choice.named(["farm=none"], None, here)
    with pytest.raises(UserError, match="--count needs boards by tag"):
        choice.named(["unit1"], 2, here)


def test_a_run_leaves_quarantined_boards_out_and_refuses_when_none_is_left(here: Path) -> None:
    ail(here, "unit1", 3)
    envs = boards.load(["unit1", "unit2"], here)
    said: list[str] = []
    with Store.open(here / "farm.db") as store:
        assert [one.name for one in choice.fit(envs, store, said.append)] == ["unit2"]
        assert said[0].startswith("unit1: left out, quarantined: 3 failures in a row")
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
