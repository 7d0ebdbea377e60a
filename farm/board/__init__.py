"""Boards through labgrid: the only package that imports labgrid drivers.

Env files name this package under `imports:`, so that labgrid finds the drivers and the strategy of farm.
"""

from farm.board.console import WatchedSerialDriver
from farm.board.strategy import FarmStrategy

__all__ = ["FarmStrategy", "WatchedSerialDriver"]
