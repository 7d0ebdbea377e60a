"""Ctrl-C at any time: one line, exit code 130, nothing left that runs. Signals come from outside, to real processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.fleet.keeper import STATE_FILE, directory
from tests.lab import BOARD, ROOT, LabHome, alive, children, environment, wait_for

pytestmark = pytest.mark.lab
SAID = "farm: interrupted"


@pytest.mark.parametrize("module", ["typing", "typer", "farm.errors", "yaml", "pydantic", "farm.schedule"])
def test_at_an_import(module: str, tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "farm", "plan", "envs/campaigns/readahead.yaml"]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as farm:
        assert farm.stderr is not None
        began = False
        while line := farm.stderr.readline():
            # from the package on: before that it is Python that starts, not farm
            began = began or line.endswith(" farm.interrupt\n")
            if began and line.split("|")[-1].strip() == module:
                break
        else:
            pytest.fail(f"{module} was not imported")
        farm.send_signal(signal.SIGINT)
        rest = [one for one in farm.stderr.read().splitlines() if not one.startswith("import time:")]
    assert (farm.returncode, rest) == (130, [SAID])


@pytest.mark.parametrize(
    "what", ["raise KeyboardInterrupt", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"]
)
def test_in_code_that_is_compiled_at_run_time(what: str, tmp_path: Path) -> None:
    """Python would end such a program by the signal, behind the sentence."""
    program = f"from farm import cli\n\ndef app():\n    exec({what!r})\n\ncli.app = app\ncli.main()\n"
    (tmp_path / "program.py").write_text(program)
    words = [sys.executable, "-m", "program"]
    env = {**environment(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{SAID}\n")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[LabHome]:
    found = LabHome(tmp_path, environment(tmp_path))
    yield found
    found.farm("coordinator", "down")
    found.farm("virtual", "down")


def of_home(home: LabHome, text: str = "") -> list[int]:
    """Processes whose command line has both the home's path and a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home.path) in line and text in line:
            found.append(int(file.parent.name))
    return found


def interrupted(home: LabHome, words: list[str], moment: Callable[[int], object]) -> None:
    """Run farm, press Ctrl-C twice at a moment, and see that it ends as it should with all that it started."""
    farm = home.start(*words)
    try:
        wait_for("the moment", lambda: moment(farm.pid) or farm.poll() is not None, 60)
        started = children(farm.pid)
        for _ in range(2):
            farm.send_signal(signal.SIGINT)
        text, _ = farm.communicate(timeout=30)
    finally:
        farm.kill()
    assert farm.returncode == 130, text
    assert text.count(SAID) == 1
    assert "Traceback" not in text
    wait_for("all gone", lambda: not [pid for pid in started if alive(pid)], 10)


def test_while_the_lab_starts(home: LabHome) -> None:
    interrupted(home, ["virtual", "up", BOARD], lambda pid: of_home(home, "farm.virtual.supervisor"))
    wait_for("no lab", lambda: not of_home(home), 10)


def test_while_the_coordinator_starts(home: LabHome) -> None:
    home.farm("virtual", "up", BOARD)
    before = of_home(home)
    interrupted(home, ["coordinator", "up"], lambda pid: of_home(home, "farm.fleet.keeper"))
    wait_for("no coordinator", lambda: set(of_home(home)) <= set(before), 10)
    assert not (directory(home.path) / STATE_FILE).exists()


def test_while_images_are_built(home: LabHome, tmp_path: Path) -> None:
    home.env["FARM_CACHE"] = str(tmp_path / "cache")

    def fetching(pid: int) -> bool:
        for one in children(pid):
            with contextlib.suppress(OSError):  # it has ended since
                if b"apt" in Path(f"/proc/{one}/cmdline").read_bytes():
                    return True
        return False

    interrupted(home, ["virtual", "up", BOARD], fetching)
    images = tmp_path / "cache" / "images"
    assert not list(images.rglob("manifest.json")), "nothing is half built"
    assert not [path for path in images.iterdir() if path.is_dir()]
