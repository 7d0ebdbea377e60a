"""Is what runs what was flashed, and is it set up as the campaign expects? Each doubt is a reason for `void`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from farm.board.facts import Fact, Facts

# Two boots whose bus ran differently measure different things, so these have to equal the baseline's.
BUS = ("ios.timing", "ios.width_bits", "ios.actual_clock_hz", "ios.clock_hz")


def check_banner(facts: Facts, banner: str) -> list[str]:
    """Doubts about the kernel: `/proc/version` has to equal the banner inside the image that was flashed."""
    running = str(facts.values["banner"]).strip()
    if running == banner.strip():
        return []
    return [f"another kernel runs than was flashed: running {running!r}, flashed {banner.strip()!r}"]


def check_args(facts: Facts, args: str) -> list[str]:
    """Doubts about the arguments: each word that was given has to be on the kernel's command line."""
    there = str(facts.values.get("cmdline", "")).split()
    missing = [word for word in args.split() if word not in there]
    return [f"kernel arguments {' '.join(missing)!r} did not reach the kernel"] if missing else []


def check_expect(facts: Facts, expect: Mapping[str, object]) -> list[str]:
    """Doubts about the variant's `expect:` facts: values, `kernel` (part of the banner), `dmesg` (regexes)."""
    doubts = []
    for name, wanted in expect.items():
        if name == "kernel":
            if str(wanted) not in str(facts.values["banner"]):
                doubts.append(
                    f"expected a kernel with {wanted!r} in its banner, found {facts.values['banner']!r}"
                )
        elif name == "dmesg":
            patterns = (
                [wanted]
                if isinstance(wanted, str)
                else list(wanted)
                if isinstance(wanted, (list, tuple))
                else []
            )
            for pattern in patterns:
                if not any(re.search(str(pattern), line) for line in facts.mmc_lines):
                    doubts.append(f"expected a kernel line matching {pattern!r}, found none")
        elif name not in facts.values:
            doubts.append(f"expected {name} = {wanted}, but the board does not say")
        elif not _same(facts.values[name], wanted):
            doubts.append(f"expected {name} = {wanted}, found {facts.values[name]}")
    return doubts


def check_bus(facts: Facts, baseline: Mapping[str, Fact], expect: Mapping[str, object]) -> list[str]:
    """Doubts about the bus: mode, width and clock have to be the baseline's unless `expect:` says otherwise."""
    return [
        f"{name} is {facts.values.get(name)}, but the baseline ran with {baseline[name]}"
        for name in BUS
        if name in baseline and name not in expect and facts.values.get(name) != baseline[name]
    ]


def _same(found: Fact, wanted: object) -> bool:
    if isinstance(found, (int, float)) and not isinstance(wanted, bool):
        try:
            return float(found) == float(str(wanted))
        except ValueError:
            return False
    return str(found) == str(wanted)
