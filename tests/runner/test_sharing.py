"""Which board does which block: whole blocks, equal shares, nothing lost when boards drop out or join."""

import random

import pytest

from farm.runner.sharing import Pool


@pytest.mark.parametrize(
    ("blocks", "boards", "each"),
    [(4, 1, (4,)), (4, 2, (2, 2)), (6, 3, (2, 2, 2)), (5, 2, (3, 2)), (2, 3, (1, 1, 0))],
)
def test_shares_are_whole_blocks_and_as_equal_as_can_be(
    blocks: int, boards: int, each: tuple[int, ...]
) -> None:
    done = run(Pool(range(blocks)), {f"b{number}": 3 for number in range(boards)})
    assert tuple(sorted(map(len, done.values()), reverse=True)) == each


def run(pool: Pool, speeds: dict[str, int], *, drops: dict[str, int] | None = None) -> dict[str, list[int]]:
    """Blocks done by each board, where a block takes a board `speed` ticks; `drops` says at which tick a board is out."""
    done: dict[str, list[int]] = {board: [] for board in speeds}
    busy: dict[str, tuple[int, int]] = {}
    for board in speeds:
        pool.join(board)
    for tick in range(1000):
        for board in [one for one, when in (drops or {}).items() if when == tick]:
            pool.drop(board)
            busy.pop(board, None)
        for board in pool.live:
            if board in busy and busy[board][1] == tick:
                done[board].append(busy.pop(board)[0])
                pool.done(board)
        for board in sorted(pool.live):
            if board not in busy and (block := pool.take(board)) is not None:
                busy[board] = (block, tick + speeds[board])
        if pool.over or not pool.live:
            return done
    raise AssertionError(f"not over: {done}")


def test_a_fast_board_leaves_a_slow_one_its_share() -> None:
    assert run(Pool(range(4)), {"fast": 1, "slow": 10}) == {"fast": [0, 2], "slow": [1, 3]}
    assert run(Pool(range(5)), {"fast": 1, "slow": 10}) == {"fast": [0, 2, 3], "slow": [1, 4]}


def test_blocks_of_a_board_that_drops_out_go_to_the_others_whole() -> None:
    done = run(Pool(range(6)), {"a": 3, "b": 3, "c": 3}, drops={"b": 4})
    assert done["b"] == [1]
    assert sorted(done["a"] + done["c"]) == [0, 2, 3, 4, 5]
    alone = run(Pool(range(4)), {"fast": 1, "slow": 10}, drops={"slow": 5})
    assert alone == {"fast": [0, 2, 1, 3], "slow": []}


def test_who_joins_gets_its_share_of_what_is_left_and_is_welcome_only_where_that_is_worth_it() -> None:
    pool = Pool(range(6))
    pool.join("a")
    for block in range(3):
        assert pool.take("a") == block
        pool.done("a")
    assert pool.welcomes()  # three are left: two for the newcomer make four boots per variant
    pool.join("b")
    assert pool.take("b") == 3
    assert pool.take("a") is None  # what is left is b's share
    pool.done("b")
    assert pool.take("b") == 4
    assert not pool.welcomes()
    pool.drop("a")
    pool.done("b")
    assert pool.take("b") == 5


def test_a_board_goes_on_with_the_block_that_it_holds_or_had_begun() -> None:
    pool = Pool([2, 3], begun={3: "a"}, had={"a": 1, "b": 1})
    for board in ("a", "b"):
        pool.join(board)
    assert pool.take("b") == 2  # block 3 is a's, who has good boots of it
    assert pool.take("a") == 3
    assert pool.take("a") == 3  # another process of the same board asks again
    assert not pool.over


def test_nothing_is_lost_or_done_twice_however_boards_come_and_go() -> None:
    draw = random.Random(7)
    for _ in range(300):
        blocks, names = draw.randint(1, 12), ["a", "b", "c", "d"][: draw.randint(1, 4)]
        drops = {name: draw.randint(0, 20) for name in names[1:] if draw.random() < 0.5}
        done = run(Pool(range(blocks)), {name: draw.randint(1, 6) for name in names}, drops=drops)
        assert sorted(block for each in done.values() for block in each) == list(range(blocks))
        if not drops:
            assert min(len(each) for each in done.values()) >= blocks // len(names)
