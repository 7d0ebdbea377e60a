"""Names of things in records, the same wherever they are shown or sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_RELEASE = re.compile(r"Linux version (\S{1,80})")


def card_of(facts: Mapping[str, Any]) -> str | None:
    """The card's name and manufacturer as the card says; None where the board never got that far."""
    name, maker = (str(facts.get(f"card.{key}", "")) for key in ("name", "manfid"))
    return (f"{name} ({maker})" if maker else name) if name else None


def release_of(banner: str) -> str:
    """The kernel's release in a banner; empty where that names none."""
    found = _RELEASE.search(banner)
    return found[1] if found else ""
