"""Faults that real boards have, put upon virtual ones from outside; the counts are read from the database.

All of them meet one run of five boards, so that what befalls one is seen to leave the others alone: each boot is a
power cycle of QEMU, and a minute of a run is shared best. Ctrl-C ends the run.
"""

import http.server
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farm.virtual import lab as virtual_lab
from tests.board.line import Tapped
from tests.lab import BOARD, LabHome, alive, children, in_real_time, wait_for
from tests.qmp import qmp

pytestmark = pytest.mark.lab

EAST, WEST, REFUSES, SILENT, MUTE = "east", "west", "switch-refuses", "switch-silent", "mute"
CAMPAIGN = """\
name: faults
boards: [east, west]
boots: 4
trials: 1
variants:
  only: {baseline: true, args: sysrq_always_enabled}
workloads:
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 3s, timeout: 8s}
"""


@dataclass(frozen=True)
class Boot:
    """A row of the database."""

    status: str
    reason: str
    started: float
    ended: float
    refetched: int


@dataclass
class Faulted:
    """What came of the run: its id, what the user saw, the exit code, and when what was done to it."""

    run: str = ""
    text: str = ""
    code: int = 0
    damaged: int = 0
    panic_seen: float = 0.0
    hung_at: float = 0.0
    worker_killed: float = 0.0
    envs: dict[str, str] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)
    boots: dict[tuple[str, int, int], Boot] = field(default_factory=dict)

    def line(self, pattern: str) -> str:
        """The one line of the output that a pattern matches."""
        (found,) = [line for line in self.text.splitlines() if re.search(pattern, line)]
        return found


