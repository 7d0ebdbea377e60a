"""How many boots per variant a question needs, from the noise that was seen."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from farm.analysis.student import t_quantile, t_tail
from farm.schedule import MIN_BOOTS

Floats = NDArray[np.float64]

POWER = 0.8
MOST_BOOTS = 1000
"""Beyond so many boots per variant the answer is "not by more boots"."""

_N = np.arange(
    MIN_BOOTS, MOST_BOOTS + 1, 2
)  # whole blocks: a permutation and its mirror are two boots per variant


def boots_for_change(se: float, boots: int, critical: float, df: int, band: float) -> int | None:
    """Boots per variant with which a change of twice `band` is found with 80 % power.

    `se` is the standard error of the log ratio with `boots` boots per variant and `df` degrees of freedom,
    `critical` the family's critical |t| then; the shifted t distribution stands for the noncentral one. The
    estimate has to leave the band too. None when MOST_BOOTS are not enough.
    """
    if band <= 0 or not math.isfinite(critical):
        return None
    later = se * np.sqrt(boots / _N)
    needed = np.maximum(_critical_at(critical, df), math.log1p(band) / later)
    power = t_tail(needed - math.log1p(2 * band) / later, 2 * _N - 3)
    return _first(power >= POWER)


def boots_for_same(se: float, boots: int, band: float, alpha: float = 0.05) -> int | None:
    """Boots per variant with which two one-sided tests at `alpha` say `same` with 80 % power where nothing changed."""
    if band <= 0:
        return None
    later = se * np.sqrt(boots / _N)
    return _first(math.log1p(band) / later >= _tost_at(alpha))


@functools.lru_cache(maxsize=256)
def _critical_at(critical: float, df: int) -> Floats:
    """The critical |t| of now, carried to other boots by its level: fewer degrees of freedom need a larger one."""
    return t_quantile(t_tail(critical, df), 2 * _N - 3)


@functools.lru_cache(maxsize=16)
def _tost_at(alpha: float) -> Floats:
    df = 2 * _N - 3
    return t_quantile(alpha, df) + t_quantile((1 - POWER) / 2, df)


def _first(enough: NDArray[np.bool_]) -> int | None:
    return int(_N[np.argmax(enough)]) if enough.any() else None
