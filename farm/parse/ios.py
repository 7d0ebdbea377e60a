"""The debugfs file `mmcN/ios`: how the host drives the bus now. Format: drivers/mmc/core/debugfs.c,
mmc_ios_show().
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from farm.parse.clean import clean
from farm.parse.finding import near
from farm.parse.measurement import Findings

_BLOCK = re.compile(r"(?<!actual )\bclock:\s{1,40}(\d{1,12})\s{1,4}Hz")
_BLOCK_LENGTH = 800
_ACTUAL = re.compile(r"\bactual clock:\s{1,40}(\d{1,12})\s{1,4}Hz")
_FIELD = re.compile(
    r"\b(vdd|bus mode|chip select|power mode|bus width|timing spec|signal voltage|driver type):"
    r"\s{1,40}(\d{1,4})\s{1,4}\(([^()\n]{1,60}(?:\n[^()\n]{1,60})?)\)"
)
_WIDTH = re.compile(r"(\d{1,2})\s*bits?")


@dataclass(frozen=True)
class Ios:
    """One state of the bus. Clocks in Hz; the texts as the kernel prints them; None where a line is missing.

    `actual_clock_hz` is what the host controller says it really gives, where its driver tells (0 and absent:
    unknown).
    """

    clock_hz: int
    actual_clock_hz: int | None = None
    width_bits: int | None = None
    timing: str | None = None
    timing_code: int | None = None
    voltage: str | None = None
    vdd: str | None = None
    bus_mode: str | None = None
    chip_select: str | None = None
    power_mode: str | None = None
    driver_type: str | None = None


def parse_ios(text: str) -> Ios | None:
    """The last `ios` in a text, or None where there is none. Never raises."""
    return next((ios for _, ios in reversed(list(blocks(clean(text))))), None)


def blocks(text: str) -> Iterator[tuple[int, Ios]]:
    """Every `ios` in a cleaned text with its offset, also where it was flattened into one line."""
    starts = list(near(_BLOCK, text, "clock:", before=20, after=80))
    for index, start in enumerate(starts):
        limit = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        body = text[start.start() : min(limit, start.start() + _BLOCK_LENGTH)]
        fields: dict[str, tuple[int, str]] = {}
        for entry in _FIELD.finditer(body):
            fields.setdefault(entry[1], (int(entry[2]), " ".join(entry[3].split())))
        if "timing spec" not in fields and "bus width" not in fields:
            continue  # some other "clock: N Hz", as of clk_summary
        texts = {name: shown for name, (_, shown) in fields.items()}
        actual = _ACTUAL.search(body)
        width = _WIDTH.search(texts.get("bus width", ""))
        yield (
            start.start(),
            Ios(
                clock_hz=int(start[1]),
                actual_clock_hz=int(actual[1]) if actual else None,
                width_bits=int(width[1]) if width else None,
                timing=texts.get("timing spec"),
                timing_code=fields["timing spec"][0] if "timing spec" in fields else None,
                voltage=texts.get("signal voltage"),
                vdd=texts.get("vdd"),
                bus_mode=texts.get("bus mode"),
                chip_select=texts.get("chip select"),
                power_mode=texts.get("power mode"),
                driver_type=texts.get("driver type"),
            ),
        )


def scan(text: str) -> Findings:
    """`ios` (the last) and, if there are several, `ios_all` as facts of a cleaned text."""
    found = Findings()
    every = [asdict(ios) for _, ios in blocks(text)][:1000]
    if every:
        found.facts["ios"] = every[-1]
    if len(every) > 1:
        found.facts["ios_all"] = every
    return found
