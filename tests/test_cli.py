"""Bad input on the command line: one sentence and an exit code, never a traceback, never a wait."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.campaign import load_campaign
from farm.cli import main
from farm.errors import UserError
from farm.fleet import boards
from farm.runner.task import make_bundle

ROOT = Path(__file__).parents[1]
LOG = ROOT / "tests" / "corpus" / "dd-toybox-rockchip-before-after.txt"
BANNER = b"Linux version 6.12.9 (build@host) (gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP Thu Jan 9 12:00:00 UTC 2025\n\0"
READAHEAD = ROOT / "envs" / "campaigns" / "readahead.yaml"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Farm:
    """`farm` with its home and working directory below `folder`: in this process, or by `start` in one of its own."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, caught: pytest.CaptureFixture[str]) -> None:
        self.folder, self.home = folder, folder / "home"
        self._patch, self._caught = patch, caught
        for name in os.environ:
            if name.startswith(("LG_", "INFLUXDB_", "FARM_")):
                patch.delenv(name)
        patch.setenv("FARM_HOME", str(self.home))
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.chdir(folder)

    def __call__(self, *words: object) -> Done:
        self._patch.setattr(sys, "argv", ["farm", *map(str, words)])
        self._caught.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._caught.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)

    def complaint(self, code: int, *words: object) -> str:
        """What `farm` says, which has to end with this code."""
        done = self(*words)
        assert done.code == code, done.err
        assert done.err.startswith("farm: "), done.err
        return done.err.strip()

    def start(self, *words: object, stdout: int = subprocess.PIPE, files: tuple[int, ...] = ()) -> Done:
        """As people start it; ten seconds are a hang."""
        command = [sys.executable, "-m", "farm", *map(str, words)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pass_fds=files,
            text=True,
            timeout=10,
            check=False,
        )
        return Done(done.returncode, done.stdout or "", done.stderr)


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Farm:
    return Farm(tmp_path, monkeypatch, capsys)


def imported(farm: Farm, run: str = "posted") -> Path:
    done = farm("import", "--as", "before", "--board", "rk3568", "--run", run, LOG)
    assert done.code == 0, done.err
    return farm.home / "farm.db"


def test_a_run_that_farm_measured_takes_no_imports(farm: Farm) -> None:
    database = imported(farm)
    with sqlite3.connect(database) as db:
        db.execute("UPDATE run SET settings = '{}'")  # what marks a run as imported is gone
    said = farm.complaint(2, "import", "--as", "after", "--board", "rk3568", "--run", "posted", LOG)
    assert (
        said == "farm: --run posted: farm measured this run itself; leave --run out, or name an imported run"
    )


def test_an_import_makes_a_run_of_its_own_even_within_a_second(farm: Farm) -> None:
    words = [farm("import", "--as", "before", "--board", board, LOG).out for board in "ab"]
    names = [re.search(r"\b\d{8}-\d{6}-imported-[0-9a-f]{6}\b", text) for text in words]
    assert all(names) and names[0][0][-6:] != names[1][0][-6:]  # type: ignore[index]


def test_a_posted_sample_counts_once(farm: Farm) -> None:
    database = imported(farm)
    said = farm.complaint(
        2, "import", "--as", "before", "--board", "rk3568", "--run", "posted", "--samples", "2", LOG
    )
    assert said.endswith(
        "run posted has this sample already for before on rk3568; choose others with --samples, or another --as"
    )
    assert (
        farm("import", "--as", "after", "--board", "rk3568", "--run", "posted", "--samples", "2", LOG).code
        == 0
    )
    with sqlite3.connect(database) as db:
        found = db.execute(
            "SELECT variant, count(*) FROM boot JOIN trial ON boot_id = boot.id GROUP BY variant"
        ).fetchall()
    assert found == [("after", 1), ("before", 2)]


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
@pytest.mark.parametrize("kind", ["endless", "pipe"])
def test_what_is_no_file_is_neither_waited_for_nor_read_to_an_end_it_has_not(
    farm: Farm, words: tuple[str, ...], kind: str
) -> None:
    file = Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(file := farm.folder / "pipe")
    done = farm.start(*words, file)
    assert (done.code, done.err.startswith("farm: "), "Traceback" in done.err) == (2, True, False), done.err


