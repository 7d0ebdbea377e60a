"""From `flash:` of an env file to the method that does it."""

from __future__ import annotations

from farm.board.flash.fastboot import FastbootMethod
from farm.board.flash.kexec import KexecMethod
from farm.board.flash.method import FlashMethod
from farm.board.flash.netboot import NetbootMethod
from farm.board.flash.rockusb import RockusbMethod
from farm.board.flash.sdmux import SdMuxMethod
from farm.board.flash.uboot_write import UBootWriteMethod
from farm.fleet.env import Fastboot, Flash, Kexec, Netboot, Rockusb, SdMux


def method(config: Flash) -> FlashMethod:
    """The flash method that the env's `flash.method` names."""
    if isinstance(config, Netboot):
        return NetbootMethod(config)
    if isinstance(config, Fastboot):
        return FastbootMethod(config)
    if isinstance(config, Rockusb):
        return RockusbMethod(config)
    if isinstance(config, SdMux):
        return SdMuxMethod(config)
    if isinstance(config, Kexec):
        return KexecMethod(config, method(config.under))
    return UBootWriteMethod(config)
