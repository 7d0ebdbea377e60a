"""A campaign whose batches go over SSH: a real server on a virtual board, which is missing, killed or silent at times.

The board is the usual one with dropbear in its initrd. One run meets all of it, since each boot is a power cycle; what is
done to it comes from outside, by QEMU's control socket and at the console, where nobody types while SSH has the batch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from farm.cpio import Cpio
from farm.virtual import images
from farm.virtual.machine import VirtualBoard
from farm.virtual.recipes import needed_by
from farm.virtual.userland import INIT, INITRD, UserlandRecipe, guest_file
from tests.lab import BOARD, LabHome, in_real_time, lab_of, wait_for
from tests.qmp import qmp

pytestmark = pytest.mark.lab

SECRET = "not-to-be-told-7d1f"
RUNTIME_S = 4  # longer than any pause that a busy machine makes
CAMPAIGN = f"""\
name: ssh
boards: [{BOARD}]
boots: 2
trials: 1
variants:
  with: {{baseline: true, args: sysrq_always_enabled}}
  without: {{args: no-ssh-server}}
workloads:
  - {{tool: fio, rw: randread, bs: 4k, size: 16M, runtime: {RUNTIME_S}s, timeout: 20s}}
"""
DROPBEAR = UserlandRecipe(
    name="dropbear",
    arch="arm64",
    suite="trixie",
    packages=("dropbear-bin", "libc6", "libcrypt1", "libtomcrypt1", "libtommath1", "libgmp10", "zlib1g"),
    programs=(("usr/sbin/dropbear", "sbin/dropbear"),),
)
# The server beside the board's own init, as an init system would start it. QEMU's network knows no guest that never spoke.
START = """\
#!/bin/sh
(
until [ -e /dev/pts/ptmx ] && [ -e /sys/class/net/eth0 ]; do /bin/busybox sleep 0.2; done
exec </dev/null >/dev/null 2>&1
/bin/busybox ifconfig eth0 10.0.2.15
/bin/busybox ping -c 1 10.0.2.2
/bin/busybox grep -q no-ssh-server /proc/cmdline || exec /sbin/dropbear -F -R
) &
exec /init.board
"""


@dataclass
class Boot:
    """A row of the database with its events, trials and console log."""

    status: str
    reason: str
    counted: dict[str, object]
    log: bytes
    events: list[dict[str, object]] = field(default_factory=list)
    trials: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Done:
    """What came of the run: what the user saw, boots by place and attempt, seconds between packets of one of them."""

    text: str
    boots: dict[tuple[int, int], Boot]
    gaps: list[float]


def initrd(folder: Path) -> Path:
    """The board's initrd, with a server and a key of ours behind it."""
    made = images.ensure([*needed_by([VirtualBoard()]), DROPBEAR]) / "arm64"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    ours = Cpio()
    ours.device("dev/null", 1, 3)  # without one the shell puts nothing into the background
    ours.file("init", START.encode(), 0o755)
    ours.file("init.board", guest_file(INIT), 0o755)
    ours.directory("etc/dropbear")
    ours.directory("root/.ssh", 0o700)
    ours.file("root/.ssh/authorized_keys", (folder / "key.pub").read_bytes(), 0o600)
    ours.write(folder / "ours.cpio.gz")
    parts = (made / "busybox" / INITRD, made / "dropbear" / INITRD, folder / "ours.cpio.gz")
    (folder / "initrd.cpio.gz").write_bytes(b"".join(part.read_bytes() for part in parts))
    return folder / "initrd.cpio.gz"


def env_text(folder: Path) -> str:
    """The board's env with what a user writes for SSH."""
    text = in_real_time(BOARD)
    service = (
        '      - NetworkService: {address: !template "$LG_VIRTUAL_NET.30", port: 2222, username: root, '
        f"password: {SECRET}}}\n"
    )
    for pattern, new in (
        (r"    drivers: &drivers\n", f"{service}    drivers: &drivers\n"),
        (
            r"      - FarmStrategy: \{\}\n",
            f"      - SSHDriver: {{keyfile: {folder}/key, connection_timeout: 2.0}}\n      - FarmStrategy: {{}}\n",
        ),
        (r"  initrd: !template .*\n", f"  initrd: {initrd(folder)}\n"),
        (r"    arch: arm64\n(?=    card)", "    arch: arm64\n    memory: 512M\n    ssh: 30\n"),
    ):
        text, count = re.subn(pattern, lambda found, new=new: new, text)
        assert count == 1, pattern
    return text


class Board:
    """The board of the run from outside."""

    def __init__(self, lab: LabHome) -> None:
        self.lab, self.folder = lab, lab.path / "virtual" / BOARD

    def log(self, index: int, attempt: int) -> bytes:
        found = sorted((self.lab.path / "logs").glob(f"*-ssh/{BOARD}/boot-{index:03d}-{attempt}.log"))
        return found[0].read_bytes() if found else b""

    def type(self, line: str) -> None:
        fd = os.open(self.folder / "console", os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, line.encode())
        os.close(fd)

    def until_asked(self, index: int, attempt: int) -> None:
        """Wait until the console was asked all that it is asked before SSH has its turn."""
        asked = re.compile(rb"@q\w{3} bye\r")
        wait_for(
            f"boot {index}, try {attempt}", lambda: len(asked.findall(self.log(index, attempt))) >= 2, 180
        )


