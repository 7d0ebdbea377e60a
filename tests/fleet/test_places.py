"""Places and locks on a real labgrid-coordinator with a real labgrid-exporter; faults are signals from outside."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.errors import BoardError
from farm.fleet import coordinator, places
from farm.fleet.keeper import directory
from tests.lab import BOARD, ROOT, LabHome, alive, children, environment, wait_for

pytestmark = pytest.mark.lab
SERIAL = f"farm-virtual/{BOARD}/NetworkSerialPort/RawSerialPort"
HOLD = "import sys, time; from farm.fleet import places; places.acquire(sys.argv[1], (sys.argv[2],)); print('held', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def address(lab_home: LabHome) -> Iterator[str]:
    lab_home.farm("coordinator", "up")
    yield coordinator.running(lab_home.path) or ""
    lab_home.farm("coordinator", "down")
    assert coordinator.running(lab_home.path) is None


def served(address: str) -> bool:
    try:
        return SERIAL in places.seen(address)[BOARD].resources
    except (BoardError, KeyError):
        return False


def labgrid(address: str, *words: str, env: dict[str, str] | None = None) -> str:
    """labgrid's own client, as a person called alice."""
    argv = [str(Path(sys.executable).parent / "labgrid-client"), "-x", address, *words]
    env = {**os.environ, "LG_USERNAME": "alice", **(env or {})}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=30).stdout


def token(address: str, owner: str = "") -> str:
    """The reservation of an owner, by its token."""
    found = re.findall(r"Reservation '(\w+)':\s+owner: (\S+)", labgrid(address, "reservations"))
    (one,) = [name for name, whose in found if owner in whose]
    return one


def processes(home: LabHome) -> dict[str, int]:
    """Of the home's keeper: its own pid and those of what it keeps, by program."""
    keeper = json.loads((directory(home.path) / "coordinator.json").read_text())["pid"]
    found = {"keeper": keeper}
    for pid in children(keeper):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        for name in ("labgrid-coordinator", "labgrid-exporter", "ser2net"):
            if any(word.endswith(name) for word in words[:2]):
                found[name] = pid
    return found


