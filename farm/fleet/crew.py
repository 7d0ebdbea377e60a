"""The boards of a run: taken together, given back one by one, and joined by more as these come free."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from farm.errors import BoardError, FarmError
from farm.fleet import boards as fleet
from farm.fleet import busy, choice, places
from farm.fleet.choice import Wish
from farm.fleet.env import BoardEnv
from farm.fleet.inventory import BoardRow
from farm.store.db import Store

_ASK_EVERY_S = 2.0


class Crew:
    """Holds the boards of one run, on this machine and at labgrid's coordinator; a context that gives all back.

    `address` is the coordinator's HOST:PORT, or None where boards are driven from here. `what` is told to others. With
    `check` quarantined boards may take part, since they have to pass their check first.
    """

    def __init__(
        self,
        wishes: Sequence[Wish],
        home: Path,
        store: Store,
        *,
        what: str,
        say: Callable[[str], None],
        address: str | None = None,
        check: bool = False,
        shares: Mapping[str, str] | None = None,
    ) -> None:
        self.wishes, self.home, self.store, self.what, self.say = tuple(wishes), home, store, what, say
        self.address, self.check = address, check
        self._shares = dict(shares or {})  # of an earlier part of the run, too
        self._held: dict[str, ExitStack] = {}
        self._wish: dict[str, Wish] = {}
        self._source: dict[str, str] = {}
        self._out: dict[str, tuple[float, bool]] = {}

    def __enter__(self) -> Crew:
        if self.address:
            places.use(self.address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in tuple(self._held):
            self._give_back(name)

    def group(self, board: str) -> str:
        """What boards that share their blocks have in common; a board's own name where it shares with none."""
        return self._shares.get(board, board)

    def members(self, group: str) -> tuple[str, ...]:
        """The boards of a group, those that took part in an earlier part of the run too."""
        return tuple({name: None for name, one in self._shares.items() if one == group} | {group: None})

    @property
    def shares(self) -> Mapping[str, str]:
        """The group of every board that took part."""
        return dict(self._shares)

    def gather(self, wait_s: float = 0.0) -> list[BoardEnv]:
        """Take the boards that were asked for, all of them or none, waiting up to `wait_s` seconds until they are free.

        Raises UserError for boards and tags that are wrong, BoardError naming who holds a board.
        """
        end, said = time.monotonic() + wait_s, ""
        try:
            while (problem := self._take_all(queue=wait_s > 0)) is not None:
                if time.monotonic() > end:
                    raise problem
                if (text := str(problem)) != said:
                    self.say(f"waits: {text}")
                    said = text
                time.sleep(min(_ASK_EVERY_S, max(0.0, end - time.monotonic())))
        finally:
            if self.address and wait_s > 0:
                places.leave_queues(self.address, [one.place for one in self._envs(self._held) if one.place])
        return self._envs(self._held)

    def _take_all(self, *, queue: bool) -> BoardError | None:
        """One try; on failure nothing is held, and `queue` keeps this run's turn at places that others have."""
        known = choice.rows(self.wishes, self.home, self.address)
        problem: BoardError | None = None
        for wish in self.wishes:
            rows, lacking = choice.candidates(wish, known, self._held, check=self.check, more=queue)
            for row in rows:
                try:
                    self._take(row, wish, queue=queue)
                except BoardError as refused:
                    lacking = lacking or refused
            problem = problem or lacking
        if problem is not None:
            for name in tuple(self._held):
                self._give_back(name)
        return problem

    def _take(self, row: BoardRow, wish: Wish, *, queue: bool = False) -> None:
        self._source[row.name] = row.name if wish.tag else wish.text
        (env,) = self._envs([row.name])
        with ExitStack() as stack:
            stack.enter_context(busy.hold([env], self.home, self.what))
            if env.target == "remote":
                assert self.address is not None and env.place is not None, "choice.remote has looked"
                stack.enter_context(places.taken(self.address, (env.place,), queue=queue))
            self._held[env.name] = stack.pop_all()
        self._wish[env.name] = wish
        self._shares[env.name] = wish.group(row.name, row.tags, row.virtual)

    def _envs(self, names: Collection[str]) -> list[BoardEnv]:
        envs = fleet.load([self._source[name] for name in names], self.home)
        return choice.remote(envs) if self.address else envs

    def _give_back(self, name: str) -> None:
        self._held.pop(name).close()

    def leave(self, board: str, *, unwell: bool) -> None:
        """Give a board back while the run goes on; one that is `unwell` may come back when a check says that it is well."""
        if board in self._held:
            self._give_back(board)
        self._out[board] = (time.time(), unwell)

    def arrivals(self, groups: Collection[str]) -> list[BoardEnv]:
        """Boards of these groups that were asked for and that can be had now: they are taken. Nothing is raised."""
        waiting = [wish for wish in self.wishes if self._wants(wish)]
        found: list[BoardEnv] = []
        if not waiting:
            return found
        try:
            known = choice.rows(waiting, self.home, self.address)
            for wish, row in ((wish, row) for wish in waiting for row in known if wish.fits(row)):
                if (
                    self._wants(wish)
                    and row.state == "free"
                    and row.name not in self._held
                    and wish.group(row.name, row.tags, row.virtual) in groups
                    and self._well(row.name)
                ):
                    with suppress(BoardError):  # somebody was faster
                        self._take(row, wish)
                        found += self._envs([row.name])
        except FarmError:
            # an env file that is being edited, a coordinator that starts anew: the next look will tell
            return found
        return found

    def _wants(self, wish: Wish) -> bool:
        have = sum(self._wish[name] == wish for name in self._held)
        return wish.most is None or have < wish.most

    def _well(self, name: str) -> bool:
        """Whether a board may come back: it was never out, or a check has passed since it fell out as unwell."""
        if name not in self._out:
            return True
        at, unwell = self._out[name]
        last = self.store.health.last(name, 1)
        return unwell and bool(last) and last[0].ok and last[0].at > at
