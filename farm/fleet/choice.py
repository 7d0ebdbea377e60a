"""Which boards take part in a run: by name, or so many of those with a tag; who is unwell stays out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.errors import BoardError, UserError
from farm.fleet import health, inventory, places
from farm.fleet.env import BoardEnv
from farm.fleet.inventory import BoardRow
from farm.store.db import Store

EQUAL = "board"
"""The tag in which boards agree that are equal."""


@dataclass(frozen=True)
class Wish:
    """One word of what was asked for: a board by name or path, or with `key=value` boards by tag.

    `most` is how many boards of the tag take part at most, and at least when the run begins; None for all free ones.
    """

    text: str
    most: int | None = 1

    @property
    def tag(self) -> tuple[str, str] | None:
        """Key and value, where boards are asked for by tag."""
        key, sign, value = self.text.partition("=")
        return (key, value) if sign and "/" not in self.text else None

    def group(self, name: str, tags: Mapping[str, str], virtual: bool) -> str:
        """What this board shares the campaign's blocks with: equal boards of a tag; a board by name runs them all.

        A virtual twin is no equal of the board that it stands in for.
        """
        if self.tag is None or EQUAL not in tags:
            return name
        return f"{EQUAL}={tags[EQUAL]}{' (virtual)' if virtual else ''}"

    def fits(self, row: BoardRow) -> bool:
        """Whether this board is meant."""
        if self.tag is None:
            return row.name in (self.text, Path(self.text).stem)
        return row.tags.get(self.tag[0]) == self.tag[1]


def wishes(asked: Sequence[str], count: int | None) -> tuple[Wish, ...]:
    """What was asked for, names before tags, so that a board that is named is not one of a tag's. Raises UserError."""
    found = [Wish(one, count if Wish(one).tag else 1) for one in dict.fromkeys(asked)]
    if count is not None and not any(one.tag for one in found):
        raise UserError("a count needs boards by tag, such as --board board=rk3568")
    return tuple(sorted(found, key=lambda one: one.tag is not None))


def rows(
    asked: Sequence[Wish], home: Path, through: str | None = None, *, start: bool = False
) -> list[BoardRow]:
    """The boards that are named, and if a tag is among what was asked for all others; those that `through` can be had.

    `through` is a coordinator's HOST:PORT, which has places, or `lab`, which has the virtual boards. With `start` a
    virtual board that is not up counts as free. Raises UserError for a board that is unknown, BoardError for a coordinator
    that does not answer.
    """
    address = None if through == "lab" else through
    names = [one.text for one in asked if one.tag is None]
    found = {row.name: row for row in (inventory.rows(home, names, address) if names else ())}
    if any(one.tag for one in asked):
        if address:
            places.seen(
                address
            )  # a coordinator that does not answer is said so, and not that it has no boards
        for row in inventory.rows(home, None, address):
            if through is None or (row.virtual if through == "lab" else row.place):
                found.setdefault(row.name, row)
    return [row.started() if start else row for row in found.values()]


def first(
    asked: Sequence[Wish],
    home: Path,
    through: str | None = None,
    *,
    start: bool = False,
    check: bool = False,
    busy: bool = False,
) -> list[str]:
    """Names or paths of the boards that a run would begin with, with `busy` also of those that it would wait for.

    Raises UserError for boards and tags that are unknown, BoardError where too few are free.
    """
    known = rows(asked, home, through, start=start)
    found: dict[str, str] = {}
    for wish in asked:
        if wish.tag is None:
            found[Path(wish.text).stem] = wish.text
            continue
        taken, lacking = candidates(wish, known, found, check=check, more=busy)
        if lacking and not busy:
            raise lacking
        found.update({row.name: row.name for row in taken})
    return list(found.values())


def planned(asked: Sequence[Wish], home: Path) -> dict[str, Wish]:
    """Names or paths of the boards that a run would take if as many as possible were free, and what each was asked for by.

    Raises UserError for boards and tags that are unknown.
    """
    known = rows(asked, home)
    found: dict[str, Wish] = {}
    for wish in asked:
        if wish.tag is None:
            found[wish.text] = wish
            continue
        free, _ = candidates(wish, known, found)
        others = [row for row in known if wish.fits(row) and row not in free and row.state != "wrong"]
        names = [row.name for row in (*free, *others) if row.name not in {Path(one).stem for one in found}]
        found.update(dict.fromkeys(names[: wish.most], wish))
    return found


def shares(asked: Mapping[str, Wish], boards: Sequence[BoardEnv]) -> dict[str, str]:
    """The group of equal boards that each board is in, by the tags of its env."""
    return {
        board.name: wish.group(board.name, board.farm.tags, board.farm.virtual is not None)
        for wish, board in zip(asked.values(), boards, strict=True)
    }


def candidates(
    wish: Wish, known: Sequence[BoardRow], held: Collection[str], *, check: bool = False, more: bool = False
) -> tuple[list[BoardRow], BoardError | None]:
    """The boards to take for a wish beside those that are `held`, and what is lacking.

    With `check` quarantined boards may be taken, as they are checked first. With `more` busy ones are listed too where
    free ones are lacking. Raises UserError for a tag that no board has.
    """
    there = [row for row in known if wish.fits(row)]
    if wish.tag is None:
        kept_out = {"quarantined"} if not check else set()
        return [row for row in there if row.name not in held and row.state not in kept_out], None
    if not there:
        tags = sorted({f"{name}={text}" for row in known for name, text in row.tags.items()})
        raise UserError(f"no board has the tag {wish.text}; there are {', '.join(tags) or 'no tags at all'}")
    others = [row for row in there if row.name not in held]
    states = ("free", "quarantined") if check else ("free",)
    free = sorted((row for row in others if row.state in states), key=lambda row: states.index(row.state))
    if len(free) >= (wish.most or 1):
        return free[: wish.most], None
    rest = "; ".join(f"{row.name} is {row.state}{_why(row)}" for row in others if row.state not in states)
    lacking = BoardError(f"{wish.text}: {wish.most or 1} boards are wanted and {len(free)} are free ({rest})")
    return free + [row for row in others if more and row.state == "busy"], lacking


def _why(row: BoardRow) -> str:
    return f": {row.why}" if row.state == "busy" else ""


def fit(boards: Sequence[BoardEnv], store: Store, say: Callable[[str], None]) -> None:
    """Name the boards that are quarantined. Raises BoardError where no other is there."""
    out = []
    for board in boards:
        reason = health.quarantine(store.health.last(board.name, 100), board.farm.quarantine_after)
        if reason:
            out.append(board.name)
            say(f"{board.name}: left out, quarantined: {reason}; let it back with: farm check {board.name}")
    if len(out) == len(boards):
        raise BoardError(
            f"every board is quarantined ({', '.join(out)}); look at them with: farm check {out[0]}"
        )


def remote(boards: Sequence[BoardEnv]) -> list[BoardEnv]:
    """The boards as seen through a coordinator. Raises UserError for one whose env has no target for that."""
    for board in boards:
        if board.place is None:
            raise UserError(
                "has no target `remote` with a RemotePlace, so no coordinator can be asked for it",
                file=board.path,
                key="targets.remote",
            )
    return [board.model_copy(update={"target": "remote"}) for board in boards]