def faults(board: Board, dump: Path) -> None:
    """Packets recorded, and a server that is killed; boots 0 and 3 have no server at all."""
    board.until_asked(1, 0)
    what = {"qom-type": "filter-dump", "id": "dump", "netdev": "net", "file": str(dump)}
    qmp(board.folder, "object-add", **what)
    board.until_asked(2, 0)
    board.type("until pidof fio >/dev/null;do sleep 0.2;done;killall dropbear\r")
    good = "SELECT 1 FROM boot WHERE boot_index = 2 AND status = 'ok'"
    # its second try is another power cycle
    wait_for("boot 2 is measured", lambda: board.lab.rows(good), 180)


def packet_times(dump: Path) -> list[float]:
    """Seconds of the packets in a capture (libpcap's savefile format), little-endian."""
    data, at, found = dump.read_bytes(), 24, []
    while at + 16 <= len(data):
        seconds, micros, length, _ = struct.unpack_from("<IIII", data, at)
        found.append(seconds + micros / 1e6)
        at += 16 + length
    return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHome]:
    here = tmp_path_factory.mktemp("here")
    (here / "envs").mkdir()
    (here / "envs" / f"{BOARD}.yaml").write_text(env_text(here))
    (here / "ssh.yaml").write_text(CAMPAIGN)
    with lab_of(BOARD, home=here / "home", cwd=here) as found:
        yield found


@pytest.fixture(scope="module")
def done(lab: LabHome) -> Done:
    dump = lab.cwd / "net.pcap"
    run = lab.start("run", "ssh.yaml", "--seed", "2")
    try:
        faults(Board(lab), dump)
        run.send_signal(signal.SIGINT)
        text, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    found = Done(text, {}, [after - before for before, after in pairwise(packet_times(dump))])
    for key, index, attempt, status, reason, counted, log in lab.rows(
        "SELECT id, boot_index, attempt, status, reason, console_bytes, log_path FROM boot WHERE boot_index < 3"
    ):
        found.boots[index, attempt] = Boot(
            status,
            reason,
            json.loads(counted),
            Path(log).read_bytes(),
            [json.loads(body) for (body,) in lab.rows("SELECT body FROM event WHERE boot_id = ?", key)],
            lab.rows(
                "SELECT status, (SELECT count(*) FROM sample WHERE trial_id = trial.id) FROM trial WHERE boot_id = ?",
                key,
            ),
        )
    return found


def trials_on_console(log: bytes) -> int:
    """Progress lines of trials on the console; those of questions have a name and no number."""
    return len(re.findall(rb"@farm \d+/\d+ \d+ ", log))


def test_what_befell_ssh_cost_its_boot_only_and_every_other_counts(done: Done) -> None:
    found = {
        key: (boot.status, len(boot.trials), boot.counted.get("wire")) for key, boot in done.boots.items()
    }
    assert found == {
        (0, 0): ("ok", 1, "serial"),
        (1, 0): ("ok", 1, "ssh"),
        (2, 0): ("failed", 0, None),
        (2, 1): ("ok", 1, "serial"),
    }, done.text
    for boot in done.boots.values():
        assert all(status == "ok" and samples >= 3 for status, samples in boot.trials)


def test_a_batch_over_ssh_leaves_the_console_to_the_board(done: Done) -> None:
    boot = done.boots[1, 0]
    assert trials_on_console(boot.log) == 0
    assert boot.counted["batch_down"] > 1000
    assert (boot.counted["frames"], boot.counted["refetched"], boot.counted["silent"]) == (1, 0, True)
    assert boot.events == []
    assert b"Starting kernel" in boot.log, "the log is the boot's all the same"
    assert trials_on_console(done.boots[0, 0].log) == 1


def test_nothing_crosses_the_network_while_the_board_measures(done: Done) -> None:
    assert len(done.gaps) > 50, "the batch was recorded"
    assert sum(gap > RUNTIME_S for gap in done.gaps) == 1, sorted(done.gaps)[-5:]


def test_without_a_server_the_batch_goes_over_serial_and_the_record_says_why(done: Done) -> None:
    (event,) = done.boots[0, 0].events
    assert event["kind"] == "ssh"
    said = str(event["line"])
    assert re.fullmatch(r"no shell at root@127\.[0-9.]+:2222: .*; the batch went over serial", said)
    assert "1 of 1 trials ok in " in done.text
    assert f"; {said}" in done.text
    assert "the kernel reported" not in done.text


def test_a_server_that_is_killed_under_a_batch_fails_the_boot_which_is_repeated_over_serial(
    done: Done,
) -> None:
    boot, again = done.boots[2, 0], done.boots[2, 1]
    assert re.match(r"the SSH connection broke \(.*\)$", boot.reason)
    assert [event["kind"] for event in boot.events] == ["ssh"]
    (event,) = again.events
    assert event == {
        "kind": "ssh",
        "line": f"a batch before failed over SSH: {boot.reason}; the batch went over serial",
    }


def test_the_password_is_nowhere_and_no_ssh_is_left(lab: LabHome, done: Done) -> None:
    lab.farm("report", "latest", "-o", str(lab.path / "run.html"))
    shown = lab.farm("show", "1").stdout
    assert re.search(r"wire +serial", shown)
    files = [file for file in lab.path.rglob("*") if file.is_file() and file.suffix != ".img"]
    assert {"farm.db", "run.html", "boot-001-0.log"} <= {file.name for file in files}
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []
    assert SECRET not in done.text + shown
    left = [file for file in Path("/proc").glob("[0-9]*/cmdline") if str(lab.cwd / "key") in _text(file)]
    assert left == []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
