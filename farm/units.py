"""Bytes, bytes/second, seconds and shares as people read them; farm.quantity is the other way."""

from __future__ import annotations

SECTOR = 512
"""Bytes of a sector, as Linux, partition tables and EXT_CSD count them, whatever the disk works with."""


def format_size(value: float) -> str:
    """Bytes for people, 1024-based with the unit printed: `64 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def format_rate(value: float) -> str:
    """Bytes/second for people, 10^6-based with the unit printed: `61.9 MB/s`."""
    for unit in ("B/s", "kB/s", "MB/s"):
        # what would be printed as 1e+03 belongs to the next unit
        if abs(value) < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3f} GB/s" if abs(value) < 10 else f"{value:.1f} GB/s"


def format_duration(seconds: float) -> str:
    """Seconds for people: `12 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_percent(share: float) -> str:
    """A share for people, in percent without the sign: `7.5`, `13`, `150`."""
    return f"{100 * share:.{1 if abs(share) < 0.0995 else 0}f}"