def env_file(folder: Path, name: str, changes: dict[str, str]) -> Path:
    """The board's env file under another name, with some of its lines changed."""
    text = in_real_time(BOARD)
    changes = {
        **changes,
        # it would have boards wait for each other that are to be looked at side by side
        "  measure_alone: host-cpu\n": "",
        "    arch: arm64\n    card": "    arch: arm64\n    memory: 512M\n    card",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file = folder / f"{name}.yaml"
    file.write_text(text.replace(BOARD, name))
    return file


def log(lab: LabHome, board: str, index: int, attempt: int) -> bytes:
    """What a boot of the run has said so far."""
    found = sorted((lab.path / "logs").glob(f"*-faults/{board}/boot-{index:03d}-{attempt}.log"))
    return found[0].read_bytes() if found else b""


def until_measuring(lab: LabHome, board: str, index: int, attempt: int) -> None:
    """Wait until a boot of the run has begun its trials: the second script that it started said `go`."""
    wait_for(
        f"boot {index} of {board} measures, try {attempt}",
        lambda: len(re.findall(rb"@q\w{3} go\r", log(lab, board, index, attempt))) >= 2,
        150,
    )
    time.sleep(0.5)


def sysrq(lab: LabHome, board: str, line: Tapped, key: str) -> None:
    """A break on the serial line and a letter: what a person at the console does to a board that is lost."""
    qmp(lab.path / "virtual" / board, "chardev-send-break", id="console")
    time.sleep(0.2)
    line.type(key.encode())


def worker(controller: int, line: str) -> int:
    """The process that has the board's serial line open."""
    for pid in children(controller):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            if str(fd.readlink()) == line:
                return pid
    raise AssertionError("no process of the run has the console open")


def powered(lab: LabHome, board: str) -> bool:
    return next(one.powered for one in virtual_lab.status(lab.path) if one.name == board)


class _Switch(http.server.BaseHTTPRequestHandler):
    """A power switch that answers 500 to everything, or nothing at all until the test is over."""

    silent = False
    over = threading.Event()

    def do_GET(self) -> None:
        if type(self).silent:
            type(self).over.wait(120)
            return
        self.send_error(500)

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def broken_switch(*, silent: bool) -> Iterator[dict[str, str]]:
    """The changes of an env file that has this board at a broken power switch."""
    handler = type("Switch", (_Switch,), {"silent": silent, "over": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            f'host: !template "$LG_VIRTUAL_PDU/{BOARD}/{{index}}"': (
                f'host: "http://127.0.0.1:{server.server_port}/{{index}}"'
            ),
            "  boot_seconds: 20\n": "  boot_seconds: 20\n  deadlines: {power: 2}\n",
        }
        handler.over.set()
        server.shutdown()


def to_east(lab: LabHome, line: Tapped, found: Faulted) -> None:
    """A panic, a flood of kernel messages, a hang while it measures, a changed byte."""
    until_measuring(lab, EAST, 0, 0)
    sysrq(lab, EAST, line, "c")
    wait_for("panic", lambda: b"Kernel panic - not syncing" in log(lab, EAST, 0, 0), 20)
    found.panic_seen = time.time()
    until_measuring(lab, EAST, 0, 1)
    # The batch may silence the kernel after the first of them, so the level is asked for with each.
    for _ in range(8):
        sysrq(lab, EAST, line, "9")
        sysrq(lab, EAST, line, "t")
        if log(lab, EAST, 0, 1).count(b"task:") > 100:
            break
    until_measuring(lab, EAST, 1, 0)
    qmp(lab.path / "virtual" / EAST, "stop")
    found.hung_at = time.time()
    wait_for("boot 1 starts anew", lambda: b"Starting kernel" in log(lab, EAST, 1, 1), 150)
    line.damage = 1
    until_measuring(lab, EAST, 2, 0)


def to_west(lab: LabHome, line: Tapped, found: Faulted, controller: int) -> None:
    """A reset that nobody asked for, a card that is pulled, a worker that is killed."""
    until_measuring(lab, WEST, 0, 0)
    sysrq(lab, WEST, line, "b")
    until_measuring(lab, WEST, 0, 1)
    qmp(lab.path / "virtual" / WEST, "eject", device="card", force=True)
    until_measuring(lab, WEST, 1, 0)
    found.worker_killed = time.time()
    os.kill(worker(controller, line.path), signal.SIGKILL)
    wait_for("the board of the killed worker is off", lambda: not powered(lab, WEST), 40)


@pytest.fixture(scope="module")
def faulted(lab_home: LabHome, tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.yaml").write_text(CAMPAIGN)
    port = f'port: !template "$LG_VIRTUAL_DIR/{BOARD}/console"'
    names = (EAST, WEST, MUTE)
    lab_home.farm("virtual", "up", *(str(env_file(folder, name, {})) for name in names))
    found = Faulted()
    with ExitStack() as held:
        lines = {
            name: held.enter_context(Tapped(lab_home.path / "virtual" / name / "console")) for name in names
        }
        lines[MUTE].mute = True
        impatient = (
            "  boot_seconds: 20\n  power_cycles: 2\n  quarantine_after: 1\n  deadlines: {bootloader: 4}\n"
        )
        of_board = {name: {port: f'port: "{lines[name].path}"'} for name in names}
        of_board[MUTE]["  boot_seconds: 20\n"] = impatient
        of_board[REFUSES] = held.enter_context(broken_switch(silent=False))
        of_board[SILENT] = held.enter_context(broken_switch(silent=True))
        words = ["run", str(folder / "faults.yaml"), "--seed", "1", "--start-virtual"]
        found.envs = {name: str(env_file(folder, name, changes)) for name, changes in of_board.items()}
        for file in found.envs.values():
            words += ["--board", file]
        run = lab_home.start(*words)
        try:
            with ThreadPoolExecutor() as pool:
                east = pool.submit(to_east, lab_home, lines[EAST], found)
                west = pool.submit(to_west, lab_home, lines[WEST], found, run.pid)
                west.result()
                east.result()
            workers = children(run.pid)
            for _ in range(2):
                run.send_signal(signal.SIGINT)
                time.sleep(0.3)
            found.text, _ = run.communicate(timeout=60)
        finally:
            run.kill()
        found.code, found.damaged = run.returncode, lines[EAST].damaged
        found.left = [pid for pid in workers if alive(pid)]
    ((found.run,),) = lab_home.rows(
        "SELECT id FROM run WHERE id LIKE '%-faults' ORDER BY started DESC LIMIT 1"
    )
    for board, index, attempt, status, reason, started, ended, counted in lab_home.rows(
        "SELECT board, boot_index, attempt, status, reason, started, ended, console_bytes FROM boot "
        "WHERE run_id = ?",
        found.run,
    ):
        refetched = json.loads(counted).get("refetched", 0)
        found.boots[board, index, attempt] = Boot(status, reason, started, ended, refetched)
    return found


def trials(lab: LabHome, run: str, board: str, index: int, attempt: int) -> list[tuple]:
    return lab.rows(
        "SELECT trial.status, trial.reason, (SELECT count(*) FROM sample WHERE trial_id = trial.id) FROM trial "
        "JOIN boot ON boot.id = boot_id WHERE run_id = ? AND board = ? AND boot_index = ? AND attempt = ?",
        run,
        board,
        index,
        attempt,
    )


def events(lab: LabHome, run: str, board: str, index: int, attempt: int) -> list[dict]:
    return [
        json.loads(body)
        for (body,) in lab.rows(
            "SELECT body FROM event JOIN boot ON boot.id = boot_id "
            "WHERE run_id = ? AND board = ? AND boot_index = ? AND attempt = ?",
            run,
            board,
            index,
            attempt,
        )
    ]


def test_every_fault_cost_its_boot_only_and_all_others_count(faulted: Faulted) -> None:
    assert {key: boot.status for key, boot in faulted.boots.items()} == {
        (EAST, 0, 0): "failed",
        (EAST, 0, 1): "ok",
        (EAST, 1, 0): "failed",
        (EAST, 1, 1): "ok",
        (WEST, 0, 0): "failed",
        (WEST, 0, 1): "ok",
        (MUTE, 0, 0): "failed",
        (MUTE, 0, 1): "failed",
        (REFUSES, 0, 0): "failed",
        (SILENT, 0, 0): "failed",
    }, faulted.text


def test_a_panic_is_named_within_five_seconds_and_nothing_of_the_boot_counts(
    lab_home: LabHome, faulted: Faulted
) -> None:
    boot = faulted.boots[EAST, 0, 0]
    assert re.fullmatch(
        r"kernel panic: (\[ *[0-9.]+\] )?Kernel panic - not syncing: sysrq triggered crash", boot.reason
    )
    assert boot.ended - faulted.panic_seen < 5.0
    assert trials(lab_home, faulted.run, EAST, 0, 0) == []
    (said,) = [one for one in events(lab_home, faulted.run, EAST, 0, 0) if one["kind"] == "kernel panic"]
    assert any("sysrq: Trigger a crash" in line for line in said["tail"])
    assert len(said["tail"]) == 100
    assert faulted.line(rf"^{EAST} +boot 1/4 +only: FAILED after .*kernel panic")


def test_a_flood_of_kernel_messages_neither_loses_nor_invents_a_result(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert log(lab_home, EAST, 0, 1).count(b"task:") > 100, "there was no flood"
    ((status, reason, samples),) = trials(lab_home, faulted.run, EAST, 0, 1)
    assert (status, reason) == ("ok", "")
    assert samples >= 3


def test_a_hang_while_measuring_is_noticed_soon_after_the_time_of_the_trial(
    lab_home: LabHome, faulted: Faulted
) -> None:
    boot = faulted.boots[EAST, 1, 0]
    assert re.match(r"no progress for \d+ s: it was at job 1/1", boot.reason)
    # 8 s of the trial's own, 20 s as for every trial, 9 s for questions that nobody answered, and power off
    assert boot.ended - faulted.hung_at < 8 + 20 + 9 + 6
    assert trials(lab_home, faulted.run, EAST, 1, 0) == []
    assert faulted.line(rf"^{EAST} +boot 2/4 +only: FAILED after .*: no progress for .* \(log: ")


def test_a_changed_byte_is_found_out_and_the_frame_asked_for_again(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert faulted.damaged == 1
    assert faulted.boots[EAST, 1, 1].refetched >= 1
    ((status, reason, _),) = trials(lab_home, faulted.run, EAST, 1, 1)
    assert (status, reason) == ("ok", "")


def test_a_reset_that_nobody_asked_for_is_named(lab_home: LabHome, faulted: Faulted) -> None:
    boot = faulted.boots[WEST, 0, 0]
    assert re.match(r"unexpected restart: .*(U-Boot \d{4}\.\d\d|Booting Linux)", boot.reason)
    assert trials(lab_home, faulted.run, WEST, 0, 0) == []
    assert faulted.line(rf"^{WEST} +boot 1/4 +only: FAILED after .*unexpected restart")


def test_a_card_that_is_pulled_fails_the_trial_and_leaves_no_number(
    lab_home: LabHome, faulted: Faulted
) -> None:
    ((status, reason, samples),) = trials(lab_home, faulted.run, WEST, 0, 1)
    assert status == "failed"
    assert reason
    assert samples == 0
    assert faulted.line(rf"^{WEST} +boot 1/4 +only: 0 of 1 trials ok")


def test_a_killed_worker_ends_its_board_alone_which_is_switched_off(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert f"{WEST}: gave up: its process died (exit -9); its board is switched off" in faulted.text
    assert faulted.boots[EAST, 1, 1].ended > faulted.worker_killed
    # our own process failed, not the board
    assert lab_home.rows("SELECT count(*) FROM health WHERE board = ?", WEST) == [(0,)]


@pytest.mark.parametrize(
    ("board", "said"), [(REFUSES, "500"), (SILENT, "did not answer within 2 s")], ids=[REFUSES, SILENT]
)
def test_a_broken_power_switch_is_named_and_goes_on_record(
    lab_home: LabHome, faulted: Faulted, board: str, said: str
) -> None:
    line = faulted.line(f"^{board}: gave up")
    assert line.startswith(f"{board}: gave up: {board}: ")
    assert said in line
    ((ok, origin, reason),) = lab_home.rows("SELECT ok, origin, reason FROM health WHERE board = ?", board)
    assert (ok, origin) == (0, "run")
    assert said in reason
    assert not [boot for (where, *_), boot in faulted.boots.items() if where == board and boot.status == "ok"]


def test_a_board_is_power_cycled_as_often_as_configured_then_checked_then_quarantined(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert sorted(key for key in faulted.boots if key[0] == MUTE) == [(MUTE, 0, 0), (MUTE, 0, 1)]
    assert {boot.reason for (where, *_), boot in faulted.boots.items() if where == MUTE} == {
        "no prompt within 4 s"
    }
    assert faulted.line(f"^{MUTE}: gave up: ").startswith(
        f"{MUTE}: gave up: {MUTE}: boot 1 of only failed 2 times, the last: no prompt within 4 s; "
        "its check failed too: bootloader: "
    )
    (looks,) = lab_home.rows("SELECT count(*), max(ok) FROM health WHERE board = ?", MUTE)
    assert looks == (1, 0)
    (row,) = json.loads(lab_home.farm("boards", faulted.envs[MUTE], "--json").stdout)
    assert row["state"] == "quarantined"
    assert row["why"].startswith("1 failures in a row, the last ")


def test_ctrl_c_keeps_what_is_measured_and_leaves_nothing_that_runs(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert faulted.code == 130
    assert faulted.text.count("farm: interrupted") == 1
    assert "Traceback" not in faulted.text
    assert faulted.left == []
    assert not any(powered(lab_home, board) for board in (EAST, WEST, MUTE))
    assert lab_home.rows("SELECT status FROM run WHERE id = ?", faulted.run) == [("interrupted",)]
