"""The wire over SSH: what the real client makes of its arguments, and a shell behind a stand-in for the client.

The stand-in runs the command on a pseudo terminal of this machine, as an SSH server does on a board's. A real server on a
virtual board is in tests/runner/test_ssh_run.py.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from labgrid import Target
from labgrid.driver import SSHDriver
from labgrid.resource import NetworkService
from pexpect import TIMEOUT

from farm.board import batch, ssh
from farm.board.batch import Job, Places, capture, run_batch
from farm.board.console import BoardDied, ConsoleWire, Watch
from farm.board.upload import Lines, regain
from farm.errors import BoardError, UserError
from farm.fleet import env
from farm.ports import free_port
from farm.runner.checkup import open_strategy
from tests.board.boards import SHELLS, PtyBoard
from tests.lab import BOARD, ROOT, alive, wait_for

SECRET = "it's a $ecret"
PATH = "/usr/bin:/bin:/it's;touch /tmp/farm-ssh-test;$(touch /tmp/farm-ssh-test)\"*"
STAND_IN = """\
#!{python}
import os, pty, subprocess, sys
command = sys.argv[-1]
{also}
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", command])))
"""


class Console:
    """As much of a WatchedSerialDriver as a ConsoleWire needs, over a real shell."""

    def __init__(self, board: PtyBoard) -> None:
        self.board, self.watch = board, Watch()
        self._expect = SimpleNamespace(buffer=b"", string_type=bytes)
        self.said = b""

    def write(self, data: bytes) -> None:
        self.board.write(data)

    def read(self, size: int, timeout: float) -> bytes:
        self.watch.check()
        data, self.said = self.said + self.board.read(timeout), b""
        if not data:
            raise TIMEOUT("nothing")
        self.watch.feed(data)
        return data


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    board = PtyBoard(SHELLS["ash"], {"PATH": PATH, "TERM": "dumb", "PS1": "# ", "HOME": str(tmp_path)})
    yield Console(board)
    board.close()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Files in place of those of this machine's kernel; boards that answer at once or never."""
    (tmp_path / "printk").write_text("7\t4\t1\t7\n")
    (tmp_path / "results").mkdir()
    found = Places((str(tmp_path / "results"),), str(tmp_path / "printk"), str(tmp_path / "runtime"))
    monkeypatch.setattr(ssh, "capture", functools.partial(capture, places=found))
    monkeypatch.setattr(Lines, "patience", 1.0)
    monkeypatch.setattr(ssh, "_LAST_WORDS_S", 0.5)
    return found


def driver(**more: object) -> SSHDriver:
    target = Target("main")
    NetworkService(target, None, address="127.0.0.1", username="root", port=free_port())
    return SSHDriver(target, None, connection_timeout=1.0, **more)


def stand_in(tmp_path: Path, also: str = "", **more: object) -> SSHDriver:
    """A driver whose ssh is the stand-in; `also` is done before its command."""
    program = tmp_path / "ssh"
    program.write_text(STAND_IN.format(python=sys.executable, also=also))
    program.chmod(0o755)
    found = driver(**more)
    found._ssh = str(program)
    return found


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_batch_over_ssh_is_what_it_is_on_a_console(
    shell: str, tmp_path: Path, console: Console, places: Places
) -> None:
    also = f"command = command.replace('exec sh', 'exec {' '.join(SHELLS[shell])}')"
    wire = ssh.connect(stand_in(tmp_path, also), ConsoleWire(console), 20)
    try:
        typed = len(console.board.sent)
        result = run_batch(wire, [Job("a", 'tty; echo "$PATH"'), Job("b", "exit 3")], places=places)
        assert [job.rc for job in result.jobs] == [0, 3]
        assert result.jobs[0].raw["out"] == b"not a tty\n" + PATH.encode() + b"\n", "the console's PATH"
        assert not Path("/tmp/farm-ssh-test").exists()
        assert (result.refetched, result.silent) == (0, True)
        lines = Lines(wire, "qabc")
        lines.send("cat >/dev/null")
        time.sleep(0.3)
        assert regain(lines, 10), "Ctrl-C works"
        assert len(console.board.sent) == typed, "nothing of the batch is on the console"
    finally:
        wire.close()
    assert console.board.at_prompt()


