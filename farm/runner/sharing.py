"""Who runs which block: equal boards share the blocks of a campaign, each block whole on one board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.schedule import MIN_BOOTS

WORTH = MIN_BOOTS // 2
"""Blocks, of two boots per variant, that a board has to get before its comparison can end in a verdict."""


class Pool:
    """The blocks of a campaign for boards that are equal; a board alone is a pool of its own.

    A block belongs to the board that took it until it is done or the board drops out, which gives it back whole. Boards
    take blocks one by one, and leave to others what these need for an equal share.
    """

    def __init__(
        self,
        blocks: Iterable[int],
        *,
        begun: Mapping[int, str] | None = None,
        had: Mapping[str, int] | None = None,
    ) -> None:
        """`blocks` are to be done. `begun` says which board has good boots of one of them on record, and `had` how many
        blocks a board has done already, where a run goes on."""
        self.left = list(blocks)
        self._begun = dict(begun or {})
        self._had = dict(had or {})
        self._held: dict[str, int] = {}
        self._live: set[str] = set()

    @property
    def over(self) -> bool:
        """Every block is done."""
        return not self.left and not self._held

    @property
    def live(self) -> frozenset[str]:
        """The boards that are at work or wait for a block."""
        return frozenset(self._live)

    def join(self, board: str) -> None:
        """This board takes part from now on, at whole blocks."""
        self._live.add(board)

    def welcomes(self) -> bool:
        """Whether one more board would help: with enough blocks for a verdict, or because nobody else is there."""
        return len(self.left) >= (WORTH if self._live else 1)

    def take(self, board: str) -> int | None:
        """The block that this board is to do now: the one that it holds, else a new one; None where there is none for it."""
        if board in self._held:
            return self._held[board]
        own = [block for block in self.left if self._begun.get(block) == board]
        if not own and not self._may(board):
            return None
        block = own[0] if own else min(self.left, key=lambda one: (self._begun.get(one) in self._live, one))
        self.left.remove(block)
        self._held[board] = block
        self._had[board] = self._had.get(board, 0) + 1
        return block

    def _may(self, board: str) -> bool:
        total = len(self.left) + sum(self._had.get(one, 0) for one in self._live)
        fair = total // len(self._live)
        kept = sum(max(0, fair - self._had.get(one, 0)) for one in self._live if one != board)
        return bool(self.left) and (self._had.get(board, 0) < fair or len(self.left) > kept)

    def done(self, board: str) -> None:
        """This board is through with the block that it holds."""
        self._held.pop(board)

    def drop(self, board: str) -> None:
        """This board is out; the block that it held is for others, whole."""
        self._live.discard(board)
        if (block := self._held.pop(board, None)) is not None:
            self.left.append(block)
            self.left.sort()
            self._begun[block] = board
            self._had[board] -= 1