def test_places_of_the_lab_have_their_tags_and_what_the_exporter_serves(address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    place = places.seen(address)[BOARD]
    assert place.tags == {"board": "rk3568", "arch": "arm64", "lab": "virtual"}
    assert place.resources == {SERIAL, f"farm-virtual/{BOARD}/NetworkPowerPort/NetworkPowerPort"}
    assert place.holder == ""
    assert BOARD in labgrid(address, "places")


def test_a_second_up_uses_the_coordinator_that_runs(lab_home: LabHome, address: str) -> None:
    assert address in lab_home.farm("coordinator", "up").stdout


def test_a_lock_of_a_living_process_holds_and_that_of_a_dead_one_is_reaped(address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    argv = [sys.executable, "-c", HOLD, address, BOARD]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(BoardError, match=rf"{BOARD}: acquire: is held by \S+/farm-\S+-{holder.pid}-"):
                places.acquire(address, (BOARD,))
        finally:
            holder.kill()
    assert str(holder.pid) in labgrid(address, "reservations"), "what is booked outlives its owner as well"
    places.acquire(address, (BOARD,))
    assert places.seen(address)[BOARD].holder == places.owner()
    assert f"-{holder.pid}-" not in labgrid(address, "reservations")
    places.release(address, (BOARD,))
    assert places.seen(address)[BOARD].holder == ""
    assert "owner" not in labgrid(address, "reservations"), "nothing stays booked"


def test_a_controller_of_another_host_is_left_alone_dead_or_alive(address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    env = {**os.environ, "LG_HOSTNAME": "elsewhere"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, address, BOARD], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
        finally:
            other.kill()
    holder = places.seen(address)[BOARD].holder
    assert re.fullmatch(rf"elsewhere/farm-\w+-\d+-{other.pid}-\d+", holder)
    with pytest.raises(BoardError, match=rf"{BOARD}: acquire: is held by {holder}"):
        places.acquire(address, (BOARD,))
    places.release(address, (BOARD,))
    assert places.seen(address)[BOARD].holder == holder
    host, user = holder.split("/")
    labgrid(address, "-p", BOARD, "release", env={"LG_HOSTNAME": host, "LG_USERNAME": user})
    labgrid(address, "cancel-reservation", token(address), env={"LG_HOSTNAME": host, "LG_USERNAME": user})


def test_what_a_person_reserved_is_not_ours_and_who_queues_is_next(address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    labgrid(address, "reserve", f"name={BOARD}")
    with pytest.raises(BoardError, match=r"is held by \S+/alice"):
        places.acquire(address, (BOARD,))
    labgrid(address, "-p", BOARD, "acquire")
    with pytest.raises(BoardError, match=r"is held by \S+/alice"):
        places.acquire(address, (BOARD,), queue=True)
    labgrid(address, "cancel-reservation", token(address, "/alice"))
    labgrid(address, "-p", BOARD, "release")
    assert places.seen(address)[BOARD].holder == places.owner(), "kept for who waited"
    with pytest.raises(subprocess.CalledProcessError):
        labgrid(address, "-p", BOARD, "acquire")
    places.acquire(address, (BOARD,), queue=True)
    places.release(address, (BOARD,))
    assert places.seen(address)[BOARD].holder == ""


def test_all_places_or_none(address: str) -> None:
    with pytest.raises(BoardError, match="no place nowhere"):
        places.acquire(address, (BOARD, "nowhere"))
    assert places.seen(address)[BOARD].holder == ""


def test_a_persons_lock_is_never_reaped_nor_given_back(address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    labgrid(address, "-p", BOARD, "acquire")
    try:
        with pytest.raises(BoardError, match=r"is held by \S+/alice"):
            places.acquire(address, (BOARD,))
        places.release(address, (BOARD,))
        assert places.seen(address)[BOARD].holder.endswith("/alice")
    finally:
        labgrid(address, "-p", BOARD, "release")


@pytest.mark.parametrize(
    "change",
    [
        lambda host, boot, space, pid, start: f"elsewhere/farm-{boot}-{space}-{pid}-{start}",
        lambda host, boot, space, pid, start: f"{host}/farm-00000000-{space}-{pid}-{start}",
        lambda host, boot, space, pid, start: f"{host}/farm-{boot}-1-{pid}-{start}",
        lambda host, boot, space, pid, start: f"{host}/root",
        lambda host, boot, space, pid, start: "",
    ],
    ids=["other host", "earlier boot", "other container", "a person", "nobody"],
)
def test_holders_that_cannot_be_looked_at_are_not_called_gone(change) -> None:
    host, user = places.owner().split("/")
    assert host == socket.gethostname()
    _, boot, space, _, _ = user.split("-")
    assert places.gone(f"{host}/farm-{boot}-{space}-4194304-1")  # pid_max on 64-bit Linux: no such process
    assert not places.gone(change(host, boot, space, 4194304, 1))


def test_an_exporter_that_is_killed_takes_its_ser2net_along_and_comes_back(
    lab_home: LabHome, address: str
) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    places.acquire(address, (BOARD,))
    wait_for("ser2net runs", lambda: "ser2net" in processes(lab_home), 10)
    before = processes(lab_home)
    os.kill(before["labgrid-exporter"], signal.SIGKILL)
    wait_for("ser2net died too", lambda: not alive(before["ser2net"]), 5)
    wait_for(
        "a new exporter",
        lambda: processes(lab_home).get("labgrid-exporter", 0) not in (0, before["labgrid-exporter"]),
        10,
    )
    wait_for("the exporter serves", lambda: served(address), 20)
    places.release(address, (BOARD,))


def test_a_coordinator_that_is_killed_comes_back_with_its_places_and_without_locks(
    lab_home: LabHome, address: str
) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    places.acquire(address, (BOARD,))
    # it writes them down every 15 seconds only, so they may not be on the disk yet
    (directory(lab_home.path) / "places.yaml").unlink(missing_ok=True)
    os.kill(processes(lab_home)["labgrid-coordinator"], signal.SIGKILL)
    wait_for("the exporter serves", lambda: served(address), 40)
    assert places.seen(address)[BOARD].holder == ""
    places.acquire(address, (BOARD,))
    places.release(address, (BOARD,))


def test_nothing_outlives_a_keeper_that_is_killed(lab_home: LabHome, address: str) -> None:
    wait_for("the exporter serves", lambda: served(address), 20)
    there = processes(lab_home)
    os.kill(there["keeper"], signal.SIGKILL)
    wait_for("all gone", lambda: not [pid for pid in there.values() if alive(pid)], 10)
    assert coordinator.running(lab_home.path) is None
    lab_home.farm("coordinator", "up")


def test_a_lab_that_was_started_anew_gets_an_exporter_that_knows_its_power_switch(tmp_path: Path) -> None:
    home = LabHome(tmp_path, environment(tmp_path))
    try:
        switches = []
        for _ in range(2):
            home.farm("virtual", "up", BOARD)
            home.farm("coordinator", "up")
            address = coordinator.running(tmp_path) or ""
            wait_for("the exporter serves", lambda: served(address), 20)  # noqa: B023
            said = labgrid(address, "-v", "resources", f"farm-virtual/{BOARD}/NetworkPowerPort")
            switches.append(re.search(r"http://127\.0\.0\.1:\d+", said)[0])
            now = home.farm("virtual", "env").stdout
            assert switches[-1] in now
            home.farm("virtual", "down")
        assert switches[0] != switches[1]
    finally:
        home.farm("coordinator", "down")
        home.farm("virtual", "down")