@pytest.mark.parametrize(("password", "asks_nobody"), [(None, True), (SECRET, False)])
def test_what_ssh_itself_makes_of_the_arguments(
    password: str | None, asks_nobody: bool, tmp_path: Path
) -> None:
    (tmp_path / "key").touch()
    words = ssh.argv(driver(keyfile=str(tmp_path / "key"), password=password), "true", 7.2)
    assert not any(SECRET in word for word in words)
    at = words.index("ssh")
    shown = subprocess.run(
        [*words[: at + 1], "-G", *words[at + 1 :]], capture_output=True, text=True, check=True
    )
    config = dict(line.split(" ", 1) for line in shown.stdout.splitlines() if " " in line)
    assert {
        "batchmode": "yes" if asks_nobody else "no",
        "serveraliveinterval": "0",
        "tcpkeepalive": "no",
        "controlmaster": "false",
        "stricthostkeychecking": "false",
        "userknownhostsfile": "/dev/null",
        "globalknownhostsfile": "/dev/null",
        "identityfile": str(tmp_path / "key"),
        "identitiesonly": "yes",
        "requesttty": "force",
        "escapechar": "none",
        "connecttimeout": "7",
        "user": "root",
        "hostname": "127.0.0.1",
        "numberofpasswordprompts": "3" if asks_nobody else "1",
    }.items() <= config.items()
    assert "controlpath" not in config
    assert config.get("obscurekeystroketiming", "no") in ("no", "0")


def test_nobody_there_is_said_by_the_deadline(console: Console, places: Places) -> None:
    began = time.monotonic()
    with pytest.raises(ssh.NoSsh, match=r"^no shell at root@127\.0\.0\.1:\d+: .*Connection refused$"):
        ssh.connect(driver(), ConsoleWire(console), 20)
    assert 0.4 < time.monotonic() - began < 4
    assert console.board.at_prompt()


def test_a_shell_that_never_answers_is_given_up_and_ended(
    tmp_path: Path, console: Console, places: Places
) -> None:
    also = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); command = 'cat'"
    with pytest.raises(ssh.NoSsh, match=r": no answer$"):
        ssh.connect(stand_in(tmp_path, also), ConsoleWire(console), 20)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.parametrize(
    "also",
    [
        "command = command.replace('boot_id', 'uuid')",
        "command = command.replace('id -u', 'echo 1000')",
        "command = command.replace('boot_id', '../../version')",
    ],
    ids=["another board", "another user", "hostile"],
)
def test_a_shell_of_anything_else_is_not_used(
    tmp_path: Path, console: Console, places: Places, also: str
) -> None:
    log = tmp_path / "typed"
    also += f"\ncommand = command.replace('exec sh', 'cat >{log}')"
    with pytest.raises(ssh.NoSsh, match="is not this board: boot and user are"):
        ssh.connect(stand_in(tmp_path, also), ConsoleWire(console), 20)
    assert not log.exists() or log.read_bytes() == b""


def test_what_ssh_complains_of_is_told_as_plain_text(
    tmp_path: Path, console: Console, places: Places
) -> None:
    also = "sys.stderr.write('first\\n\\x1b[2J\\x07' + 'x' * 500 + '\\n\\n')\nsys.exit(7)"
    with pytest.raises(ssh.NoSsh) as caught:
        ssh.connect(stand_in(tmp_path, also), ConsoleWire(console), 20)
    assert re.fullmatch(r"no shell at root@127\.0\.0\.1:\d+: \[2Jx{197}", str(caught.value))


