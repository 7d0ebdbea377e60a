"""Which boards take part in a run: by name, or so many of those with a tag; who is unwell stays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from farm.errors import BoardError, UserError
from farm.fleet import health, inventory
from farm.fleet.env import BoardEnv
from farm.store.db import Store


def named(asked: Sequence[str], count: int | None, home: Path, through: str | None = None) -> list[str]:
    """Names of boards for what was asked: names and paths stay, `key=value` becomes boards with that tag.

    Of a tag, `count` boards are taken, those that are free (all free ones for None); `through` a coordinator's
    HOST:PORT only boards with a place there, and with `lab` only virtual ones. Raises UserError where a tag is
    unknown, BoardError where fewer are free.
    """
    if count is not None and not any("=" in one and "/" not in one for one in asked):
        raise UserError("--count needs boards by tag, such as --board board=rk3568")
    found: list[str] = []
    for one in asked:
        if "=" not in one or "/" in one:
            found.append(one)
            continue
        found += [name for name in _tagged(one, count, home, through) if name not in found]
    return found


def _tagged(tag: str, count: int | None, home: Path, through: str | None) -> list[str]:
    key, _, value = tag.partition("=")
    every = inventory.rows(home, None, None if through == "lab" else through)
    if through is not None:
        every = [row for row in every if (row.virtual if through == "lab" else row.place)]
    there = [row for row in every if row.tags.get(key) == value]
    if not there:
        known = sorted({f"{name}={text}" for row in every for name, text in row.tags.items()})
        raise UserError(f"no board has the tag {tag}; there are {', '.join(known) or 'no tags at all'}")
    free = [row.name for row in there if row.state == "free"]
    if len(free) < (count or 1):
        rest = "; ".join(f"{row.name} is {row.state}" for row in there if row.state != "free")
        raise BoardError(f"{tag}: {count or 1} boards are wanted and {len(free)} are free ({rest})")
    return free[: count or len(free)]


def fit(boards: Sequence[BoardEnv], store: Store, say: Callable[[str], None]) -> list[BoardEnv]:
    """The boards that are not quarantined; the others are named. Raises BoardError where none is left."""
    found, out = [], []
    for board in boards:
        reason = health.quarantine(store.health.last(board.name, 100), board.farm.quarantine_after)
        if reason:
            out.append(board.name)
            say(f"{board.name}: left out, quarantined: {reason}; let it back with: farm check {board.name}")
        else:
            found.append(board)
    if not found:
        raise BoardError(
            f"every board is quarantined ({', '.join(out)}); look at them with: farm check {out[0]}"
        )
    return found


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
