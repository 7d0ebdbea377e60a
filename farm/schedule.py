"""The order of boots: randomised, mirrored blocks, so that drift hits every variant alike (ABBA, BAAB, ABCCBA)."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIN_BOOTS = 4
"""Fewer boots per variant never give a verdict."""


@dataclass(frozen=True)
class PlannedBoot:
    """One boot of the plan; `index` counts from 0 over the run, `block` from 0."""

    index: int
    block: int
    variant: str


def schedule(variants: Sequence[str], boots: int, seed: int) -> tuple[PlannedBoot, ...]:
    """`boots` boots of every variant, in blocks of a random permutation followed by its mirror.

    The same seed gives the same order for ever: only `random()` is used, whose sequence Python guarantees.
    Raises ValueError unless `boots` is even and positive and the variants differ.
    """
    if boots < 2 or boots % 2:
        raise ValueError(f"{boots} boots per variant cannot be mirrored; use an even number")
    if not variants or len(set(variants)) != len(variants):
        raise ValueError("the variants have to have different names, and there has to be one at least")
    draw = random.Random(seed)  # noqa: S311 - an order of boots, not a secret
    order: list[PlannedBoot] = []
    for block in range(boots // 2):
        keys = {variant: draw.random() for variant in variants}
        forward = sorted(variants, key=keys.__getitem__)
        for variant in (*forward, *reversed(forward)):
            order.append(PlannedBoot(len(order), block, variant))
    return tuple(order)


def by_block(boots: Iterable[PlannedBoot]) -> dict[int, set[int]]:
    """The indexes of the boots of each block."""
    found: dict[int, set[int]] = {}
    for boot in boots:
        found.setdefault(boot.block, set()).add(boot.index)
    return found


def seed_of(*given: int | None) -> int:
    """The first seed that was given, else a new one."""
    return next((seed for seed in given if seed is not None), secrets.randbelow(2**31))
