"""Stop when settled: after whole blocks, is there anything on a board that more boots could still decide?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farm.campaign import Campaign
from farm.runner.messages import Message, Settled
from farm.schedule import PlannedBoot, by_block
from farm.store.db import Store


class Looks:
    """The looks of one run, which are fixed in advance: after the campaign's least boots, and after each block from there.

    A look judges the bandwidths of a board as every report does, at the error rate of one look. It is made where every
    boot of the board belongs to a whole block, so that it sees the same boots whenever it is made again after a crash.
    That a board stopped is written into the run's settings, `settled`: board -> boots per variant.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        campaign: Campaign,
        planned: Sequence[PlannedBoot],
        tell: Callable[[Message], None],
    ) -> None:
        self._store, self._run_id, self._campaign, self._tell = store, run_id, campaign, tell
        self._blocks = by_block(planned)

    def settled(self, board: str) -> bool:
        """Whether this board is through before its last block. Looks, if it is time to. Raises StoreError."""
        if self._campaign.looks == 1:
            return False
        run = self._store.run(self._run_id)
        stopped: Mapping[str, Any] = run.settings.get("settled", {})
        if board in stopped:
            return True
        boots = self._store.boots(self._run_id, board=board)
        whole = self._whole({boot.index for boot in boots if boot.status != "failed"})
        torn = any(boot.block not in whole for boot in boots)
        per_variant = 2 * len(whole)
        if torn or not self._campaign.least_boots <= per_variant < self._campaign.boots:
            return False
        # numpy is for campaigns that look: a controller of many boards does without it otherwise
        from farm.analysis.compare import settled
        from farm.report.verdicts import BANDWIDTH, judge

        of = self._campaign
        judged = judge(self._store, run, boots, BANDWIDTH, baseline=of.baseline, bands=of.own_bands)
        verdicts = [verdict for one in judged for verdict in one.verdicts.values()]
        if not verdicts or not settled(verdicts):
            return False
        settings = {**run.settings, "settled": {**stopped, board: per_variant}}
        self._store.set_settings(self._run_id, settings)
        self._tell(Settled(board, per_variant, self._campaign.boots))
        return True

    def _whole(self, through: set[int]) -> set[int]:
        return {block for block, indexes in self._blocks.items() if indexes <= through}
