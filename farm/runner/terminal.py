"""`farm console`: a person at a board's serial line."""

from __future__ import annotations

import os
import sys

from farm.errors import UserError
from farm.fleet.env import BoardEnv


def attach(board: BoardEnv) -> None:
    """Become pyserial's miniterm on the board's port; does not return. Raises UserError where there is none."""
    from labgrid import Environment
    from labgrid.resource import NetworkSerialPort, SerialPort

    if not sys.stdin.isatty():
        raise UserError("a console needs a terminal; run farm console from one")
    target = Environment(str(board.path)).get_target("main")
    for resource in target.resources:
        if isinstance(resource, SerialPort):
            url, speed = resource.port, resource.speed
        elif isinstance(resource, NetworkSerialPort):
            url, speed = f"rfc2217://{resource.host}:{resource.port}", resource.speed
        else:
            continue
        words = [sys.executable, "-m", "serial.tools.miniterm", "--raw", "--eol", "CR", str(url), str(speed)]
        os.execv(sys.executable, words)  # noqa: S606 - no shell is meant
    raise UserError("has no serial port", file=board.path, key="targets.main.resources")
