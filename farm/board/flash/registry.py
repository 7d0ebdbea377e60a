"""From `flash:` of an env file to the method that does it."""

from __future__ import annotations

from farm.board.flash.method import FlashMethod
from farm.board.flash.netboot import NetbootMethod
from farm.board.flash.uboot_write import UBootWriteMethod
from farm.fleet.env import Flash, Netboot


def method(config: Flash) -> FlashMethod:
    """The flash method that the env's `flash.method` names."""
    if isinstance(config, Netboot):
        return NetbootMethod(config)
    return UBootWriteMethod(config)
