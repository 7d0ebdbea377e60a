"""What a controller gives a worker to do. Imports nothing of what drives a board: a controller has no use for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm.board import bundle as bundles
from farm.board.bundle import Bundle
from farm.board.flash.slots import Slots
from farm.campaign import Campaign, Variant
from farm.errors import UserError
from farm.fleet.env import BoardEnv, Rockusb, SdMux, UBootWrite
from farm.runner.parts import parts


@dataclass(frozen=True)
class Task:
    """What one worker has to do: the board, the campaign, and where logs go.

    `environ` are variables that labgrid and the env file need; a fork server has those of its start. With `check`
    the board is checked first, against `last`, the facts of the last check that it passed. With `regain` the board's
    place is given back and taken anew first, which gets it a fresh serial line.
    """

    run_id: str
    board: BoardEnv
    campaign: Campaign
    logs: Path
    bundles: Mapping[str, Bundle]
    environ: Mapping[str, str] = field(default_factory=dict)
    check: bool = False
    last: Mapping[str, Any] | None = None
    regain: bool = False


def make_bundle(board: BoardEnv, campaign: Campaign, variant: Variant, work: Path) -> Bundle:
    """The files of a variant for a board, see `parts`. Raises UserError."""
    beside = campaign.source.parent
    files = {part: board.image(name, beside=beside) for part, name in parts(board, variant).items()}
    made = bundles.make(
        kernel=files["kernel"],
        initrd=files.get("initrd"),
        dtb=files.get("dtb"),
        modules=files.get("modules"),
        args=" ".join(part for part in (board.farm.args, variant.args) if part),
        work=work,
        modules_in_initrd=board.farm.modules == "cpio",
    )
    if isinstance(flash := board.farm.flash, UBootWrite | Rockusb | SdMux):
        try:
            Slots(flash).check(made)
        except UserError as problem:
            raise UserError(problem.message, file=board.path, key=f"farm.{problem.key}") from None
    return made