def test_import_reads_a_pipe_that_has_a_writer(farm: Farm) -> None:
    reader, writer = os.pipe()
    os.write(writer, LOG.read_bytes())
    os.close(writer)
    done = farm.start("import", f"/dev/fd/{reader}", files=(reader,))
    os.close(reader)
    assert (done.code, "2 samples" in done.out) == (0, True), done.err


def test_a_home_that_is_a_file_is_said(farm: Farm) -> None:
    farm.home.write_text("not a directory")
    for words in (("boards",), ("check", "rk3568-evb"), ("import", "--as", "v", "--board", "b", LOG)):
        assert "set FARM_HOME to a directory" in farm.complaint(4, *words)


@pytest.mark.parametrize("words", [("runs",), ("compare", "--format", "mail")])
def test_an_output_on_a_full_disk_is_said(farm: Farm, words: tuple[str, ...]) -> None:
    imported(farm)
    full = os.open("/dev/full", os.O_WRONLY)
    done = farm.start(*words, stdout=full)
    os.close(full)
    assert (done.code, done.err.strip()) == (3, "farm: No space left on device; free some space")


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
    assert (done.code, "'--seed'" in done.err) == (2, True)


def test_an_env_file_given_as_a_campaign_is_said_and_nothing_else(farm: Farm) -> None:
    said = farm.complaint(2, "plan", ROOT / "envs" / "virt-rk3568.yaml")
    assert said.splitlines() == [
        f"farm: {ROOT}/envs/virt-rk3568.yaml:7: targets: this is a board's env file and no campaign; name a campaign,"
        " and the board with --board or boards:"
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        (
            "boards: [virt-rk3568, virt-mt8395, virt-th1520]",
            "boards: [nope]",
            5,
            "boards[0]: unknown board 'nope'; known are ",
        ),
        (
            "boards: [virt-rk3568, virt-mt8395, virt-th1520]",
            "boards: [a/b.yaml]",
            5,
            "boards[0]: a/b.yaml: no such env file",
        ),
        (
            "baseline: true",
            "baseline: true\n    kernel: nope",
            13,
            "variants.ra128.kernel: image 'nope' is neither",
        ),
        (
            "baseline: true",
            "baseline: true\n    dtb: nope",
            13,
            "variants.ra128.dtb: image 'nope' is neither",
        ),
        (
            "baseline: true",
            "baseline: true\n    kernel: text",
            13,
            "variants.ra128.kernel: {}/text: is not a kernel",
        ),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_what_a_campaign_names_wrongly_is_said_with_line_and_key(
    farm: Farm, monkeypatch: pytest.MonkeyPatch, command: str, old: str, new: str, line: int, said: str
) -> None:
    if command == "run":  # as if the virtual board were up
        monkeypatch.setattr("farm.fleet.boards.ready", lambda names, home, **_: boards.load(names, home))
    (farm.folder / "text").write_text("no kernel\n")
    campaign = farm.folder / "c.yaml"
    campaign.write_text(READAHEAD.read_text().replace(old, new, 1))
    begin = f"farm: {campaign}:{line}: {said.format(farm.folder)}"
    assert farm.complaint(2, command, campaign)[: len(begin)] == begin


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kernel: {start: 1MiB, size: 96MiB}", "kernel: {start: 1MiB, size: 1MiB}", "slots.kernel: "),
        ("      initrd: {start: 97MiB, size: 64MiB}\n", "", "slots.initrd: the variant has a initrd"),
    ],
)
def test_a_slot_that_cannot_hold_what_is_flashed_is_said_before_power_is_touched(
    farm: Farm, old: str, new: str, said: str
) -> None:
    env = farm.folder / "board.yaml"
    text = (ROOT / "envs" / "virt-rk3568.yaml").read_text()
    assert old in text
    kernel, initrd = farm.folder / "Image", farm.folder / "initrd"
    kernel.write_bytes(BANNER.ljust(2 << 20, b"\0"))
    initrd.write_bytes(b"070701")
    text = text.replace(
        "golden: {kernel: kernel-6.12, initrd: initrd, modules: modules-6.12}",
        f"golden: {{kernel: {kernel}, initrd: {initrd}}}",
    )
    env.write_text(text.replace(old, new))
    campaign = load_campaign(READAHEAD)
    (board,) = boards.load([str(env)], farm.home)
    with pytest.raises(UserError) as wrong:
        make_bundle(board, campaign, campaign.variants["ra128"], farm.home)
    assert str(wrong.value).startswith(f"{env}: farm.flash.{said}")


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1"])
def test_signs_that_standard_output_does_not_know_are_escaped(
    farm: Farm, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    log = Path(os.fsdecode(os.fsencode(farm.folder) + b"/\xff.txt"))
    log.write_bytes(LOG.read_bytes())
    assert farm("import", "--as", "\u65e5\u672c", "--board", "b", "--run", "posted", LOG).code == 0
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    for words in (
        ("import", log),
        ("compare",),
        ("compare", "--format", "markdown"),
        ("compare", "--format", "mail"),
    ):
        done = farm.start(*words)
        assert (done.code, done.err) == (0, ""), words


def test_a_report_does_not_take_the_place_of_the_results(farm: Farm) -> None:
    database = imported(farm)
    before = database.read_bytes()
    (farm.folder / "link.html").symlink_to(database)
    for output in (database, "home/farm.db", "link.html"):
        said = farm.complaint(2, "report", "posted", "-o", output)
        assert said == f"farm: {output}: is the database of the results; give another file"
    assert database.read_bytes() == before


@pytest.mark.parametrize("words", [("run", READAHEAD), ("check", "virt-rk3568")])
def test_a_coordinator_that_is_named_by_an_empty_variable_is_not_passed_over(
    farm: Farm, words: tuple[object, ...]
) -> None:
    assert farm.complaint(2, *words, "--coordinator", "") == (
        "farm: --coordinator: is empty; give HOST:PORT, or leave it out for boards of this machine"
    )


def test_a_page_for_standard_output_is_utf8_in_any_locale(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(farm)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = farm.start(
        "report", "posted", "-o", "-", stdout=os.open(farm.folder / "page.html", os.O_CREAT | os.O_WRONLY)
    )
    assert (done.code, done.err) == (0, "")
    assert (farm.folder / "page.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.parametrize(("words", "code"), [("runs >&-", 0), ("runs 2>&-", 0), ("import - <&-", 2)])
def test_a_closed_stream_is_an_empty_one(farm: Farm, words: str, code: int) -> None:
    imported(farm)
    command = f'exec "{sys.executable}" -m farm {words}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_ctrl_c_is_said_and_no_traceback(farm: Farm) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"the beginning of a log, whose end farm waits for\n")
    command = [sys.executable, "-m", "farm", "import", "-"]
    with subprocess.Popen(command, stdin=reader, stderr=subprocess.PIPE, text=True) as running:
        while struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0]:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=5)[1]
    os.close(reader)
    os.close(writer)
    assert (running.returncode, said) == (130, "farm: interrupted\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "start: 513MiB, size: 256MiB",
            "start: 512MiB, size: 256MiB",
            "61: farm.scratch: raw and files overlap",
        ),
        (
            "start: 513MiB, size: 256MiB",
            "start: 513MiB, size: 512MiB",
            "53: farm: scratch.files ends at byte 1074790400",
        ),
        ("load: {kernel: 0x40400000", "load: {kernel: -1", "69: farm.flash.load.kernel: -1: should be"),
        (
            "  boot_seconds: 20",
            "  deadlines: {boot: 0}",
            "74: farm.deadlines.boot: 0: should be greater than 0",
        ),
    ],
)
def test_an_env_that_cannot_be_meant_is_refused_from_its_file_alone(
    farm: Farm, old: str, new: str, said: str
) -> None:
    env = farm.folder / "board.yaml"
    text = (ROOT / "envs" / "virt-rk3568.yaml").read_text()
    assert old in text
    env.write_text(text.replace(old, new))
    assert farm.complaint(2, "plan", READAHEAD, "--board", env).startswith(f"farm: {env}:{said}")


def test_farm_says_its_version(farm: Farm) -> None:
    done = farm("--version")
    assert (done.code, done.out, done.err) == (0, "farm 0.1.0\n", "")
