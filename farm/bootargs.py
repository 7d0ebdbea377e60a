"""Kernel arguments that U-Boot's shell passes on as they are."""

from __future__ import annotations

import re

# U-Boot's shell takes these from a command line before the kernel sees them (its `setenv bootargs ...`).
_SIGNS = re.compile(r"[$;\"'`\\&|]")
# U-Boot's line buffer (CONFIG_SYS_CBSIZE) is 1024 and less on many boards, and an env's arguments stand before a variant's.
_MOST = 512


def checked(args: str) -> str:
    """The arguments without space around them. Raises ValueError for what would not arrive as it is written."""
    if found := _SIGNS.search(args):
        raise ValueError(f"kernel arguments hold {found[0]} which U-Boot's shell would take; remove it")
    if not args.isascii() or not args.isprintable():
        raise ValueError("kernel arguments have to be one line of plain ASCII; remove other characters")
    if len(args) > _MOST:
        raise ValueError(f"kernel arguments are longer than the {_MOST} characters that U-Boot takes")
    return args.strip()
