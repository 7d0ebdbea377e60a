"""Every board there is: who has it, how it is, which card is in it, when it last booted well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from farm.errors import BoardError, UserError
from farm.fleet import boards as fleet
from farm.fleet import busy, coordinator, health, places
from farm.fleet.env import BoardEnv
from farm.fleet.places import Place
from farm.paths import database
from farm.store.db import Store
from farm.virtual import lab

State = Literal["free", "busy", "quarantined", "offline", "wrong"]


@dataclass(frozen=True)
class BoardRow:
    """One board. `why` says more of a state that is not free; `card`, `life` are empty where nothing is known;
    `last_good` is the end of the last good boot, UTC epoch seconds."""

    name: str
    soc: str
    state: State
    why: str
    card: str
    life: str
    last_good: float | None
    place: str
    tags: Mapping[str, str]
    virtual: bool = False

    def started(self) -> BoardRow:
        """The same where a virtual board that is not up will be brought up."""
        return replace(self, state="free") if self.virtual and self.state == "offline" else self

    def as_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return asdict(self)


def rows(home: Path, names: Sequence[str] | None = None, address: str | None = None) -> list[BoardRow]:
    """All boards with an env file here (or those named), by name; nothing on a board is touched.

    `address` is a coordinator to ask beside the one of the virtual lab. Raises StoreError and, where names are given,
    UserError; a board whose env file is wrong is a row of its own otherwise. A coordinator that does not answer makes
    the boards behind it offline. Virtual boards are looked for there too where this home has no coordinator.
    """
    virtual_address = coordinator.running(home)
    known = {one: _places(one) for one in {address, virtual_address} if one}
    up = {one.name for one in lab.status(home)}
    path = database(home)
    store = Store.open(path) if path.exists() else None
    found = []
    try:
        boots = store.health.good_boots() if store else {}
        for name in names or fleet.all_names():
            try:
                (board,) = fleet.load([name], home)
            except UserError as problem:
                if names:
                    raise
                found.append(BoardRow(name, "", "wrong", str(problem).splitlines()[0], "", "", None, "", {}))
                continue
            one = virtual_address if board.farm.virtual is not None and virtual_address else address
            there = known.get(one) if one else None
            found.append(_row(board, home, store, boots.get(board.name), there, board.name in up))
    finally:
        if store:
            store.close()
    return found


def _places(address: str) -> dict[str, Place] | str:
    """The places of a coordinator, or why it does not say."""
    try:
        return places.seen(address)
    except BoardError as problem:
        return problem.reason


def _row(
    board: BoardEnv,
    home: Path,
    store: Store | None,
    boot: Any,
    known: Mapping[str, Place] | str | None,
    virtual_up: bool,
) -> BoardRow:
    place = known.get(board.place) if isinstance(known, Mapping) and board.place else None
    good = store.health.last_good(board.name) if store else None
    if boot is not None and (good is None or boot.ended > good.at):
        facts, last = boot.facts, boot.ended
    else:
        facts, last = (good.facts, good.at) if good else ({}, None)
    state, why = _state(board, home, store, known, place, virtual_up)
    return BoardRow(
        name=board.name,
        soc=board.farm.soc,
        state=state,
        why=why,
        card=_card(facts),
        life=health.life_text(facts),
        last_good=last,
        place=place.name if place else "",
        virtual=board.farm.virtual is not None,
        tags={**board.farm.tags, **(place.tags if place else {})},
    )


def _state(
    board: BoardEnv,
    home: Path,
    store: Store | None,
    known: Mapping[str, Place] | str | None,
    place: Place | None,
    virtual_up: bool,
) -> tuple[State, str]:
    if who := busy.holder(board, home):
        return "busy", who
    if (
        place is not None
        and place.holder
        and place.holder != places.owner()
        and not places.gone(place.holder)
    ):
        return "busy", place.holder
    if board.farm.virtual is not None and not virtual_up and known is None:
        return "offline", f"start it with: farm virtual up {board.name}"
    if known is not None and board.place:
        if isinstance(known, str):
            return "offline", known
        if place is None:
            return "offline", f"the coordinator has no place {board.place}"
        if not place.resources:
            return "offline", "no exporter serves it"
    if store and (
        reason := health.quarantine(store.health.last(board.name, 100), board.farm.quarantine_after)
    ):
        return "quarantined", f"{reason}; let it back with: farm check {board.name}"
    return "free", ""


def _card(facts: Mapping[str, Any]) -> str:
    size = facts.get("disk_bytes")
    words = [facts.get("card.type"), facts.get("card.name"), f"{size / 2**30:.1f} GiB" if size else None]
    return " ".join(str(word) for word in words if word)
