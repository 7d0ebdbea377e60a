"""The plan of a run: what `farm.plan` has to know of each board, from its env and its images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farm.board.kernel_image import banner
from farm.campaign import Campaign, Variant
from farm.errors import UserError
from farm.fleet import env
from farm.fleet.choice import Wish
from farm.fleet.env import Area, BoardEnv, Fastboot, Flash, Kexec, Netboot
from farm.plan import BoardFacts, Plan, ScratchArea, plan
from farm.runner.parts import parts

if TYPE_CHECKING:
    from farm.analysis.noise import Calibrations


def check_boards(campaign: Campaign) -> None:
    """Raise UserError, pointing into the campaign, for a board that has no env file; tags are looked up later."""
    for number, name in enumerate(campaign.boards):
        if Wish(name).tag:
            continue
        try:
            env.find(name)
        except UserError as problem:
            raise campaign.complain(str(problem), "boards", number) from None


def plan_run(
    campaign: Campaign,
    boards: Sequence[BoardEnv],
    seed: int,
    calibrations: Calibrations | None = None,
    shares: Mapping[str, str] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """What the run would do, with what calibrations tell of it. `shares` has the group of equal boards that each is in,
    `facts` what each said of itself when it last was well.

    Images that are listed but not there yet count as 0 bytes, see `missing`.

    Raises UserError, also for kernels that are there and are none.
    """
    for board in boards:
        for variant in campaign.variants.values():
            _check_kernel(campaign, board, variant)
    groups = shares or {}
    said = facts or {}
    known = [
        _facts(campaign, board, groups.get(board.name, board.name), said.get(board.name, {}))
        for board in boards
    ]
    return plan(campaign, known, seed=seed, calibrations=calibrations)


def _facts(campaign: Campaign, board: BoardEnv, group: str, said: Mapping[str, Any]) -> BoardFacts:
    block = board.farm
    flash = block.flash
    writes = not isinstance(flash, (Netboot, Kexec))
    return BoardFacts(
        name=board.name,
        disk=f"{block.disk.type} behind {block.disk.controller}",
        raw=_area("raw", block.scratch.raw),
        files=_area("files", block.scratch.files),
        boot_s=block.boot_seconds,
        flash_method=flash.method,
        flash_device=_device(flash),
        flash_bytes={
            name: _size(campaign, board, one) if writes else 0 for name, one in campaign.variants.items()
        },
        write_rate=block.write_rate,
        alone=block.measure_alone,
        at_once=block.at_once,
        group=group,
        facts=said,
    )


def _device(flash: Flash) -> str:
    if isinstance(flash, (Netboot, Kexec)):
        return ""
    if isinstance(flash, Fastboot):
        return f"partitions {', '.join(flash.partitions.values())}"
    return f"{flash.interface} {flash.device}"


def _area(name: str, area: Area | None) -> ScratchArea | None:
    if area is None:
        return None
    where = "the whole disk" if area.partition is None else f"partition {area.partition}"
    return ScratchArea(f"scratch.{name} ({where})", area.size)


def images_of(campaign: Campaign, board: BoardEnv) -> set[str]:
    """Names of the images, or paths, that the campaign boots on this board."""
    return {name for variant in campaign.variants.values() for name in parts(board, variant).values()}


def missing(campaign: Campaign, boards: Sequence[BoardEnv]) -> list[str]:
    """One sentence per image of a real board that its env lists and that is not there; plans count it as 0 bytes."""
    found = {
        f"{board.name}: image {name} is not there yet, its size counts as 0: {problem.message}"
        for board in boards
        if board.farm.virtual is None
        for name in images_of(campaign, board)
        if (problem := _look(campaign, board, name)) is not None
    }
    return sorted(found)


def _check_kernel(campaign: Campaign, board: BoardEnv, variant: Variant) -> None:
    name = parts(board, variant)["kernel"]
    if _look(campaign, board, name) is not None:
        return
    try:
        banner(board.image(name, beside=campaign.source.parent))
    except UserError as problem:
        if variant.kernel:
            raise campaign.complain(str(problem), "variants", variant.name, "kernel") from None
        raise UserError(str(problem), file=board.path, key="farm.golden.kernel") from None


def _look(campaign: Campaign, board: BoardEnv, name: str) -> UserError | None:
    try:
        board.image(name, beside=campaign.source.parent)
    except UserError as problem:
        return problem
    return None


def _size(campaign: Campaign, board: BoardEnv, variant: Variant) -> int:
    total = 0
    for part, name in parts(board, variant).items():
        problem = _look(campaign, board, name)
        if problem is None:
            total += board.image(name, beside=campaign.source.parent).stat().st_size
        elif name not in board.images:
            if getattr(variant, part) == name:
                raise campaign.complain(problem.message, "variants", variant.name, part)
            raise UserError(problem.message, file=board.path, key="farm.golden")
    return total
