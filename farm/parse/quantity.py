"""fio's printed numbers with units, and how finely they are printed. Formats: lib/num2str.c.

From 2.18 on `KiB`/`MiB` are 1024-based and `kB`/`MB` 1000-based. Before that `KB` and `MB` are 1024-based
(kb_base=1024).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SIZE = r"(?:\d{1,18}(?:\.\d{1,6})?\s?[KkMGTPE]?i?B)"
RATE = r"(?:\d{1,18}(?:\.\d{1,6})?\s?[KkMGTPE]?i?(?:B|bit)/s)"
COUNT = r"(?:\d{1,18}(?:\.\d{1,6})?[kKMGTPE]?)"
_PARTS = re.compile(r"(\d+)(?:\.(\d+))?\s?([KkMGTPE]?)(i?)(B|bit)?(?:/s)?")


@dataclass(frozen=True)
class Quantity:
    """A value in bytes, bytes/second or pieces, and the step of its last printed digit."""

    value: float
    step: float

    @property
    def low(self) -> float:
        """The least that may have been printed like this (fio rounds with a carry error: one step each way)."""
        return max(self.value - self.step, 0.0)

    @property
    def high(self) -> float:
        """The most that may have been printed like this."""
        return self.value + self.step


def quantity(text: str, *, binary: bool = False) -> Quantity:
    """`85.1MiB/s`, `8813kB/s`, `34.2k`; `binary` takes `KB` for 1024 bytes, as fio 2.x means it.

    Raises ValueError for anything that SIZE, RATE and COUNT do not match.
    """
    found = _PARTS.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no number of fio's")
    base = 1024 if found[4] or binary else 1000
    factor = float(base ** " KMGTPE".index((found[3] or " ").upper()))
    if found[5] == "bit":
        factor /= 8
    decimals = found[2] or ""
    return Quantity(float(f"{found[1]}.{decimals or 0}") * factor, factor / 10.0 ** len(decimals))


def readings(text: str, *, binary: bool = False) -> list[Quantity]:
    """What `quantity` reads, and the next whole number for one that ends in zeros (`11.0MiB/s`), likelier first.

    fio 2.18 to 3.24 dropped a carry: 11.96 to 11.99 was printed as 11.0. The numbers beside it tell which is meant.
    """
    first = quantity(text, binary=binary)
    found = re.match(r"\d+\.(0+)(?!\d)", text.strip())
    if not found:
        return [first]
    return [first, Quantity(first.value + first.step * 10 ** len(found[1]), first.step)]


def settle(estimate: float, *printed: Quantity) -> float | None:
    """The value nearest to `estimate` that all printed roundings allow; None where they contradict it by over
    3 %.
    """
    low = max((one.low for one in printed), default=estimate)
    high = min((one.high for one in printed), default=estimate)
    if low > high * 1.0001:
        return None
    value = min(max(estimate, low), high)
    if abs(estimate - value) > 0.03 * max(value, 1.0) + max((one.step for one in printed), default=0.0):
        return None
    return value
