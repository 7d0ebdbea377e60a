"""Names of things in records, the same wherever they are shown or sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card_of(facts: Mapping[str, Any]) -> str | None:
    """The card's name and manufacturer as the card says; None where the board never got that far."""
    name, maker = (str(facts.get(f"card.{key}", "")) for key in ("name", "manfid"))
    return (f"{name} ({maker})" if maker else name) if name else None
