"""Boards that share a host CPU: so many at work, trials in turn; locks are the kernel's."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm.fleet import boards as fleet
from farm.fleet import busy
from farm.runner.alone import alone, at_work


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_CACHE", str(tmp_path))


def test_a_name_that_boards_share_is_no_lock_of_a_board(tmp_path: Path) -> None:
    (board,) = fleet.load(["rk3568-evb"], tmp_path)
    with busy.hold([board], tmp_path, "farm run"), ThreadPoolExecutor(1) as pool:

        def trial() -> bool:
            with alone("board-rk3568-evb"):
                return True

        assert pool.submit(trial).result(timeout=5)


class Count:
    """How many are inside at once, and the order in which they came."""

    def __init__(self) -> None:
        self.inside, self.most, self.order = 0, 0, []

    def stay(self, board: str, seconds: float) -> None:
        self.order.append(board)
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(seconds)
        self.inside -= 1


@pytest.mark.parametrize(("most", "seen"), [(1, 1), (2, 2), (None, 3)])
def test_no_more_boards_are_at_work_than_the_host_bears(most: int | None, seen: int) -> None:
    count = Count()

    def boot(board: str) -> None:
        with at_work("host-cpu", most, lambda: None):
            count.stay(board, 0.5)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(boot, "abc"))
    assert count.most == seen
    assert sorted(count.order) == ["a", "b", "c"]


def test_a_board_that_waited_is_next(tmp_path: Path) -> None:
    count = Count()

    def boots(board: str) -> None:
        for _ in range(3):
            with at_work("host-cpu", 1, lambda: None):
                count.stay(board, 0.2)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(boots, "ab"))
    assert "".join(count.order) in ("ababab", "bababa")


def test_trials_are_in_turn_beside_boards_at_work_and_who_waits_says_so() -> None:
    trials, said = Count(), []

    def measure(board: str) -> None:
        with at_work("host-cpu", 3, lambda: None), alone("host-cpu", lambda: said.append(board)):
            trials.stay(board, 0.4)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(measure, "abc"))
    assert trials.most == 1
    assert set(said) == set(trials.order[1:])
