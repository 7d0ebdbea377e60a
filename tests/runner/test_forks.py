"""Where the processes of boards come from, and that they end with the controller; the processes are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.campaign import load_campaign
from farm.errors import FarmError
from farm.fleet import boards as fleet
from farm.runner import forks
from farm.runner.messages import BoardOver
from farm.runner.task import Task
from tests.lab import ROOT, alive, children, environment, wait_for

CAMPAIGN = ROOT / "envs" / "campaigns" / "readahead.yaml"


def task(env_file: Path) -> Task:
    (board,) = fleet.load(["virt-rk3568"], Path("no-home"))
    return Task(
        "r", board.model_copy(update={"path": env_file}), load_campaign(CAMPAIGN), env_file.parent, {}
    )


@pytest.fixture
def stuck(tmp_path: Path) -> Task:
    """Its worker waits in the first thing that it does, for somebody who writes the env file."""
    os.mkfifo(tmp_path / "board.yaml")
    return task(tmp_path / "board.yaml")


@contextmanager
def process(job: forks.Job, of: Task) -> Iterator[forks.Process]:
    with forks.server() as fork:
        made = fork(job, of)
    yield made
    made.kill()
    made.join(5)
    made.pipe.close()


def test_a_worker_speaks_through_its_pipe_and_ends(tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text("targets: {main: {resources: {}, drivers: {NoSuchDriver: {}}}}\n")
    with process("work", task(tmp_path / "board.yaml")) as made:
        message = made.pipe.recv()
        assert isinstance(message, BoardOver)
        assert "NoSuchDriver" in message.reason
        assert message.exit_code == 2
        made.join(10)
        assert made.exitcode == 0
        assert not made.is_alive()


def test_one_that_cannot_switch_its_board_off_says_so_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text("targets: {main: {resources: {}, drivers: {NoSuchDriver: {}}}}\n")
    with process("switch_off", task(tmp_path / "board.yaml")) as made:
        made.join(10)
        assert made.exitcode == 2


def test_nothing_but_the_worker_stays_and_it_is_a_child_of_the_controller(stuck: Task) -> None:
    before = set(children(os.getpid()))
    with process("work", stuck) as made:
        assert set(children(os.getpid())) - before == {made.pid}
        assert made.is_alive()
        made.kill()
        made.join(5)
        assert made.exitcode == -signal.SIGKILL


def test_a_server_that_is_gone_is_an_error_in_words(stuck: Task) -> None:
    before = set(children(os.getpid()))
    with pytest.raises(FarmError, match="no process can be started for virt-rk3568"), forks.server() as fork:
        (server,) = set(children(os.getpid())) - before
        os.kill(server, signal.SIGKILL)
        fork("work", stuck)


CONTROLLER = """
import sys, time
from pathlib import Path
from farm.runner import forks
from tests.runner.test_forks import task
forks.start()
with forks.server() as fork:
    made = fork("work", task(Path(sys.argv[1])))
print(made.pid, flush=True)
time.sleep(60)
"""


def test_a_worker_does_not_outlive_a_controller_that_is_killed(stuck: Task, tmp_path: Path) -> None:
    words = [sys.executable, "-c", CONTROLLER, str(stuck.board.path)]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        worker = int(controller.stdout.readline())
        assert alive(worker)
        assert children(controller.pid) == [worker]
        controller.kill()
    wait_for("the worker to end", lambda: not alive(worker), 5)