def test_ssh_that_is_not_installed_is_said_at_once(console: Console, places: Places) -> None:
    found = driver()
    found._ssh, found.connection_timeout = "no-such-program", 60.0
    with pytest.raises(ssh.NoSsh, match="no-such-program"):
        ssh.connect(found, ConsoleWire(console), 20)


def test_a_password_comes_from_a_program_that_is_gone_afterwards(
    tmp_path: Path, console: Console, places: Places
) -> None:
    heard = tmp_path / "heard"
    also = (
        "said = subprocess.run([os.environ['SSH_ASKPASS'], 'Password: '], capture_output=True, text=True).stdout\n"
        f"open({str(heard)!r}, 'w').write(os.environ['SSH_ASKPASS'] + chr(10) + said)\n"
        "assert os.environ['SSH_ASKPASS_REQUIRE'] == 'force'"
    )
    ssh.connect(stand_in(tmp_path, also, password=SECRET), ConsoleWire(console), 20).close()
    program, said = heard.read_text().splitlines()
    assert said == SECRET
    assert not Path(program).exists()


def test_ssh_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    (tmp_path / "ssh").chmod(0o755)
    found = driver()
    found._ssh = str(tmp_path / "ssh")
    code = (
        "import os, sys, time\nfrom farm.board.ssh import SshWire\nwire = SshWire(sys.argv[1:], {}, None)\n"
        f"while not os.path.exists('{tmp_path}/pid'): time.sleep(0.05)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, *ssh.argv(found, "true", 5)], check=False, timeout=20)
    pid = int((tmp_path / "pid").read_text())
    wait_for("ssh is gone", lambda: not alive(pid), 5)


def in_a_batch(tmp_path: Path, console: Console, places: Places, then: str) -> BaseException:
    """What a batch raises when, in its job, `then` is done to the stand-in."""
    also = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    wire = ssh.connect(stand_in(tmp_path, also), ConsoleWire(console), 20)
    began, end = tmp_path / "began", tmp_path / "end"

    def fault() -> None:
        while not began.exists():
            time.sleep(0.05)
        if then.startswith("SIG"):
            os.kill(int((tmp_path / "pid").read_text()), getattr(signal, then))
        else:
            console.said = then.encode()

    thread = threading.Thread(target=fault)
    thread.start()
    job = Job("a", f"touch {began}; sleep 30; touch {end}", timeout_s=2)
    try:
        with pytest.raises(BoardError) as caught:
            run_batch(wire, [job, Job("b", "echo b", timeout_s=1)], places=places)
    finally:
        thread.join()
        wire.close()
    assert not end.exists()
    return caught.value


def test_a_connection_that_breaks_fails_the_batch_which_the_board_ends(
    tmp_path: Path, console: Console, places: Places
) -> None:
    problem = in_a_batch(tmp_path, console, places, "SIGKILL")
    assert isinstance(problem, BoardError)
    assert (problem.step, problem.reason) == ("ssh", "the SSH connection broke (ssh ended without a word)")
    wait_for("the board has tidied up", lambda: not list(Path(places.temporary[0]).iterdir()), 10)
    wait_for("its kernel may speak", lambda: Path(places.printk).read_text().startswith("7"), 10)
    assert console.board.at_prompt()


def test_a_connection_that_is_silent_for_ever_is_no_progress(
    tmp_path: Path, console: Console, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_BEAT_S", 0.0)
    monkeypatch.setattr(batch, "_SLACK_S", 0.5)
    monkeypatch.setattr(Lines, "patience", 0.5)
    problem = in_a_batch(tmp_path, console, places, "SIGSTOP")
    assert isinstance(problem, BoardError)
    assert re.match(r"no progress for \d s: it was at job 1/2, 'a'", problem.reason)


def test_a_board_that_dies_under_a_batch_is_known_by_its_console(
    tmp_path: Path, console: Console, places: Places
) -> None:
    began = time.monotonic()
    problem = in_a_batch(tmp_path, console, places, "[ 9.1] Kernel panic - not syncing: sysrq\r\n")
    assert isinstance(problem, BoardDied)
    assert problem.kind == "kernel panic"
    assert time.monotonic() - began < 8


def _opened(tmp_path: Path, service: str, ssh_driver: str) -> None:
    """The virtual board's env with a driver for SSH, and perhaps the service that it needs, as a run opens it."""
    changed = (ROOT / "envs" / f"{BOARD}.yaml").read_text()
    if service:
        changed = changed.replace(
            "    drivers: &drivers\n", f"      - NetworkService: {service}\n    drivers: &drivers\n", 1
        )
    changed = changed.replace(
        "      - FarmStrategy", f"      - SSHDriver: {ssh_driver}\n      - FarmStrategy", 1
    )
    (tmp_path / f"{BOARD}.yaml").write_text(changed)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("PDU", "NET", "DIR", "IMAGES"):
            patched.setenv(f"LG_VIRTUAL_{name}", "/nowhere")
        open_strategy(env.load(str(tmp_path / f"{BOARD}.yaml"))).target.cleanup()


@pytest.mark.parametrize(
    ("service", "ssh_driver", "said"),
    [
        ("address: -oProxyCommand=id", "", "NetworkService.address: '-oProxyCommand=id' is not a host's name or address"),
        ("address: a b", "", "NetworkService.address: 'a b' is not a host's name or address"),
        ('address: ""', "", "NetworkService.address: '' is not a host's name or address"),
        ("address: a, port: 70000", "", "NetworkService.port: 70000 is not a number from 1 to 65535"),
        ("address: a, port: true", "", "NetworkService.port: true is not a number from 1 to 65535"),
        ("address: a", "keyfile: keys/none", "SSHDriver.keyfile: there is no file {}/keys/none; give the path of a private key"),
    ],
)  # fmt: skip
def test_what_ssh_could_never_connect_with_is_said_before_power_is_touched(
    tmp_path: Path, service: str, ssh_driver: str, said: str
) -> None:
    with pytest.raises(UserError) as wrong:
        _opened(tmp_path, f"{{{service}, username: root}}", f"{{{ssh_driver}}}")
    assert str(wrong.value) == f"{tmp_path}/{BOARD}.yaml: targets.main.{said.format(tmp_path)}"


@pytest.mark.parametrize("address", ["board.lab", "10.0.0.7", "fe80::1%eth0"])
def test_an_address_is_a_name_or_of_either_family(tmp_path: Path, address: str) -> None:
    (tmp_path / "key").write_text("a key")
    _opened(tmp_path, f'{{address: "{address}", username: root}}', "{keyfile: key}")


@pytest.mark.parametrize(
    ("service", "ssh_driver", "said"),
    [
        (f'username: root, password: "{SECRET}", port: x', "", "NetworkService: 'port' must be <class 'int'>"),
        ("username: root, port: '22'", "", "NetworkService: 'port' must be <class 'int'>"),
        ("username: root", "connection_timeout: 30", "SSHDriver: 'connection_timeout' must be <class 'float'>"),
        ("port: 22", "", "NetworkService: NetworkService.__init__() missing 1 required positional argument: 'username'"),
        ("username: root, password: [a, ecret]", "", "NetworkService: 'password' must be <class 'str'>"),
    ],
)  # fmt: skip
def test_what_labgrid_refuses_is_said_with_what_would_be_right_and_without_the_password(
    tmp_path: Path, service: str, ssh_driver: str, said: str
) -> None:
    with pytest.raises(UserError) as wrong:
        _opened(tmp_path, f"{{address: a, {service}}}", f"{{{ssh_driver}}}")
    assert (
        str(wrong.value)
        == f"{tmp_path}/{BOARD}.yaml: targets.main: labgrid refuses it: failed to create {said}"
    )


def test_a_driver_without_the_service_that_it_needs_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"yaml: targets\.main: labgrid refuses it: .*NetworkService"):
        _opened(tmp_path, "", "{}")
