"""Flash tools of the host: run with a deadline, so that a USB device that hangs costs a boot and not the run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labgrid.exceptions import NoResourceFoundError
from labgrid.util.managedfile import ManagedFile

from farm.board.flash.method import Ports
from farm.board.flash.uboot import command, error
from farm.errors import BoardError, UserError


def need(driver: Any, what: str) -> Any:
    """The driver or resource that a method works with. Raises UserError where the env has none."""
    if driver is None:
        raise UserError(f"this flash method needs {what} in the env file", key="targets.main")
    return driver


def there(path: Path, resource: Any) -> str:
    """A file's path on the host that the resource is plugged into; it is copied there if that is another one."""
    file = ManagedFile(str(path), resource)
    file.sync_to_resource()
    return str(file.get_remote_path())


def run(ports: Ports, argv: Sequence[str], deadline_s: float) -> bytes:
    """Standard output of a host's tool. Raises BoardError with its last words where it fails or does not end."""
    name = next((word for word in argv if not word.startswith("-")), "tool")
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=deadline_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise error(ports, f"{' '.join(argv)} did not end within {deadline_s:.0f} s") from None
    except OSError as problem:
        raise UserError(f"{name} cannot be run ({problem.strerror}); install it on this machine") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        # fastboot's last line only says that it failed; the one before says why
        words = " / ".join(said[-2:]) or "nothing"
        raise error(ports, f"{' '.join(argv)} failed ({done.returncode}), saying {words!r}")
    return done.stdout


def enter(ports: Ports, commands: Sequence[str]) -> None:
    """Have U-Boot become a device of the host's: its last command stays, so no prompt is waited for."""
    if not commands:
        return
    *first, last = commands
    for text in first:
        command(ports, text, 30)
    ports.console.sendline(last)


def appear(ports: Ports, driver: Any, probe: Callable[[], Sequence[str]], seconds: float = 30.0) -> None:
    """Wait until a board that became a USB device is seen by labgrid, and a command of its tool answers.

    Raises BoardError when it does not within `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            ports.activate(driver)
            run(ports, probe(), 10)
            return
        except (BoardError, NoResourceFoundError) as problem:
            if time.monotonic() > end:
                reason = getattr(problem, "reason", "labgrid sees no such USB device")
                raise error(ports, f"the board did not appear within {seconds:.0f} s: {reason}") from None
            time.sleep(0.5)
