"""Ports of servers that farm starts on this host."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port on loopback that the kernel chose and nobody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
