"""Where boards agree about a change and where they do not. Figures of different boards are never averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from farm.analysis.compare import Verdict

Agreement = Literal["agree", "disagree", "ratios-disagree", "open"]


@dataclass(frozen=True)
class BoardVerdict:
    """One board's verdict; `card` names the card it was measured on, and the SoC if that helps (`rk3568, KLMBG2`)."""

    board: str
    card: str
    verdict: Verdict

    @property
    def name(self) -> str:
        """Board and card as reports name them."""
        return f"{self.board} ({self.card})" if self.card else self.board


@dataclass(frozen=True)
class Across:
    """All boards' verdicts on one candidate and workload.

    `agree`: two boards at least have a verdict, and it is the same one. `disagree`: proven verdicts differ.
    `ratios-disagree`: nothing is proven against one another, but the ratios point opposite ways by more than the
    band. `open`: everything else.
    """

    workload: str
    candidate: str
    agreement: Agreement
    sentence: str
    boards: tuple[BoardVerdict, ...]


def across(
    boards: Sequence[BoardVerdict], *, band: float | Mapping[str, float] = 0.03, higher_is_better: bool = True
) -> tuple[Across, ...]:
    """One entry per candidate and workload that more than one board has, in order of first appearance.

    `band` is one for all or by workload, and only tells from where on two unproven ratios point somewhere.
    """
    groups: dict[tuple[str, str], list[BoardVerdict]] = {}
    for one in boards:
        groups.setdefault((one.verdict.candidate, one.verdict.workload), []).append(one)
    found = []
    for (candidate, workload), members in groups.items():
        if len(members) < 2:
            continue
        edge = band if isinstance(band, (int, float)) else band[workload]
        agreement, sentence = _judge(members, float(edge), higher_is_better)
        found.append(
            Across(workload, candidate, agreement, f"{workload}, {candidate}: {sentence}", tuple(members))
        )
    return tuple(found)


def _judge(members: Sequence[BoardVerdict], band: float, higher_is_better: bool) -> tuple[Agreement, str]:
    proven: dict[str, list[BoardVerdict]] = {}
    for word in ("faster", "slower", "same"):
        if having := [one for one in members if one.verdict.verdict == word]:
            proven[word] = having
    open_ones = [one for one in members if one.verdict.verdict == "inconclusive"]
    rest = f"; inconclusive on {_with_ratios(open_ones)}" if open_ones and proven else ""
    if len(proven) > 1:
        parts = [f"{word} on {_with_ratios(having)}" for word, having in proven.items()]
        return "disagree", f"the boards disagree: {', '.join(parts)}{rest}."
    pointing = _directions(members, band, higher_is_better)
    for word, having in proven.items():
        against = [one for one in open_ones if pointing.get(one.name) == _OPPOSITE.get(word)]
        if against:
            return "ratios-disagree", (
                f"{word} on {_with_ratios(having)}, but unproven the other way on {_with_ratios(against)}."
            )
        if len(having) == 1:
            return "open", f"{word} on {_with_ratios(having)}{rest}."
        which = "every board" if not open_ones else "these boards"
        return (
            "agree",
            f"{which} agree{'s' if not open_ones else ''}: {word} on {_with_ratios(having)}{rest}.",
        )
    if len(set(pointing.values())) > 1:
        return "ratios-disagree", f"the boards disagree, unproven: ratios {_with_ratios(members)}."
    return "open", f"nothing is proven on any board: ratios {_with_ratios(members)}."


_OPPOSITE = {"faster": "slower", "slower": "faster"}


def _directions(members: Sequence[BoardVerdict], band: float, higher_is_better: bool) -> dict[str, str]:
    """Where each board's ratio points, proven or not; boards within the band point nowhere."""
    found = {}
    for one in members:
        ratio = one.verdict.ratio
        if ratio is not None and not 1 / (1 + band) <= ratio <= 1 + band:
            found[one.name] = "faster" if (ratio > 1) is higher_is_better else "slower"
    return found


def _with_ratios(members: Sequence[BoardVerdict]) -> str:
    named = []
    for one in members:
        ratio = "no ratio" if one.verdict.ratio is None else f"x {one.verdict.ratio:.2f}"
        unstable = ", unstable" if one.verdict.unstable else ""
        named.append(f"{one.name} {ratio}{unstable}")
    return " and ".join(named) if len(named) < 3 else f"{', '.join(named[:-1])} and {named[-1]}"
