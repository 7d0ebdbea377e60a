from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.schedule import PlannedBoot, schedule

NAMES = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)
EVEN = st.integers(1, 12).map(lambda half: 2 * half)
SEEDS = st.integers(0, 2**63)


@given(NAMES, EVEN, SEEDS)
def test_every_variant_gets_its_boots_in_mirrored_blocks(variants, boots, seed):
    planned = schedule(variants, boots, seed)
    assert Counter(boot.variant for boot in planned) == dict.fromkeys(variants, boots)
    assert [boot.index for boot in planned] == list(range(boots * len(variants)))
    for block in range(boots // 2):
        order = [boot.variant for boot in planned if boot.block == block]
        assert order == order[::-1]
        assert sorted(order[: len(variants)]) == sorted(variants)
    assert [boot.block for boot in planned] == sorted(boot.block for boot in planned)


@given(NAMES, EVEN, SEEDS)
def test_the_same_seed_gives_the_same_order(variants, boots, seed):
    assert schedule(variants, boots, seed) == schedule(variants, boots, seed)


def test_a_seed_on_record_keeps_its_order_for_ever():
    # random.Random(1): 0.134, 0.847 -> a b; 0.763, 0.255 -> b a (the generator's guaranteed sequence)
    assert [(boot.block, boot.variant) for boot in schedule(["a", "b"], 4, 1)] == [
        (0, "a"),
        (0, "b"),
        (0, "b"),
        (0, "a"),
        (1, "b"),
        (1, "a"),
        (1, "a"),
        (1, "b"),
    ]


def test_every_permutation_is_reached_about_equally_often():
    seen = Counter(tuple(boot.variant for boot in schedule("abc", 2, seed))[:3] for seed in range(6000))
    assert set(seen) == set(permutations("abc"))
    # 1000 expected each, standard deviation 29
    assert all(850 < count < 1150 for count in seen.values())


@pytest.mark.parametrize(
    ("variants", "boots"), [(["a"], 3), (["a"], 0), (["a"], -2), ([], 2), (["a", "a"], 2)]
)
def test_what_cannot_be_mirrored_is_refused(variants, boots):
    with pytest.raises(ValueError, match=r"even|different"):
        schedule(variants, boots, 1)


def test_one_variant_is_scheduled_too():
    assert schedule(["only"], 2, 9) == (PlannedBoot(0, 0, "only"), PlannedBoot(1, 0, "only"))
