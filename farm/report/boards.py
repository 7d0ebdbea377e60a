"""What a report says of each board: SoC, card and firmware, bus, kernels, and the facts in which variants differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm.analysis.limits import bus_limit
from farm.report.figures import NONE
from farm.store.records import RunRecord, StoredBoot

UNKNOWN = "unknown"
_VOLATILE = (
    "soc",
    "file",
    "text_sha256",
    "text_samples",
    "uptime_s",
    "clock_s",
    "mmc_lines",
    "cpu_khz",
    "temperature_c",
    "banner",
)
_SHOWN_VALUES = 3


@dataclass(frozen=True)
class Fact:
    """One fact, its distinct values by variant; `differs` where two variants have none in common.

    What changes from boot to boot within every variant is no difference between them either.
    """

    name: str
    by_variant: Mapping[str, tuple[str, ...]]
    differs: bool


@dataclass(frozen=True)
class Board:
    """One board of a run. Texts are `unknown` where nothing is on record; the bus limit is bytes/second or None.

    `ios`, `kernels`, `limits` and `boots` (good and all) are by variant.
    """

    name: str
    soc: str
    synthetic: str
    card: str
    firmware: str
    cid: str
    ios: Mapping[str, str]
    kernels: Mapping[str, str]
    commits: Mapping[str, str]
    limits: Mapping[str, float | None]
    boots: Mapping[str, tuple[int, int]]
    facts: tuple[Fact, ...]

    @property
    def named_card(self) -> str:
        """SoC and card in a few words, as agreement between boards names them."""
        known = [text for text in (self.soc, self.card) if text != UNKNOWN]
        return ", ".join(known)


def boards_of(run: RunRecord, boots: Sequence[StoredBoot], variants: Sequence[str]) -> tuple[Board, ...]:
    """The boards of a run in the order in which they are stored."""
    by_board: dict[str, list[StoredBoot]] = {}
    for boot in boots:
        by_board.setdefault(boot.board, []).append(boot)
    return tuple(_board(run, name, own, variants) for name, own in by_board.items())


def _board(run: RunRecord, name: str, boots: Sequence[StoredBoot], variants: Sequence[str]) -> Board:
    known = {
        variant: [boot for boot in boots if boot.variant == variant and boot.facts]
        for variant in variants
        if any(boot.variant == variant for boot in boots)
    }
    first = {
        variant: next((boot for boot in own if boot.status == "ok"), own[0]).facts if own else {}
        for variant, own in known.items()
    }
    merged: dict[str, Any] = {}
    for facts in first.values():
        merged = {**facts, **merged}
    return Board(
        name=name,
        soc=_setting(run, "socs", name) or _text(merged.get("soc")) or UNKNOWN,
        synthetic=_setting(run, "synthetic", name),
        card=_card(merged),
        firmware=_firmware(merged),
        cid=_text(merged.get("card.cid")),
        ios={variant: bus_text(facts) for variant, facts in first.items()},
        kernels={variant: _banner(known[variant]) for variant in known},
        commits={variant: _setting(run, "commits", variant) for variant in known},
        limits={variant: limit_of(facts) for variant, facts in first.items()},
        boots={
            variant: (
                sum(boot.variant == variant and boot.status == "ok" for boot in boots),
                sum(boot.variant == variant for boot in boots),
            )
            for variant in known
        },
        facts=tuple(_facts(known)),
    )


def limit_of(facts: Mapping[str, Any]) -> float | None:
    """What the bus carries by `ios` (bytes/second), by the clock that it really has where that is known."""
    clock = facts.get("ios.actual_clock_hz") or facts.get("ios.clock_hz")
    width, timing = facts.get("ios.width_bits"), facts.get("ios.timing")
    if not isinstance(clock, (int, float)) or not isinstance(width, int) or not isinstance(timing, str):
        return None
    return bus_limit(clock, width, timing)


def bus_text(facts: Mapping[str, Any]) -> str:
    """`ios` in one line: `mmc HS200, 8 bits, 200 MHz (actual 198 MHz), 1.80 V`."""
    timing, width, voltage = (facts.get(f"ios.{name}") for name in ("timing", "width_bits", "voltage"))
    clock, actual = facts.get("ios.clock_hz"), facts.get("ios.actual_clock_hz")
    parts = [_text(timing)] if timing else []
    parts += [f"{width} bits"] if width else []
    if isinstance(clock, (int, float)) and clock:
        text = f"{clock / 1e6:g} MHz"
        parts.append(
            f"{text} (actual {actual / 1e6:g} MHz)" if isinstance(actual, (int, float)) and actual else text
        )
    parts += [_text(voltage)] if voltage else []
    parts += ["nominal, the clock was not posted"] if facts.get("ios.source") else []
    return ", ".join(parts) or UNKNOWN


def _banner(boots: Iterable[StoredBoot]) -> str:
    said = dict.fromkeys(_text(boot.facts.get("banner")) for boot in boots if boot.status == "ok")
    return " / ".join(text for text in said if text) or UNKNOWN


def _card(facts: Mapping[str, Any]) -> str:
    size = facts.get("disk_bytes")
    words = [_text(facts.get("card.name")), _text(facts.get("card.type"))]
    words += [f"manfid {facts['card.manfid']}"] if facts.get("card.manfid") else []
    words += [f"{size / 2**30:.4g} GiB"] if isinstance(size, (int, float)) and size else []
    return " ".join(word for word in words if word) or UNKNOWN


def _firmware(facts: Mapping[str, Any]) -> str:
    for name in ("ext_csd.firmware", "card.fwrev", "card.prv"):
        if text := _text(facts.get(name)):
            return text
    return UNKNOWN


def _facts(known: Mapping[str, Sequence[StoredBoot]]) -> Iterable[Fact]:
    names = dict.fromkeys(name for boots in known.values() for boot in boots for name in boot.facts)
    for name in names:
        if name in _VOLATILE:
            continue
        values = {
            variant: tuple(dict.fromkeys(_text(boot.facts[name]) for boot in boots if name in boot.facts))
            for variant, boots in known.items()
        }
        steady = any(len(found) <= 1 for found in values.values())
        apart = any(set(one).isdisjoint(other) for one, other in itertools.combinations(values.values(), 2))
        yield Fact(name, {variant: _few(found) for variant, found in values.items()}, steady and apart)
    for name, unit, scale in (("temperature_c", "degrees C", 1.0), ("cpu_khz", "MHz", 1e-3)):
        ranges = {variant: _range(boots, name, scale) for variant, boots in known.items()}
        if any(ranges.values()):
            shown = {variant: (f"{text} {unit}" if text else NONE,) for variant, text in ranges.items()}
            yield Fact(name, shown, differs=False)


def _few(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        return (NONE,)
    more = len(values) - _SHOWN_VALUES
    return (*values[:_SHOWN_VALUES], f"and {more} more") if more > 0 else values


def _range(boots: Iterable[StoredBoot], name: str, scale: float) -> str:
    found = [value * scale for boot in boots if isinstance(value := boot.facts.get(name), (int, float))]
    if not found:
        return ""
    return f"{min(found):.4g}" if min(found) == max(found) else f"{min(found):.4g} to {max(found):.4g}"


def _setting(run: RunRecord, name: str, key: str) -> str:
    values = run.settings.get(name)
    return _text(values.get(key)) if isinstance(values, Mapping) else ""


def _text(value: object) -> str:
    return "" if value is None else str(value)
