"""Facts of a board side by side: what differs between variants, and what only differs between boots."""

from __future__ import annotations

import pytest

from farm.report.boards import boards_of
from farm.store.records import RunRecord, StoredBoot

RUN = RunRecord("r", "c", "", 1, 0.0)


def boot(index: int, variant: str, **facts: object) -> StoredBoot:
    return StoredBoot("r", "b", index, 0, variant, 0, "ok", "", 0.0, 1.0, facts=facts, id=index)


@pytest.mark.parametrize(
    ("base", "cand", "differs"),
    [
        ((128, 128), (1024, 1024), True),
        ((128, 128), (128, 128), False),
        # the kernel found a page less once: a difference between boots
        ((2031616, 2031612), (2031616, 2031616), False),
        ((1, 2), (3, 4), False),
        ((1, 2), (3, 3), True),
        ((None, None), (3, 3), True),
    ],
)
def test_a_fact_differs_where_variants_have_no_value_in_common(
    base: tuple[int | None, ...], cand: tuple[int, ...], differs: bool
) -> None:
    values = [("base", one) for one in base] + [("cand", one) for one in cand]
    boots = [
        boot(index, variant, soc="s", **({} if value is None else {"size": value}))
        for index, (variant, value) in enumerate(values)
    ]
    (board,) = boards_of(RUN, boots, ("base", "cand"))
    (fact,) = [one for one in board.facts if one.name == "size"]
    assert fact.differs is differs
