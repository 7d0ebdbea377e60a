"""Faults that real boards have, put upon a virtual one from outside; the counts are read from the database.

One run meets one fault in each of its boots: each boot is a power cycle of QEMU, so faults are put into one run.
"""

import http.server
import json
import os
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.board.line import Tapped
from tests.lab import BOARD, ROOT, LabHome, children, wait_for
from tests.qmp import qmp

pytestmark = pytest.mark.lab

CAMPAIGN = """\
name: faults
boards: [virt-rk3568]
boots: 4
trials: 1
variants:
  only: {baseline: true, args: sysrq_always_enabled}
workloads:
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 3s, timeout: 8s}
"""


@dataclass
class Faulted:
    """What came of the run: its id, what the user saw, the exit code, and what was done to it."""

    run: str
    text: str
    code: int
    damaged: int = 0
    flooded: int = 0
    boots: dict[tuple[int, int], tuple[str, str, int]] = field(default_factory=dict)


def env_file(folder: Path, changes: dict[str, str]) -> Path:
    """The board's env file with some of its lines changed."""
    text = (ROOT / "envs" / f"{BOARD}.yaml").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file = folder / f"{BOARD}.yaml"
    file.write_text(text)
    return file


def log(lab: LabHome, index: int, attempt: int) -> bytes:
    """What a boot of the run has said so far."""
    found = sorted((lab.path / "logs").glob(f"*-faults/{BOARD}/boot-{index:03d}-{attempt}.log"))
    return found[0].read_bytes() if found else b""


def measuring(lab: LabHome, index: int, attempt: int) -> bool:
    """Whether a boot of the run has begun its trials: the second script that it started said `go`."""
    return len(re.findall(rb"@q\w{3} go\r", log(lab, index, attempt))) >= 2


def sysrq(lab: LabHome, line: Tapped, key: str) -> None:
    """A break on the serial line and a letter: what a person at the console does to a board that is lost."""
    qmp(lab.path / "virtual" / BOARD, "chardev-send-break", id="console")
    time.sleep(0.2)
    line.type(key.encode())


