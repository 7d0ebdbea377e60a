"""From names of boards to their envs, with the virtual ones found wherever their lab put them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from farm.errors import BoardError, UserError
from farm.fleet import env
from farm.fleet.env import BoardEnv
from farm.virtual import images, lab
from farm.virtual.recipes import needed_by


def load(names: Iterable[str], home: Path) -> list[BoardEnv]:
    """The envs of these boards, validated; nothing is touched, and a virtual lab need not run.

    Raises UserError.
    """
    return [env.load(name, {**_defaults(home), **os.environ}) for name in names]


def _defaults(home: Path) -> dict[str, str]:
    """What `!template` gets where no lab runs: places that are right, and a switch that nobody answers."""
    try:
        return lab.environment(home)
    except BoardError:
        return {
            "LG_VIRTUAL_PDU": "http://127.0.0.1:9/no-virtual-lab",
            "LG_VIRTUAL_NET": "127.0.0",
            "LG_VIRTUAL_DIR": str(home / "virtual"),
            "LG_VIRTUAL_IMAGES": str(images.directory()),
        }


def ready(
    names: Iterable[str],
    home: Path,
    *,
    start: bool,
    say: Callable[[str], None],
    elsewhere: bool = False,
    previous: bool = False,
    used: Callable[[BoardEnv], Iterable[str]] | None = None,
) -> list[BoardEnv]:
    """The envs of these boards, with the virtual ones up; their variables are put into this process's environment.

    With `start` a lab is started and images are built where needed; without it a lab that does not run is a
    UserError that names the command. With `elsewhere` the lab may be another home's, behind a coordinator.
    `previous`: build kernels that a suite may drop any day, too. `used`, the images of a board that are needed: build no
    others.
    """
    names = list(names)
    found = load(names, home)
    virtual = {one.name: one.farm.virtual for one in found if one.farm.virtual is not None}
    if not virtual:
        return found
    if start:
        files = None
        if used is not None:
            files = {one.images.get(name, "") for one in found for name in (*used(one), *_golden(one))}
        images.ensure(needed_by(virtual.values(), previous=previous, files=files), say=say)
        os.environ.update(lab.up(virtual, home).environment())
    elif elsewhere and not lab.status(home):
        for name, value in _defaults(home).items():
            os.environ.setdefault(name, value)
    else:
        there = {board.name for board in lab.status(home)}
        if missing := sorted(set(virtual) - there):
            raise UserError(
                f"virtual board {missing[0]} is not up; start it with: farm virtual up {' '.join(missing)}"
            )
        os.environ.update(lab.environment(home))
    return load(names, home)


def _golden(board: BoardEnv) -> list[str]:
    golden = board.farm.golden
    return [name for name in (golden.kernel, golden.initrd, golden.dtb, golden.modules) if name]


def all_names() -> list[str]:
    """Names of all boards that have an env file here."""
    return sorted({path.stem for folder in env.folders() for path in folder.glob("*.yaml")})


def virtual(home: Path) -> list[BoardEnv]:
    """All virtual boards whose env files are right."""
    found = []
    for name in all_names():
        with contextlib.suppress(UserError):
            (board,) = load([name], home)
            if board.farm.virtual is not None:
                found.append(board)
    return found
