"""A virtual lab for tests: a home of its own, the images of the user's cache, `farm` run as a user runs it."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOARD = "virt-rk3568"


@dataclass(frozen=True)
class LabHome:
    """A FARM_HOME with its lab; `env` is the environment in which farm finds it, `cwd` where its `envs/` may be."""

    path: Path
    env: dict[str, str]
    cwd: Path = ROOT

    def farm(self, *words: str, check: bool = True, timeout: float = 400) -> subprocess.CompletedProcess[str]:
        """Run `farm` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "farm", *words],
            env=self.env,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, (
            f"farm {words} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `farm` and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "farm", *words],
            env=self.env,
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def rows(self, query: str, *values: object) -> list[tuple]:
        """Ask the database directly, without any code of farm."""
        with sqlite3.connect(f"file:{self.path / 'farm.db'}?mode=ro", uri=True, timeout=30) as db:
            return db.execute(query, values).fetchall()


@contextmanager
def lab_of(*boards: str, home: Path, cwd: Path = ROOT) -> Iterator[LabHome]:
    """A virtual lab of these boards below `home`, down again at the end."""
    lab = LabHome(home, environment(home), cwd)
    try:
        lab.farm("virtual", "up", *boards, timeout=900)
        yield lab
    finally:
        lab.farm("virtual", "down")


def in_real_time(name: str) -> str:
    """The env of the board by another name, whose clock is the host's, so that it costs no CPU while it waits.

    And so it need not wait for its turn.
    """
    text = (ROOT / "envs" / f"{BOARD}.yaml").read_text().replace(BOARD, name)
    changed, count = re.subn(r"^(    icount|  at_once): .*\n", "", text, flags=re.MULTILINE)
    assert count == 2
    return changed


def wait_for(what: str, condition: Callable[[], object], seconds: float) -> object:
    """Poll until the condition holds; fails with `what` otherwise."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


def children(pid: int) -> list[int]:
    """All living descendants of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(stat.parent.name)
            found += [child, *children(child)]
    return found


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def environment(home: Path) -> dict[str, str]:
    """The process environment with this FARM_HOME."""
    return {**os.environ, "FARM_HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1"}
