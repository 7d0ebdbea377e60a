"""off -> bootloader -> flashed -> shell, for labgrid-client, pytest and farm's own runs alike."""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import Any

import attr
from labgrid.factory import target_factory
from labgrid.strategy import Strategy, StrategyError, never_retry
from pexpect import TIMEOUT

from farm.board import bundle as bundles
from farm.board import power as power_switch
from farm.board.bundle import Bundle
from farm.board.console import WatchedSerialDriver
from farm.board.flash.method import FlashMethod, FlashReport, Ports
from farm.board.flash.registry import method
from farm.errors import BoardError, FarmError, UserError
from farm.fleet import env as envs
from farm.paths import home


class Status(enum.Enum):
    """States of a board, in the order in which they are reached."""

    unknown = 0
    off = 1
    bootloader = 2
    flashed = 3
    shell = 4


@target_factory.reg_driver
@attr.s(eq=False)
class FarmStrategy(Strategy):  # type: ignore[misc]
    """labgrid strategy of farm boards.

    `bundle` is what `flashed` puts onto the board; without one it is the env's golden image. Every transition
    starts from power off where that is the only way to be sure of the state; asking for the state that holds
    does nothing.
    """

    bindings = {  # noqa: RUF012 - labgrid's way to declare them
        "power": "PowerProtocol",
        "console": "WatchedSerialDriver",
        "uboot": {"UBootDriver", None},
        "shell": "ShellDriver",
        "ssh": {"SSHDriver", None},
        "tftp": {"TFTPProviderDriver", None},
        "fastboot": {"AndroidFastbootDriver", None},
        "rockusb": {"RKUSBDriver", None},
        "mux": {"USBSDMuxDriver", None},
        "storage": {"USBStorageDriver", None},
    }

    status: Status = attr.ib(default=Status.unknown)
    broken: BaseException | None  # labgrid's: what a transition ended with

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        known = getattr(self.target.env, "farm_board", None)
        self.board: envs.BoardEnv = known or envs.load(self.target.env.config.filename)
        self.block = self.board.farm
        self.method = method(self.block.flash)
        self.bundle: Bundle | None = None
        self.report: FlashReport | None = None
        self.timings: dict[str, float] = {}
        self.lives = 0  # how often power was switched on: what tells one boot from the next

    @property
    def _ports(self) -> Ports:
        if self.tftp is not None:
            self.target.activate(self.tftp)
        return Ports(
            self.uboot,
            self.tftp,
            self.console,
            self.fastboot,
            self.rockusb,
            self.mux,
            self.storage,
            self.target.activate,
            self.shell,
            self._golden_shell,
        )

    @property
    def watched(self) -> WatchedSerialDriver:
        """The console driver, whose `watch` keeps the last lines."""
        console: WatchedSerialDriver = self.console
        return console

    def golden(self) -> Bundle:
        """The env's golden image as a bundle."""
        golden = self.block.golden
        return bundles.make(
            kernel=self.board.image(golden.kernel),
            initrd=self.board.image(golden.initrd) if golden.initrd else None,
            dtb=self.board.image(golden.dtb) if golden.dtb else None,
            modules=self.board.image(golden.modules) if golden.modules else None,
            args=self.block.args,
            work=home() / "bundles",
            modules_in_initrd=self.block.modules == "cpio",
        )

    @never_retry  # type: ignore[untyped-decorator]
    def transition(self, status: Status | str) -> None:
        """Bring the board into a state. Raises StrategyError from the BoardError that says what went wrong."""
        if not isinstance(status, Status):
            if status not in Status.__members__ or status == "unknown":
                raise StrategyError(f"no such state: {status}; there are off, bootloader, flashed and shell")
            status = Status[status]
        self._go(status)

    def _go(self, status: Status) -> None:
        if status is self.status:
            return
        began = time.monotonic()
        if status is Status.off:
            self._off()
        elif status is Status.bootloader:
            self._go(Status.off)
            began = time.monotonic()
            self._on()
        elif status is Status.flashed:
            self._go(Status[self.method.begins])
            began = time.monotonic()
            self._flash()
        else:
            self._go(Status.flashed)
            began = time.monotonic()
            self._boot()
        self.timings[status.name] = time.monotonic() - began
        self.status = status

    @never_retry  # type: ignore[untyped-decorator]
    def force(self, status: Status | str) -> None:
        """Believe that the board is in a state, without doing anything but activating its drivers."""
        status = status if isinstance(status, Status) else Status[status]
        self.target.activate(self.power)
        if status in (Status.bootloader, Status.flashed):
            self.target.activate(self.uboot)
        elif status is Status.shell:
            self.target.activate(self.shell)
        self.status = status

    def recover(self) -> None:
        """After an error: forget it, and switch the board off. Raises BoardError where even that fails."""
        self.broken = None
        self.status = Status.unknown
        self._go(Status.off)

    def _off(self) -> None:
        # ssh is active only where a user's test has activated it
        for driver in (self.ssh, self.shell, self.uboot, self.console):
            if driver is not None:
                self.target.deactivate(driver)
        self.target.activate(self.power)
        power_switch.switch(self.power, False, self.block.deadlines.power)
        self.status = Status.off

    def _on(self) -> None:
        time.sleep(self.block.off_seconds)
        # before power, or the first bytes are lost
        try:
            self.target.activate(self.console)
        except Exception as problem:  # pyserial raises several kinds
            raise BoardError(f"the console cannot be opened: {problem}", step="console") from problem
        self.console.watch.forget()
        self.lives += 1
        power_switch.switch(self.power, True, self.block.deadlines.power)
        if self.uboot is not None:
            self._wait("bootloader", self.uboot)

    def _flash(self) -> None:
        if self.bundle is None:
            self.bundle = self.golden()
        self.report = self.method.flash(self._ports, self.bundle, self.block.deadlines.flash)
        if self.report.written and self.method.needs_power_cycle:
            self._off()
            self._on()
        elif self.method.begins == "off":
            self._on()

    def _golden_shell(self, method: FlashMethod) -> tuple[int, Any]:
        golden = self.golden()
        report = method.flash(self._ports, golden, self.block.deadlines.flash)
        if report.written and method.needs_power_cycle:
            self._off()
            self._on()
        method.boot(self._ports, golden)
        if self.uboot is not None:
            self.target.deactivate(self.uboot)
        self._wait("boot", self.shell)
        return report.written, self.shell

    def _boot(self) -> None:
        assert self.bundle is not None
        self.method.boot(self._ports, self.bundle)
        for driver in (self.uboot, self.shell):  # kexec comes from a shell
            if driver is not None:
                self.target.deactivate(driver)
        self._wait("boot", self.shell)
        self.console.watch.expect_restart = False

    def _wait(self, step: str, driver: Any) -> None:
        limit = getattr(self.block.deadlines, step)
        driver.login_timeout = max(1, round(limit))
        try:
            self.target.activate(driver)
        except TIMEOUT:
            raise self._error(step, f"no prompt within {limit:.0f} s") from None

    def _error(self, step: str, reason: str) -> BoardError:
        watch = self.console.watch
        return BoardError(reason, step=step, tail=tuple(watch.tail)[-10:], log=watch.log_path)


def cause(problem: BaseException) -> BaseException:
    """The error that broke a strategy: what stands behind labgrid's StrategyError wrappers."""
    while isinstance(problem, StrategyError) and problem.__cause__ is not None:
        problem = problem.__cause__
    return problem


def explain(problem: BaseException, board: str, log: Path | None) -> FarmError:
    """An error of ours for whatever a board raised, with the board's name on it."""
    found = cause(problem)
    if isinstance(found, UserError):
        return found
    if isinstance(found, BoardError):
        return BoardError(
            found.reason, board=board, step=found.step, tail=found.tail[-10:], log=found.log or log
        )
    return BoardError(f"{type(found).__name__}: {found}", board=board, step="labgrid", log=log)
