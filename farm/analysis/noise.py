"""What noise alone does, from a board that was measured against itself (A/A): spread of boots, band, boots needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from farm.analysis.compare import ALPHA
from farm.analysis.power import boots_for_change, boots_for_same
from farm.analysis.student import t_quantile
from farm.schedule import MIN_BOOTS

CONFIDENCE = 0.95
"""Of the upper bound of the spread: one calibration of 20 may find less noise than there is."""


@dataclass(frozen=True)
class Noise:
    """The spread between boots of one workload on one board: `sd` is a standard deviation of logs (0.02 is about 2 %)
    with `df` degrees of freedom, from `boots` boots of one and the same kernel around a linear trend."""

    sd: float
    df: int
    boots: int

    @property
    def upper(self) -> float:
        """The upper 95 % confidence bound of the standard deviation, sd x sqrt(df / chi2 quantile of 5 %).

        For normal noise; heavier tails than normal make the bound hold less often, which `simulate.py` prints.
        """
        return self.sd * math.sqrt(self.df / float(special.chdtri(self.df, CONFIDENCE)))

    def band(self, boots: int) -> float:
        """The measured band, as a share: what noise alone moves a comparison of `boots` boots per variant.

        The difference of two means of n boots has a standard error of sd x sqrt(2 / n), and by chance it is more than
        1.96 of those in one case of 20. With the upper bound of the spread in place of sd,

            log(1 + band) = 1.96 x upper x sqrt(2 / n)

        so that in 19 of 20 calibrations noise alone leaves the band in at most one comparison of 20.
        """
        return math.expm1(float(special.ndtri(1 - ALPHA / 2)) * self.upper * math.sqrt(2 / boots))

    def boots_for_change(self, band: float, comparisons: int, looks: int = 1) -> int | None:
        """Boots per variant that find a change of twice `band` with 80 % power; None where 1000 are not enough.

        `comparisons` are the workloads and candidates of a board: the critical |t| is Bonferroni's, which max-T
        stays below, so that it is never too few for this noise.
        """
        critical = float(t_quantile(ALPHA / looks / comparisons / 2, self._df))
        return boots_for_change(self._se, MIN_BOOTS, critical, self._df, band)

    def boots_for_same(self, band: float, looks: int = 1) -> int | None:
        """Boots per variant that say `same` with 80 % power where nothing changed; None where 1000 are not enough."""
        return boots_for_same(self._se, MIN_BOOTS, band, ALPHA / looks)

    @property
    def _se(self) -> float:
        return self.sd * math.sqrt(2 / MIN_BOOTS)

    @property
    def _df(self) -> int:
        return 2 * MIN_BOOTS - 3


@dataclass(frozen=True)
class Calibration:
    """What one A/A run says of one workload on one board: the run, its start (UTC epoch seconds), the board's card.

    `noise` is by metric and direction of the data, such as ("bw_bytes", "read").
    """

    run: str
    started: float
    card: str
    noise: Mapping[tuple[str, str], Noise]

    def worst(self, metric: str = "bw_bytes") -> Noise | None:
        """The noisier direction of a metric; None where it was not measured."""
        found = [one for (name, _), one in self.noise.items() if name == metric]
        return max(found, key=lambda one: one.upper, default=None)


Calibrations = Mapping[str, Mapping[str, Calibration]]
"""By board and workload."""


def noise_of(values: ArrayLike, starts: ArrayLike, resolution: float) -> Noise | None:
    """The noise of one workload: `values` of an A/A run's boots in any positive unit, both names together.

    `starts` are their start times in seconds; `resolution`, as a share, is the least spread that can be told. Boots
    without a value (NaN, zero, negative) are left out. None with fewer than 4 boots under each name, or 8 in all.
    """
    y, when = np.asarray(values, dtype=np.float64), np.asarray(starts, dtype=np.float64)
    good = np.isfinite(y) & (y > 0)
    y, when = np.log(y[good]), when[good]
    if len(y) < 2 * MIN_BOOTS:
        return None
    y, when = y - y.mean(), when - when.mean()
    length = float(when @ when)
    if length > 0:
        y = y - when * (when @ y) / length
    df = len(y) - 1 - (length > 0)
    return Noise(max(math.sqrt(float(y @ y) / df), resolution), df, len(y))
