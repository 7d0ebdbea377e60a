"""labgrid's coordinator and exporter for the virtual lab, from outside: up, down, and where it listens."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from farm.errors import BoardError
from farm.fleet import boards, keeper, places
from farm.fleet.env import folders
from farm.virtual import lab
from farm.virtual.state import start_time

_START_S = 30.0
_END_S = 20.0


def running(home: Path) -> str | None:
    """HOST:PORT of the coordinator that runs in `home`, or None."""
    found = _state(home)
    return found[1] if found else None


def _state(home: Path) -> tuple[int, str, str] | None:
    """Process id of the keeper that runs, the coordinator's address, and the power switch that its exporter knows."""
    try:
        fields = json.loads((keeper.directory(home) / keeper.STATE_FILE).read_text())
        pid, started, address = int(fields["pid"]), int(fields["started"]), str(fields["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (pid, address, str(fields.get("pdu", ""))) if start_time(pid) == started else None


def lab_file(name: str) -> Path:
    """A file of `envs/lab/`, here or beside this package. Raises BoardError where there is none."""
    for folder in folders():
        if (path := folder / "lab" / name).is_file():
            return path.absolute()
    raise BoardError(f"envs/lab/{name} is missing; run farm in its checkout", step="coordinator")


def up(home: Path) -> str:
    """Have coordinator and exporter for the virtual lab that runs in `home`, with the places of envs/lab/.

    Returns HOST:PORT; one that runs is used. Raises BoardError for what this machine lacks or refuses.
    """
    variables = lab.environment(home)  # the lab first: the exporter has to know its power switch
    for name, package in (
        ("ser2net", "ser2net"),
        ("setpriv", "util-linux"),
        ("labgrid-coordinator", "python3-venv, then make demo"),
        ("labgrid-exporter", "python3-venv, then make demo"),
    ):
        if keeper.program(name) is None:
            raise BoardError(f"{name} is missing on this machine; install {package}", step="coordinator")
    known = [board for board in boards.virtual(home) if board.place]
    tags = {board.place: board.farm.tags for board in known}
    declared = places.read(lab_file("places.yaml"))
    wanted = {name: one.tagged(tags.get(name, {})) for name, one in declared.items()}
    work = keeper.directory(home)
    work.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: one.model_dump() for name, one in wanted.items()})
    (work / keeper.PLACES_FILE).write_text(text)
    found = _state(home)
    if found is not None and found[2] != variables["LG_VIRTUAL_PDU"]:
        down(home)  # the lab was started anew since, and its power switch listens elsewhere
        found = None
    address = found[1] if found else _start(home, variables)
    places.ensure(address, wanted)
    running_boards = {board.name for board in lab.status(home)}
    _await_exporter(
        address,
        {board.place for board in known if board.place in wanted and board.name in running_boards},
        work,
    )
    return address


def _await_exporter(address: str, names: Collection[str | None], work: Path) -> None:
    """Wait until these places can be had: an exporter tells what it has some seconds after its coordinator is there."""
    deadline = time.monotonic() + _START_S
    while True:
        there = {name for name, place in places.seen(address).items() if place.resources}
        if not (lacking := sorted(set(filter(None, names)) - there)):
            return
        if time.monotonic() > deadline:
            raise BoardError(
                f"labgrid-exporter does not serve {lacking[0]} within {_START_S:.0f} s",
                step="coordinator",
                log=work / keeper.LOG_FILE,
            )
        time.sleep(0.2)


def _start(home: Path, variables: dict[str, str]) -> str:
    work = keeper.directory(home)
    process = subprocess.Popen(
        [sys.executable, "-m", "farm.fleet.keeper", str(home.absolute()), str(lab_file("exporter.yaml"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **variables},
    )
    assert process.stdout is not None
    said = ""
    with process.stdout as output:
        if select.select([output], [], [], _START_S)[0]:
            said = output.readline().decode(errors="replace").strip()
    process.wait()
    deadline = time.monotonic() + _START_S
    while said == "ready" and time.monotonic() < deadline:
        if address := running(home):
            return address
        time.sleep(0.05)
    raise BoardError(said or "the coordinator did not start", step="coordinator", log=work / keeper.LOG_FILE)


def down(home: Path) -> bool:
    """End coordinator and exporter; places stay. False if none ran. Raises BoardError if they will not end."""
    found = _state(home)
    if found is None:
        return False
    pid = found[0]
    started = start_time(pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            if start_time(pid) != started:
                return True
            time.sleep(0.05)
    raise BoardError(f"the coordinator's keeper, process {pid}, cannot be ended", step="coordinator")
