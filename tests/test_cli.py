"""Bad input on the command line: one sentence and an exit code, never a traceback, never a wait."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOG = ROOT / "tests" / "corpus" / "dd-toybox-rockchip-before-after.txt"
READAHEAD = ROOT / "envs" / "campaigns" / "readahead.yaml"


class Farm:
    """`farm` in a process of its own, as people start it, with its home and working directory below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"

    def __call__(
        self, *words: object, stdout: int | None = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("LG_", "INFLUXDB_", "FARM_"))
        }
        return subprocess.run(
            [sys.executable, "-m", "farm", *map(str, words)],
            cwd=self.folder,
            env={**kept, "FARM_HOME": str(self.home), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=10,
            check=False,
        )

    def complaint(self, code: int, *words: object) -> str:
        """What `farm` says, which has to end with this code and be no traceback."""
        done = self(*words)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("farm: "), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr.strip()


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(tmp_path)


def imported(farm: Farm, run: str = "posted") -> Path:
    done = farm("import", "--as", "before", "--board", "rk3568", "--run", run, LOG)
    assert done.returncode == 0, done.stderr
    return farm.home / "farm.db"


def test_a_run_that_farm_measured_takes_no_imports(farm: Farm) -> None:
    database = imported(farm)
    with sqlite3.connect(database) as db:
        db.execute("UPDATE run SET settings = '{}'")  # what marks a run as imported is gone
    said = farm.complaint(2, "import", "--as", "after", "--board", "rk3568", "--run", "posted", LOG)
    assert (
        said == "farm: --run posted: farm measured this run itself; leave --run out, or name an imported run"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--as", "", "--board", "b"), "--as '' is no name"),
        (("--as", "v", "--board", "\x1b[31m"), "--board '?[31m' is no name"),
        (("--as", "v", "--board", "b", "--run", "latest"), "--run latest would hide the newest run"),
    ],
)
def test_names_that_no_list_could_show_are_refused(farm: Farm, options: tuple[str, ...], said: str) -> None:
    assert said in farm.complaint(2, "import", *options, LOG)
    assert not farm.home.exists()


@pytest.mark.parametrize("words", [("import",), ("push", "--config"), ("plan",)])
@pytest.mark.parametrize("kind", ["endless", "pipe", "directory"])
def test_what_is_no_file_is_neither_waited_for_nor_read_to_an_end_it_has_not(
    farm: Farm, words: tuple[str, ...], kind: str
) -> None:
    file = Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(file := farm.folder / "pipe")
    if kind == "directory":
        (file := farm.folder / "directory").mkdir()
    farm.complaint(2, *words, file)


def test_import_reads_a_pipe_that_has_a_writer(farm: Farm) -> None:
    reader, writer = os.pipe()
    os.write(writer, LOG.read_bytes())
    os.close(writer)
    done = subprocess.run(
        [sys.executable, "-m", "farm", "import", f"/dev/fd/{reader}"],
        pass_fds=(reader,), env={**os.environ, "FARM_HOME": str(farm.home)}, capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    os.close(reader)
    assert (done.returncode, "2 samples" in done.stdout) == (0, True), done.stderr


def test_a_home_that_is_a_file_is_said(farm: Farm) -> None:
    farm.home.write_text("not a directory")
    for words in (("boards",), ("check", "rk3568-evb"), ("import", "--as", "v", "--board", "b", LOG)):
        assert "set FARM_HOME to a directory" in farm.complaint(4, *words)


@pytest.mark.parametrize("words", [("runs",), ("compare", "--format", "mail"), ("show", "1", "--json")])
def test_an_output_on_a_full_disk_is_said(farm: Farm, words: tuple[str, ...]) -> None:
    imported(farm)
    full = os.open("/dev/full", os.O_WRONLY)
    done = farm(*words, stdout=full)
    os.close(full)
    assert (done.returncode, done.stderr.strip()) == (3, "farm: No space left on device; free some space")


@pytest.mark.parametrize("cell", ["boot.facts", "run.settings"])
@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_cell_is_said(farm: Farm, cell: str, text: str) -> None:
    table, column = cell.split(".")
    with sqlite3.connect(imported(farm)) as db:
        db.execute(f"UPDATE {table} SET {column} = ?", (text,))
    said = farm.complaint(4, "compare")
    assert str(farm.home / "farm.db") in said
    assert "the file is damaged (a cell holds no JSON" in said


def test_a_real_board_cannot_be_brought_up(farm: Farm) -> None:
    assert "rk3568-evb.yaml: farm.virtual: is the env of a real board" in farm.complaint(
        2, "virtual", "up", "rk3568-evb"
    )


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_that_the_database_could_not_keep_is_refused_before_the_run(farm: Farm, seed: str) -> None:
    done = farm("plan", READAHEAD, "--seed", seed)
    assert (done.returncode, "'--seed'" in done.stderr) == (2, True)
