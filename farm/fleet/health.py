"""What makes a board unfit: doubts about bus, clock and wear, and failures in a row."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from farm.board.proof import BUS
from farm.fleet.env import BoardEnv
from farm.influx.line import Value, pack
from farm.influx.points import board_line
from farm.store.db import Store
from farm.store.health import HealthRecord
from farm.store.labels import card_of

_CLOCK_TOLERANCE = 0.02
_UPTIME_STEP_S = 0.02  # /proc/uptime counts hundredths
# Two checks can be compared where these are the same: another card or another golden kernel may run its bus otherwise.
_COMPARABLE = ("card.cid", "banner")
# Facts that dashboards show of a check, under the names that they have in a boot.
_SENT = (
    *("temperature_c", "ios.timing", "ios.clock_hz", "ios.actual_clock_hz", "card.life_time", "card.pre_eol"),
    *("ext_csd.life_time_a", "ext_csd.life_time_b", "ext_csd.pre_eol"),
)


def bus_doubt(facts: Mapping[str, object], last: Mapping[str, object] | None) -> str:
    """Why the bus of this check is not that of the last good one; empty where it is, or nothing can be compared."""
    if not last or any(facts.get(name) != last.get(name) for name in _COMPARABLE):
        return ""
    return "; ".join(
        f"{name} is {facts.get(name, 'unknown')}, and was {last.get(name, 'unknown')} at the last good check"
        for name in BUS
        if facts.get(name) != last.get(name)
    )


def clock_doubt(passed: float, least: float, most: float) -> str:
    """Why the board's clock is wrong: `passed` seconds there, while here it was at least `least`, at most `most`."""
    low = least * (1 - _CLOCK_TOLERANCE) - _UPTIME_STEP_S
    high = most * (1 + _CLOCK_TOLERANCE) + _UPTIME_STEP_S
    if low <= passed <= high:
        return ""
    return f"the board's clock counted {passed:.2f} s while {least:.2f} to {most:.2f} s passed here"


def _life(facts: Mapping[str, object]) -> list[int]:
    """Estimates of type A and B blocks in tenths of the rated life (JESD84-B51, 7.4.40 and 7.4.41); 0 is undefined."""
    found = [facts.get("ext_csd.life_time_a"), facts.get("ext_csd.life_time_b")]
    if not any(isinstance(one, int) for one in found):
        # sysfs prints the same two bytes as "0x01 0x01"
        words = re.findall(r"0x([0-9a-fA-F]{1,2})\b", str(facts.get("card.life_time", "")))
        found = [int(word, 16) for word in words[:2]]
    return [one for one in found if isinstance(one, int) and one]


def _pre_eol(facts: Mapping[str, object]) -> int:
    value = facts.get("ext_csd.pre_eol")
    if isinstance(value, int):
        return value
    word = re.fullmatch(r"0x([0-9a-fA-F]{1,2})", str(facts.get("card.pre_eol", "")))
    return int(word[1], 16) if word else 0


def life_text(facts: Mapping[str, object]) -> str:
    """The card's used life for people, such as `10-20 % used`; empty where the card does not say (SD cards never do)."""
    life = _life(facts)
    if not life:
        return ""
    worst = max(life)
    return "exceeded" if worst > 10 else f"{(worst - 1) * 10}-{worst * 10} % used"


def wear_doubt(facts: Mapping[str, object]) -> str:
    """Why the card is worn out by its own word (JESD84-B51: life time 0x0B exceeded, PRE_EOL_INFO 0x03 urgent)."""
    if any(one > 10 for one in _life(facts)):
        return "the card has exceeded its estimated life time (EXT_CSD life time 0x0b); put in another one"
    if _pre_eol(facts) >= 3:
        return "the card has used up 90 % of its reserved blocks (EXT_CSD PRE_EOL_INFO urgent); put in another one"
    return ""


def quarantine(records: Sequence[HealthRecord], after: int) -> str:
    """Why a board is quarantined: its last `after` looks (newest first) all failed. Empty where it is not."""
    failed = _failures(records)
    if failed < after:
        return ""
    first = re.split(r"[\n\r]", records[0].reason, maxsplit=1)[0]
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(records[0].at))
    return f"{failed} failures in a row, the last {when}: {first}"


def _failures(records: Sequence[HealthRecord]) -> int:
    """How many looks (newest first) failed since the last good one."""
    return next((number for number, record in enumerate(records) if record.ok), len(records))


def note(store: Store, board: BoardEnv, record: HealthRecord) -> None:
    """Put a look at a board on record, and into the outbox the point that says how the board is now."""
    failed = _failures([record, *store.health.last(board.name, 100)])
    word = "ok" if record.ok else "quarantine" if failed >= board.farm.quarantine_after else "failed"
    facts: dict[str, Value] = {name: record.facts[name] for name in _SENT if name in record.facts}
    point = board_line(
        board.name,
        word,
        at=record.at,
        reason=record.reason,
        soc=board.farm.soc,
        card=card_of(record.facts),
        facts={**facts, "failures_in_a_row": failed},
    )
    store.health.add(record, point=pack([point]))
