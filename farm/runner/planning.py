"""The plan of a run: what `farm.plan` has to know of each board, from its env and its images."""

from __future__ import annotations

from collections.abc import Sequence

from farm.campaign import Campaign, Variant
from farm.errors import UserError
from farm.fleet.env import Area, BoardEnv, UBootWrite
from farm.plan import BoardFacts, Plan, ScratchArea, plan


def plan_run(campaign: Campaign, boards: Sequence[BoardEnv], seed: int) -> Plan:
    """What the run would do. Images that are not built yet count as 0 bytes; nothing is touched. Raises UserError."""
    return plan(campaign, [_facts(campaign, board) for board in boards], seed=seed)


def _facts(campaign: Campaign, board: BoardEnv) -> BoardFacts:
    block = board.farm
    flash = block.flash
    writes = isinstance(flash, UBootWrite)
    device = f"{flash.interface} {flash.device}" if isinstance(flash, UBootWrite) else ""
    return BoardFacts(
        name=board.name,
        disk=f"{block.disk.type} behind {block.disk.controller}",
        raw=_area("raw", block.scratch.raw),
        files=_area("files", block.scratch.files),
        boot_s=block.boot_seconds,
        flash_method=flash.method,
        flash_device=device,
        flash_bytes={
            name: _size(campaign, board, one) if writes else 0 for name, one in campaign.variants.items()
        },
        write_rate=block.write_rate,
        alone=block.measure_alone,
    )


def _area(name: str, area: Area | None) -> ScratchArea | None:
    if area is None:
        return None
    where = "the whole disk" if area.partition is None else f"partition {area.partition}"
    return ScratchArea(f"scratch.{name} ({where})", area.size)


def _size(campaign: Campaign, board: BoardEnv, variant: Variant) -> int:
    golden, total = board.farm.golden, 0
    own_kernel = variant.kernel is not None and variant.kernel != golden.kernel
    for name in (
        variant.kernel or golden.kernel,
        variant.initrd or golden.initrd,
        variant.dtb or golden.dtb,
        variant.modules or (None if own_kernel else golden.modules),
    ):
        if name is not None:
            try:
                total += board.image(name, beside=campaign.source.parent).stat().st_size
            except UserError:
                if board.farm.virtual is None:
                    raise
    return total
