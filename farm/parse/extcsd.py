"""EXT_CSD of an eMMC: what `mmc extcsd read` prints, or the raw 1024 hex digits of debugfs `ext_csd`.

Offsets from JEDEC JESD84-B51 table 146; labels from mmc-utils' mmc_cmds.c, which wrote them in several ways
over the years.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from farm.parse.clean import clean
from farm.parse.measurement import Findings
from farm.units import SECTOR

_TEXT_HEAD = re.compile(r"Extended CSD rev\s(1\.\d)\s\(MMC\s([\d.]{1,6})\)")
_FIELD = re.compile(
    r"\[([A-Z][A-Z0-9_]{2,60})(?:\[\d{1,3}\])?(?::\s?(0x[0-9a-fA-F]{1,16})\]|\]:\s?(0x[0-9a-fA-F]{1,16}|\d{1,10})\b)"
)
_CACHE = re.compile(r"\[CACHE_SIZE\]\s+is\s+(\d{1,12})\s+KiB")
_FIRMWARE = re.compile(r"eMMC Firmware Version:[ \t]?([!-~]{1,16})")
_REVISIONS = {0: "4.0", 1: "4.1", 2: "4.2", 3: "4.3", 5: "4.41", 6: "4.5", 7: "5.0", 8: "5.1"}
# name -> (first byte, length), little endian
_OFFSETS = {
    "CMDQ_MODE_EN": (15, 1), "CACHE_CTRL": (33, 1), "BKOPS_EN": (163, 1), "WR_REL_SET": (167, 1), "BUS_WIDTH": (183, 1),
    "HS_TIMING": (185, 1), "EXT_CSD_REV": (192, 1), "CARD_TYPE": (196, 1), "SEC_COUNT": (212, 4),
    "CACHE_SIZE": (249, 4), "PRE_EOL_INFO": (267, 1), "DEVICE_LIFE_TIME_EST_TYP_A": (268, 1),
    "DEVICE_LIFE_TIME_EST_TYP_B": (269, 1), "CMDQ_DEPTH": (307, 1), "CMDQ_SUPPORT": (308, 1),
    "MAX_PACKED_READS": (501, 1), "MAX_PACKED_WRITES": (500, 1), "BKOPS_SUPPORT": (502, 1), "HPI_FEATURES": (503, 1),
}  # fmt: skip


@dataclass(frozen=True)
class ExtCsd:
    """What a benchmark wants to know of the register; None where the text does not hold it.

    `life_time_a/_b`: 1 to 11, each step 10 % of the rated life used, 0 undefined. `pre_eol`: 1 normal, 2
    warning, 3 urgent. `cache_bytes` is what mmc-utils prints; before 2021 it printed kilobits as KiB, eight
    times too much.
    """

    source: str
    revision: str | None = None
    mmc_version: str | None = None
    life_time_a: int | None = None
    life_time_b: int | None = None
    pre_eol: int | None = None
    cache_bytes: int | None = None
    cache_on: bool | None = None
    sectors: int | None = None
    size_bytes: int | None = None
    cmdq_support: bool | None = None
    cmdq_depth: int | None = None
    cmdq_enabled: bool | None = None
    hs_timing: int | None = None
    card_type: int | None = None
    firmware: str | None = None
    fields: Mapping[str, int] = field(default_factory=dict)


def parse_extcsd(text: str) -> ExtCsd | None:
    """The first EXT_CSD in a text, printed or raw, or None where there is none. Never raises."""
    return _find(clean(text))


def _find(text: str) -> ExtCsd | None:
    head = _TEXT_HEAD.search(text)
    fields = {
        match[1].removeprefix("EXT_CSD_"): int(match[2] or match[3], 0) for match in _FIELD.finditer(text)
    }
    if head or "DEVICE_LIFE_TIME_EST_TYP_A" in fields or ("SEC_COUNT" in fields and "S_CMD_SET" in fields):
        return _printed(text, head, fields)
    raw = _raw_digits(text)
    return _raw(bytes.fromhex(raw)) if raw else None


def _raw_digits(text: str) -> str | None:
    """1024 hex digits, in one line or wrapped; cheap to refuse for what has no such run."""
    for match in re.finditer(r"(?:^[ \t]*[0-9a-fA-F]{16,1024}[ \t]*$\n?){1,70}", text, re.MULTILINE):
        digits = "".join(match[0].split())
        if len(digits) == 1024:
            return digits
    return None


def _printed(text: str, head: re.Match[str] | None, fields: Mapping[str, int]) -> ExtCsd:
    cache = _CACHE.search(text)
    firmware = _FIRMWARE.search(text)
    return _known(
        "mmc-utils",
        fields,
        revision=head[1] if head else None,
        mmc_version=head[2] if head else None,
        cache_bytes=int(cache[1]) * 1024 if cache else None,
        cmdq_depth=fields.get("CMDQ_DEPTH"),
        firmware=firmware[1] if firmware else None,
    )


def _raw(data: bytes) -> ExtCsd:
    fields = {name: int.from_bytes(data[at : at + size], "little") for name, (at, size) in _OFFSETS.items()}
    revision = fields["EXT_CSD_REV"]
    firmware = data[254:262].rstrip(b"\0 ")
    printable = (
        firmware.decode("ascii") if firmware.isascii() and firmware.decode("ascii").isprintable() else None
    )
    return _known(
        "raw",
        fields,
        revision=f"1.{revision}",
        mmc_version=_REVISIONS.get(revision),
        cache_bytes=fields["CACHE_SIZE"] * 128 if revision >= 6 else None,  # the unit is kilobits
        cmdq_depth=(fields["CMDQ_DEPTH"] & 0x1F) + 1 if revision >= 8 and fields["CMDQ_SUPPORT"] else None,
        firmware=(printable or firmware.hex() or None) if revision >= 7 else None,
    )


def _known(
    source: str,
    fields: Mapping[str, int],
    *,
    revision: str | None,
    mmc_version: str | None,
    cache_bytes: int | None,
    cmdq_depth: int | None,
    firmware: str | None,
) -> ExtCsd:
    def flag(name: str) -> bool | None:
        return None if name not in fields else bool(fields[name] & 1)

    sectors = fields.get("SEC_COUNT")
    return ExtCsd(
        source=source,
        revision=revision,
        mmc_version=mmc_version,
        life_time_a=fields.get("DEVICE_LIFE_TIME_EST_TYP_A"),
        life_time_b=fields.get("DEVICE_LIFE_TIME_EST_TYP_B"),
        pre_eol=fields.get("PRE_EOL_INFO"),
        cache_bytes=cache_bytes,
        cache_on=flag("CACHE_CTRL"),
        sectors=sectors,
        size_bytes=None if sectors is None else sectors * SECTOR,
        cmdq_support=flag("CMDQ_SUPPORT"),
        cmdq_depth=cmdq_depth,
        cmdq_enabled=flag("CMDQ_MODE_EN"),
        hs_timing=fields.get("HS_TIMING"),
        card_type=fields.get("CARD_TYPE"),
        firmware=firmware,
        fields=fields,
    )


def scan(text: str) -> Findings:
    """`ext_csd` as a fact of a cleaned text."""
    found = Findings()
    if ext_csd := _find(text):
        found.facts["ext_csd"] = asdict(ext_csd)
    return found