@pytest.fixture(scope="module")
def faulted(lab_home: LabHome, tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.yaml").write_text(CAMPAIGN)
    board = lab_home.path / "virtual" / BOARD
    with Tapped(board / "console") as line:
        port = f'port: "{line.path}"'
        known = "  boot_seconds: 20\n"
        env = env_file(
            folder,
            {
                'port: !template "$LG_VIRTUAL_DIR/virt-rk3568/console"': port,
                known: known + "  deadlines: {boot: 45}\n",
            },
        )
        run = lab_home.start("run", str(folder / "faults.yaml"), "--board", str(env), "--seed", "1")
        try:
            wait_for("boot 0 measures", lambda: measuring(lab_home, 0, 0), 120)
            sysrq(lab_home, line, "c")
            wait_for("boot 0 measures again", lambda: measuring(lab_home, 0, 1), 120)
            # The batch may silence the kernel after the first of them, so the level is asked for with each.
            for _ in range(8):
                sysrq(lab_home, line, "9")
                sysrq(lab_home, line, "t")
                if log(lab_home, 0, 1).count(b"task:") > 100:
                    break
            wait_for("boot 1 starts its kernel", lambda: b"Starting kernel" in log(lab_home, 1, 0), 120)
            qmp(board, "stop")
            wait_for("boot 1 starts anew", lambda: b"Starting kernel" in log(lab_home, 1, 1), 120)
            line.damage = 1
            wait_for("boot 2 measures", lambda: measuring(lab_home, 2, 0), 120)
            time.sleep(0.5)
            qmp(board, "eject", device="card", force=True)
            wait_for("boot 3 measures", lambda: measuring(lab_home, 3, 0), 120)
            os.kill(worker(run.pid, line.path), signal.SIGKILL)
            text, _ = run.communicate(timeout=60)
        finally:
            run.kill()
        found = Faulted(re.search(r"^run: +(\S+)", text, re.MULTILINE)[1], text, run.returncode, line.damaged)
    for index, attempt, status, reason, counted in lab_home.rows(
        "SELECT boot_index, attempt, status, reason, console_bytes FROM boot WHERE run_id = ?", found.run
    ):
        found.boots[index, attempt] = (status, reason, json.loads(counted).get("refetched", 0))
    return found


def worker(controller: int, line: str) -> int:
    """The process that has the board's serial line open."""
    for pid in children(controller):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            if str(fd.readlink()) == line:
                return pid
    raise AssertionError("no process of the run has the console open")


def trials(lab: LabHome, run: str, index: int, attempt: int) -> list[tuple]:
    return lab.rows(
        "SELECT trial.status, trial.reason, (SELECT count(*) FROM sample WHERE trial_id = trial.id) FROM trial "
        "JOIN boot ON boot.id = boot_id WHERE run_id = ? AND boot_index = ? AND attempt = ?",
        run,
        index,
        attempt,
    )


def test_every_fault_cost_its_boot_only_and_all_others_count(faulted: Faulted) -> None:
    assert {key: status for key, (status, *_) in faulted.boots.items()} == {
        (0, 0): "failed",
        (0, 1): "ok",
        (1, 0): "failed",
        (1, 1): "ok",
        (2, 0): "ok",
    }, faulted.text


def test_a_panic_is_named_with_its_line_and_nothing_of_the_boot_counts(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert re.fullmatch(
        r"kernel panic: (\[ *[0-9.]+\] )?Kernel panic - not syncing: sysrq triggered crash",
        faulted.boots[0, 0][1],
    )
    assert trials(lab_home, faulted.run, 0, 0) == []
    (event,) = lab_home.rows(
        "SELECT body FROM event JOIN boot ON boot.id = boot_id WHERE run_id = ? AND boot_index = 0 AND attempt = 0",
        faulted.run,
    )
    said = json.loads(event[0])
    assert said["kind"] == "kernel panic"
    assert any("sysrq: Trigger a crash" in line for line in said["tail"])
    assert re.search(r"boot 1/4 +only: FAILED after .*kernel panic", faulted.text)


def test_a_flood_of_kernel_messages_neither_loses_nor_invents_a_result(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert log(lab_home, 0, 1).count(b"task:") > 100, "there was no flood"
    ((status, reason, samples),) = trials(lab_home, faulted.run, 0, 1)
    assert (status, reason) == ("ok", "")
    assert samples >= 3


def test_a_board_that_hangs_is_noticed_by_its_deadline(lab_home: LabHome, faulted: Faulted) -> None:
    assert faulted.boots[1, 0][1] == "no prompt within 45 s"
    assert trials(lab_home, faulted.run, 1, 0) == []
    assert re.search(r"boot 2/4 +only: FAILED after .*: no prompt within 45 s \(log: ", faulted.text)


def test_a_changed_byte_is_found_out_and_the_frame_asked_for_again(
    lab_home: LabHome, faulted: Faulted
) -> None:
    assert faulted.damaged == 1
    assert faulted.boots[1, 1][2] >= 1
    ((status, reason, _),) = trials(lab_home, faulted.run, 1, 1)
    assert (status, reason) == ("ok", "")


def test_a_card_that_is_pulled_fails_the_trial_and_leaves_no_number(
    lab_home: LabHome, faulted: Faulted
) -> None:
    ((status, reason, samples),) = trials(lab_home, faulted.run, 2, 0)
    assert status == "failed"
    assert reason
    assert samples == 0


def test_a_killed_worker_ends_its_board_and_is_said(lab_home: LabHome, faulted: Faulted) -> None:
    assert faulted.code == 3
    assert f"{BOARD}: gave up: its process died (exit -9)" in faulted.text
    assert lab_home.rows("SELECT status FROM run WHERE id = ?", faulted.run) == [("failed",)]
    # our own process failed, not the board
    assert lab_home.rows("SELECT count(*) FROM health WHERE reason LIKE '%process died%'") == [(0,)]


class _Switch(http.server.BaseHTTPRequestHandler):
    """A power switch that answers 500 to everything, or nothing at all until the test is over."""

    silent = False
    over = threading.Event()

    def do_GET(self) -> None:
        if type(self).silent:
            type(self).over.wait(60)
            return
        self.send_error(500)

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("silent", [False, True], ids=["answers 500", "does not answer"])
def test_a_broken_power_switch_is_named_and_goes_on_record(
    lab_home: LabHome, tmp_path: Path, silent: bool
) -> None:
    handler = type("Switch", (_Switch,), {"silent": silent, "over": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f'host: "http://127.0.0.1:{server.server_port}/{{index}}"'
        env = env_file(
            tmp_path,
            {
                'host: !template "$LG_VIRTUAL_PDU/virt-rk3568/{index}"': url,
                "  boot_seconds: 20\n": "  boot_seconds: 20\n  deadlines: {power: 2}\n",
            },
        )
        (tmp_path / "faults.yaml").write_text(CAMPAIGN)
        looks = (
            lab_home.rows("SELECT count(*) FROM health") if (lab_home.path / "farm.db").exists() else [(0,)]
        )
        done = lab_home.farm(
            "run", str(tmp_path / "faults.yaml"), "--board", str(env), check=False, timeout=60
        )
        handler.over.set()
        server.shutdown()
    assert done.returncode == 3
    said = "did not answer within 2 s" if silent else "500"
    (line,) = [line for line in done.stderr.splitlines() if "gave up" in line]
    assert line.startswith(f"{BOARD}: gave up: {BOARD}: ")
    assert said in line
    (last,) = lab_home.rows("SELECT ok, origin, reason FROM health ORDER BY id DESC LIMIT 1")
    assert last[:2] == (0, "run")
    assert said in last[2]
    assert lab_home.rows("SELECT count(*) FROM health")[0][0] == looks[0][0] + 1
    run = lab_home.rows("SELECT id, status FROM run ORDER BY started DESC LIMIT 1")[0]
    assert run[1] == "failed"
    assert lab_home.rows("SELECT count(*) FROM boot WHERE run_id = ? AND status = 'ok'", run[0]) == [(0,)]
