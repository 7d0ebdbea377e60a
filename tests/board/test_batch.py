"""The batch under the shells that boards have, over consoles that damage what passes. No QEMU, but nothing pretended:
the shells and tools are real, behind a pseudo terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.board import batch
from farm.board.batch import BatchResult, Job, Places, Progress, capture, run_batch
from farm.board.upload import Lines, new_marker, regain
from farm.errors import BoardError
from tests.board.boards import ALWAYS, SHELLS, Disturbed, Printk, PtyBoard, tools_dir

USUAL = "/usr/bin:/bin:/usr/sbin:/sbin"
HOSTILE = bytes(range(256)) * 3 + b"\x1b[2J\x1b[6n\x00\x00\r\n@farm 1/1 x 0 5\r\n# " + b"\xff\x03\x04\x1a" * 9


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Files in place of those of this machine's kernel; results below the test's directory."""
    (tmp_path / "printk").write_text("7\t4\t1\t7\n")
    (tmp_path / "results").mkdir()
    return Places(
        (str(tmp_path / "results"),),
        str(tmp_path / "printk"),
        str(tmp_path / "runtime"),
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These boards answer at once or never."""
    monkeypatch.setattr(Lines, "patience", 1.0)


Boot = Callable[..., PtyBoard]


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    boards: list[PtyBoard] = []

    def start(shell: str = "ash", path: str | Path = USUAL, **env: str) -> PtyBoard:
        home = {"PATH": str(path), "TERM": "vt100", "PS1": "# ", "HOME": str(tmp_path), **env}
        boards.append(PtyBoard(SHELLS[shell], home))
        return boards[-1]

    yield start
    for board in boards:
        board.close()


def cancel(board: PtyBoard) -> None:
    """What the next batch does first: Ctrl-C until the shell is at its prompt."""
    assert regain(Lines(board, new_marker()), 30.0)


def running(text: str) -> list[str]:
    """Command lines of this machine's processes that contain text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and "pytest" not in line:
            found.append(line)
    return found


def clean(places: Places) -> bool:
    """Nothing of the batch is left, and the console is as it was."""
    return not list(Path(places.temporary[0]).iterdir()) and Path(places.printk).read_text().startswith("7")


every_shell = pytest.mark.parametrize("shell", sorted(SHELLS))


@every_shell
def test_output_comes_back_byte_for_byte(shell: str, boot: Boot, places: Places, tmp_path: Path) -> None:
    (tmp_path / "hostile").write_bytes(HOSTILE)
    board = boot(shell)
    steps: list[Progress] = []
    result = run_batch(
        board,
        [
            Job("bin", f"cat {tmp_path}/hostile; exit 3"),
            Job(
                "both",
                "printf '%s\\n' 'it'\"'\"'s $HOME \\n'; echo wrong >&2",
                ("echo one", "echo two"),
                9.0,
                "echo 45000",
            ),
            Job("empty", ":"),
        ],
        on_progress=steps.append,
        places=places,
    )
    binary, both, empty = result.jobs
    assert (binary.rc, binary.raw) == (3, {"out": HOSTILE})
    assert both.raw == {
        "before": b"one\ntwo\n",
        "pre": b"45000\n",
        "out": b"it's $HOME \\n\nwrong\n",
        "post": b"45000\n",
    }
    assert (empty.rc, empty.raw, empty.skipped, empty.timed_out) == (0, {"out": b""}, None, False)
    assert [(step.done, step.total, step.job, step.rc) for step in steps] == [
        (1, 3, "bin", 3),
        (2, 3, "both", 0),
        (3, 3, "empty", 0),
    ]
    assert (result.encoding, result.digest, result.refetched, result.silent) == (
        "base64",
        "sha256sum",
        0,
        True,
    )
    assert result.bytes_down == len(board.seen) and result.bytes_up == len(board.sent)
    assert board.at_prompt() and clean(places)


@every_shell
def test_the_turn_is_held_while_jobs_run_and_not_while_bytes_go_up_or_come_back(
    shell: str, boot: Boot, places: Places, tmp_path: Path
) -> None:
    board, sent = boot(shell), []

    @contextmanager
    def turn() -> Iterator[None]:
        time.sleep(2.5)  # somebody else has it, for longer than the board's patience
        sent.append(bytes(board.sent))
        (tmp_path / "turn").touch()
        yield
        (tmp_path / "turn").unlink()
        sent.append(bytes(board.sent))

    look = f"test -e {tmp_path}/turn && echo mine"
    result = run_batch(board, [Job("a", look), Job("b", look)], places=places, turn=turn())
    assert [job.raw["out"] for job in result.jobs] == [b"mine\n", b"mine\n"]
    up, over = (len(one) for one in sent)
    assert up > 500
    assert over - up < 200, "all but the word to start was on the board before"
    assert not re.search(rb"\bf 0 \d+\n", sent[1])
    assert re.search(rb"\bf 0 \d+\n", bytes(board.sent))


def test_a_turn_is_given_back_when_the_board_dies(boot: Boot, places: Places) -> None:
    board, held = boot(), []

    @contextmanager
    def turn() -> Iterator[None]:
        held.append(True)
        try:
            yield
        finally:
            held.append(False)

    with pytest.raises(BoardError):
        run_batch(board, [Job("a", f"kill -9 {board.pid}; sleep 5", timeout_s=3)], places=places, turn=turn())
    assert held == [True, False]


@every_shell
def test_a_failing_line_before_skips_its_job_alone(shell: str, boot: Boot, places: Places) -> None:
    lines = ("echo fine", "echo no card >&2; (exit 7)", "echo never")
    skipped, ran = run_batch(
        boot(shell), [Job("a", "echo ran", lines), Job("b", "echo ran")], places=places
    ).jobs
    assert (skipped.rc, skipped.raw) == (7, {"before": b"fine\nno card\n"})
    assert skipped.skipped == "a line before it failed with exit status 7"
    assert (ran.rc, ran.raw, ran.skipped) == (0, {"out": b"ran\n"}, None)


@every_shell
def test_a_hanging_command_is_ended_with_all_its_processes(shell: str, boot: Boot, places: Places) -> None:
    # fio's job processes have sessions of their own (setsid), and these ignore SIGTERM
    stubborn = "echo started; for n in 1 2; do setsid sh -c 'trap \"\" TERM; sleep 98761; :' & done; wait"
    started = time.monotonic()
    hung, after = run_batch(
        boot(shell), [Job("hang", stubborn, timeout_s=2.0), Job("after", "echo alive")], places=places
    ).jobs
    assert hung.timed_out and hung.raw["out"] == b"started\n" and hung.rc != 0
    assert 2 <= hung.seconds < 9 and time.monotonic() - started < 20
    assert (after.rc, after.raw["out"], after.timed_out) == (0, b"alive\n", False)
    assert not running("sleep 98761") and clean(places)


def test_lines_before_have_their_own_deadline(boot: Boot, places: Places) -> None:
    job = Job("a", "echo ran", ("sleep 98762",), before_timeout_s=1.0)
    (result,) = run_batch(boot(), [job], places=places).jobs
    assert result.skipped == "the lines before it did not end within 1 s" and not result.timed_out


@every_shell
def test_many_short_jobs_do_not_wait_for_their_watchdogs(shell: str, boot: Boot, places: Places) -> None:
    started = time.monotonic()
    result = run_batch(boot(shell), [Job(f"{n}", ":", timeout_s=98767.0) for n in range(25)], places=places)
    assert [job.rc for job in result.jobs] == [0] * 25
    assert time.monotonic() - started < 20
    assert not running("sleep 98767")


def test_thirty_megabytes_are_cut_and_the_command_lives(boot: Boot, places: Places) -> None:
    loud, after = run_batch(
        boot(),
        [Job("loud", "head -c 30000000 /dev/zero; echo $? >&2; exit 5"), Job("after", "echo x")],
        places=places,
    ).jobs
    assert loud.raw["out"] == bytes(1 << 20) and loud.cut == {"out"} and loud.rc == 5
    assert (after.raw["out"], after.cut) == (b"x\n", frozenset())


def test_time_is_the_boards_own(boot: Boot, places: Places) -> None:
    (job,) = run_batch(
        boot(), [Job("a", "cat /proc/uptime; sleep 1.5; cat /proc/uptime")], places=places
    ).jobs
    first, last = (float(line.split()[0]) for line in job.raw["out"].decode().splitlines())
    assert job.started <= first < job.started + 0.5
    # in hundredths, as the kernel counts: differences of these decimals are not exact in floating point
    assert 150 <= round(100 * (last - first)) <= round(100 * job.seconds) < 250


def test_the_console_is_silent_while_jobs_run(boot: Boot, places: Places) -> None:
    result = run_batch(boot(), [Job("a", f"cat {places.printk}")], places=places)
    assert result.jobs[0].raw["out"].split()[0] == b"1" and result.silent
    assert Path(places.printk).read_text() == "7\n"


def test_a_console_that_cannot_be_silenced_is_said(boot: Boot, places: Places, tmp_path: Path) -> None:
    loud = Places(places.temporary, "/proc/farm/none", places.runtime)
    assert not run_batch(boot(), [Job("a", ":")], places=loud).silent


KERNEL = "[    9.{:06d}] mmc0: Timeout waiting for hardware interrupt.\n"


def with_dmesg(tmp_path: Path) -> tuple[Path, Path]:
    """A PATH with a dmesg that shows a file, which jobs may append to."""
    log, tools = tmp_path / "dmesg.log", tmp_path / "dmesg-bin"
    tools.mkdir()
    (tools / "dmesg").write_text(f"#!/bin/sh\ncat {log}\n")
    (tools / "dmesg").chmod(0o755)
    log.write_text("[    0.000000] Booting Linux\n")
    return log, tools


def test_kernel_lines_belong_to_their_job(boot: Boot, places: Places, tmp_path: Path) -> None:
    log, tools = with_dmesg(tmp_path)
    lines = [KERNEL.format(n) for n in range(4)]
    jobs = [
        Job("two", f"echo '{lines[0].strip()}' >>{log}; echo '{lines[1].strip()}' >>{log}"),
        Job("none", ":"),
        Job("three", f"echo '{lines[3].strip()}' >>{log}", (f"echo '{lines[2].strip()}' >>{log}",)),
        Job("many", f"seq 1 500 >>{log}"),
    ]
    two, none, three, many = run_batch(boot("dash", f"{tools}:{USUAL}"), jobs, places=places).jobs
    assert two.raw["kernel"].decode() == lines[0] + lines[1]
    assert "kernel" not in none.raw
    assert three.raw["kernel"].decode() == lines[2] + lines[3]
    assert many.raw["kernel"].decode() == "".join(f"{n}\n" for n in range(301, 501))


def test_a_kernel_log_that_has_turned_over_is_kept(boot: Boot, places: Places, tmp_path: Path) -> None:
    log, tools = with_dmesg(tmp_path)
    (job,) = run_batch(boot("dash", f"{tools}:{USUAL}"), [Job("a", f"seq 1 9 >{log}")], places=places).jobs
    assert job.raw["kernel"] == b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"


PACKERS = {"xz": "xz", "bzip2": "bzip2", "gzip": "gzip"}


@pytest.mark.parametrize("shell", ["dash", "mksh", "bash"])
@pytest.mark.parametrize(
    ("extra", "encoding", "compression", "digest"),
    [
        (
            {**PACKERS, "base64": "base64", "sha256sum": "sha256sum", "stty": "stty"},
            "base64",
            "xz",
            "sha256sum",
        ),
        ({"gzip": "gzip", "base64": "base64", "sha256sum": "sha256sum"}, "base64", "gzip", "sha256sum"),
        ({"base64": "base64", "md5sum": "md5sum", "stty": "stty"}, "base64", "cat", "md5sum"),
        (
            {"bzip2": "bzip2", "uuencode": "busybox", "cksum": "cksum", "printf": "printf"},
            "uuencode",
            "bzip2",
            "cksum",
        ),
        (
            {"gzip": "gzip", "od": "od", "printf": "printf", "sha256sum": "sha256sum"},
            "od",
            "gzip",
            "sha256sum",
        ),
    ],
    ids=["all", "no-stty", "no-gzip", "uuencode", "od"],
)
def test_boards_that_lack_tools(
    shell: str,
    extra: dict[str, str],
    encoding: str,
    compression: str,
    digest: str,
    boot: Boot,
    places: Places,
    tmp_path: Path,
) -> None:
    tools = tools_dir(tmp_path / "bin", {name: name for name in ALWAYS} | extra)
    (tmp_path / "hostile").write_bytes(HOSTILE * 20)
    board = boot(shell, tools)
    result = run_batch(board, [Job("a", f"cat {tmp_path}/hostile")], places=places)
    assert result.jobs[0].raw["out"] == HOSTILE * 20
    assert (result.encoding, result.compression, result.digest) == (encoding, compression, digest)
    assert board.at_prompt() and clean(places)


@pytest.mark.parametrize("applets", ["toybox", "busybox"])
def test_a_userland_of_applets_only(applets: str, boot: Boot, places: Places, tmp_path: Path) -> None:
    # Debian's toybox 0.8.9 has no sh, gzip, dd or stty: an Android-like board has mksh beside it
    names = [
        "base64",
        "cat",
        "cksum",
        "cut",
        "grep",
        "head",
        "md5sum",
        "mkdir",
        "mv",
        "od",
        "rm",
        "setsid",
        "sha256sum",
        "sleep",
        "tail",
        "true",
        "wc",
    ]
    tools = tools_dir(tmp_path / "bin", dict.fromkeys(names, applets))
    board = boot("mksh", tools)
    stubborn = Job("hang", "echo on; sleep 98763", timeout_s=1.0)
    hung, after = run_batch(board, [stubborn, Job("after", "echo x; exit 4")], places=places).jobs
    assert hung.timed_out and hung.raw["out"].startswith(b"on\n") and not running("sleep 98763")
    assert (after.rc, after.raw["out"]) == (4, b"x\n")
    assert board.at_prompt() and clean(places)


@pytest.mark.parametrize(
    ("missing", "message"),
    [("sha256sum", "none of sha256sum, md5sum, cksum"), ("base64", "none of base64, uuencode, od")],
)
def test_what_cannot_be_done_without_is_named(
    missing: str, message: str, boot: Boot, places: Places, tmp_path: Path
) -> None:
    names = {*ALWAYS, "base64", "sha256sum"} - {missing}
    tools = tools_dir(tmp_path / "bin", {name: name for name in names})
    with pytest.raises(BoardError, match=message):
        run_batch(boot("dash", tools), [Job("a", ":")], places=places)


def test_no_writable_directory_is_named(boot: Boot, places: Places) -> None:
    nowhere = Places(("/proc/none", "/sys/none"), places.printk, places.runtime)
    board = boot()
    with pytest.raises(BoardError, match="none of /proc/none, /sys/none is a directory that can be written"):
        run_batch(board, [Job("a", ":")], places=nowhere)
    assert board.at_prompt()


def test_a_tmpfs_is_preferred(boot: Boot, places: Places, tmp_path: Path) -> None:
    either = Places((str(tmp_path / "results"), "/dev/shm"), places.printk, places.runtime)
    (job,) = run_batch(boot(), [Job("a", f"ls {tmp_path}/results")], places=either).jobs
    assert (job.rc, job.raw["out"]) == (0, b""), "it is not here, so it is in the other"


@pytest.mark.parametrize(
    ("shell", "every"), [("ash", 1500), ("mksh", 1500), ("dash", 1500), ("bash", 1500), ("ash", 200)]
)
def test_kernel_lines_anywhere(shell: str, every: int, boot: Boot, places: Places, tmp_path: Path) -> None:
    (tmp_path / "hostile").write_bytes(HOSTILE * 4)
    noise = Printk(every, every)
    board = boot(shell)
    result = run_batch(
        Disturbed(board, noise), [Job(f"{n}", f"cat {tmp_path}/hostile") for n in range(3)], places=places
    )
    assert [job.raw for job in result.jobs] == [{"out": HOSTILE * 4}] * 3
    assert noise.count > 0
    assert board.at_prompt() and clean(places)


class Once:
    """Damages the first piece of console output that a pattern matches, `times` times."""

    def __init__(self, pattern: bytes, damage: Callable[[bytes], bytes], times: int = 1) -> None:
        self.pattern, self.damage, self.left, self.held = re.compile(pattern, re.DOTALL), damage, times, b""

    def __call__(self, data: bytes) -> bytes:
        *lines, rest = (self.held + data).split(b"\n")
        # a prompt has no end of line, but what is to be damaged begins with our marker
        self.held, rest = (rest, b"") if b"@" in rest else (b"", rest)
        return b"".join(self._line(line + b"\n") for line in lines) + rest

    def _line(self, line: bytes) -> bytes:
        if self.left and self.pattern.search(line):
            self.left -= 1
            return self.damage(line)
        return line


def flip(line: bytes) -> bytes:
    middle = len(line) // 2
    return line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :]


FRAME = rb"^@q\w{3} 0 \d+ \S+ [0-9a-f]{64}"
MANIFEST = rb"^@q\w{3} = \d+ "


@pytest.mark.parametrize(
    "damage", [flip, lambda line: b"", lambda line: line[:9] + line[29:]], ids=["flip", "lost", "hole"]
)
@pytest.mark.parametrize(
    ("pattern", "refetched"),
    [
        (FRAME, 1),
        (MANIFEST, 0),
        (rb"@farm ", 0),
        (rb"^@q\w{3} go", 0),
        (rb"^@q\w{3} bye", 0),
        (rb"^@q\w{3} \d+\r", 0),
    ],
    ids=["frame", "manifest", "progress", "go", "bye", "chunk-ack"],
)
def test_one_damaged_line(
    pattern: bytes, refetched: int, damage: Callable[[bytes], bytes], boot: Boot, places: Places
) -> None:
    board, wire = boot(), None
    wire = Disturbed(board, disturbance := Once(pattern, damage))
    result = run_batch(wire, [Job("a", "seq 1 999")], places=places)
    assert disturbance.left == 0
    assert result.jobs[0].raw["out"] == b"".join(b"%d\n" % n for n in range(1, 1000))
    assert result.refetched == refetched
    assert board.at_prompt() and clean(places)


def test_a_frame_that_never_comes_right_is_named(boot: Boot, places: Places) -> None:
    wire = Disturbed(boot(), Once(rb"^@q\w{3} 2304 \d+ \S+ ", flip, times=99))
    with pytest.raises(
        BoardError, match=r"^batch: frame 1 \(from byte 2304 of \d+\) came damaged or not at all, 12 times"
    ):
        run_batch(wire, [Job("a", "head -c 9999 /dev/urandom")], places=places)


@pytest.mark.parametrize("every", [2000, 300])
def test_a_line_that_loses_bytes_towards_the_board(every: int, boot: Boot, places: Places) -> None:
    # as a UART without flow control does, in the chunks of the script
    import random

    dice, lost = random.Random(every), 0

    def up(data: bytes) -> bytes:
        nonlocal lost
        kept = bytes(byte for byte in data if not data.startswith(b"+ ") or dice.random() * every >= 1)
        lost += len(data) - len(kept)
        return kept

    board = boot("bash")
    result = run_batch(Disturbed(board, up=up), [Job("a", "echo x")], places=places)
    assert result.jobs[0].raw["out"] == b"x\n" and lost > 0


def test_bytes_changed_towards_the_board_never_run(boot: Boot, places: Places, tmp_path: Path) -> None:
    changed = 0

    def up(data: bytes) -> bytes:
        nonlocal changed
        if data.startswith(b"+ ") and changed < 2:
            changed += 1
            return data[:40] + bytes([data[40] ^ 1]) + data[41:]
        return data

    result = run_batch(Disturbed(boot(), up=up), [Job("a", "echo x")], places=places)
    assert result.jobs[0].raw["out"] == b"x\n" and changed == 2


def test_the_runtime_goes_up_once_a_boot(boot: Boot, places: Places) -> None:
    board = boot()
    assert capture(board, "echo facts; exit 3", 9.0, places=places) == b"facts\n"
    first = len(board.sent)
    assert capture(board, "echo facts; exit 3", 9.0, places=places) == b"facts\n"
    assert len(board.sent) - first < first / 2
    # and one that was tampered with is not used
    Path(places.runtime).write_text("echo tampered\n")
    assert capture(board, "echo facts", 9.0, places=places) == b"facts\n"
    assert Path(places.runtime).read_text() != "echo tampered\n"


def test_capture_says_when_a_script_does_not_end(boot: Boot, places: Places) -> None:
    with pytest.raises(BoardError, match="a script on the board did not end within 1 s"):
        capture(boot(), "sleep 98764", 1.0, places=places)


class Stop(Exception):
    pass


def stop(step: Progress) -> None:
    time.sleep(1)
    raise Stop


@every_shell
def test_cancel_ends_everything(shell: str, boot: Boot, places: Places) -> None:
    board = boot(shell)
    with pytest.raises(Stop):
        run_batch(board, [Job("a", ":"), Job("b", "setsid sleep 98765")], on_progress=stop, places=places)
    assert running("sleep 98765")
    cancel(board)
    assert not running("sleep 98765")
    assert board.at_prompt() and clean(places)
    # and the next batch runs
    assert capture(board, "echo x", 9.0, places=places) == b"x\n"


def test_cancel_while_preparing_ends_the_heartbeat_too(boot: Boot, places: Places) -> None:
    board = boot()
    jobs = [Job("a", ":"), Job("b", ":", ("sleep 98764",))]
    with pytest.raises(Stop):
        run_batch(board, jobs, on_progress=stop, places=places)
    assert running("sleep 98764")
    cancel(board)
    assert not running("sleep 98764")
    seen = len(board.seen)
    board.ask("sleep 6; echo is-$((6*7))-here")
    board.expect(b"is-42-here")
    assert b"+2" not in board.seen[seen:]


def test_cancel_at_a_prompt_is_harmless(boot: Boot, places: Places) -> None:
    board = boot()
    assert board.at_prompt()
    cancel(board)
    assert board.at_prompt()


class Freezing:
    """A board that hangs: nothing comes any more once a pattern was seen."""

    def __init__(self, board: PtyBoard, pattern: bytes) -> None:
        self.board, self.pattern, self.frozen = board, pattern, False

    def write(self, data: bytes) -> None:
        self.board.write(data)

    def read(self, timeout: float) -> bytes:
        if self.frozen:
            time.sleep(timeout)
            return b""
        data = self.board.read(timeout)
        self.frozen = self.pattern in self.board.seen
        return data


def test_a_hung_board_is_noticed_by_deadline(
    boot: Boot, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_SLACK_S", 1.0)
    jobs = [
        Job("first", ":", timeout_s=1.0),
        Job("second", "sleep 30", timeout_s=1.0),
        Job("third", ":", timeout_s=1.0),
    ]
    with pytest.raises(BoardError, match=r"^batch: no progress for \d+ s: it was at job 2/3, 'second'"):
        run_batch(Freezing(boot(), b"1/3 first 0"), jobs, places=places)


def test_a_hang_while_measuring_is_noticed_soon_after_the_time_that_the_trial_has(
    boot: Boot, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_SLACK_S", 1.0)
    jobs = [
        Job("first", ":", before_timeout_s=900.0, before=(":",), timeout_s=1.0),
        Job("second", "sleep 98767", before_timeout_s=900.0, before=(":",), timeout_s=2.0),
    ]
    began = time.monotonic()
    with pytest.raises(BoardError, match=r"^batch: no progress for \d+ s: it was at job 2/2, 'second'"):
        run_batch(Freezing(boot(), b" +2\r\n"), jobs, places=places)
    # 2 s of its own, at most 5 s until a board at work speaks, 1 s of patience, 3 s for questions
    assert time.monotonic() - began < 2 + 5 + 1 + 3 + 5


def test_a_trial_of_five_seconds_that_hangs_costs_twenty_more() -> None:
    job = Job("a", "fio", before=("sync",), timeout_s=5.0, around="cat temp", before_timeout_s=120.0)
    assert batch._silence(job) == 25.0


@pytest.mark.parametrize("shell", ["ash", "mksh"])
def test_a_board_that_prepares_for_long_says_that_it_is_at_work(
    shell: str, boot: Boot, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_SLACK_S", 0.0)
    monkeypatch.setattr(Lines, "patience", 0.3)
    board = boot(shell)
    jobs = [Job("a", "sleep 0.5", ("sleep 7.5",), timeout_s=1.0)]
    (job,) = run_batch(board, jobs, places=places).jobs
    assert job.rc == 0
    assert board.seen.count(b" +1\r\n") == 2, "once after five seconds, once before measuring"
    ended = board.seen.index(b"@farm 1/1")
    assert board.seen[:ended].endswith(b" +1\r\n"), "silent while measuring"


def test_however_much_a_board_babbles_its_jobs_end(
    boot: Boot, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_allowance", lambda job: 3.0 - batch._PACK_S)
    with pytest.raises(BoardError, match=r"^batch: not done by its deadline: it was at job 1/1, 'a'"):
        run_batch(boot(), [Job("a", "sleep 98766")], places=places)


def test_a_dead_board_is_noticed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def write(self, data: bytes) -> None: ...

        def read(self, timeout: float) -> bytes:
            time.sleep(min(timeout, 0.01))
            return b""

    from farm.board import upload

    monkeypatch.setattr(upload, "regain", lambda lines, patience: False)
    with pytest.raises(BoardError, match=r"^upload: the board's shell does not answer"):
        run_batch(Silent(), [Job("a", ":")], places=places)


def test_what_the_console_watch_raises_passes(boot: Boot, places: Places) -> None:
    board = boot()

    class Panicking(Freezing):
        def read(self, timeout: float) -> bytes:
            if self.frozen:
                raise BoardError("kernel panic: Kernel panic - not syncing", step="console")
            return super().read(timeout)

    with pytest.raises(BoardError, match="kernel panic"):
        run_batch(Panicking(board, b"1/2 a 0"), [Job("a", ":"), Job("b", "sleep 9")], places=places)


def test_progress_lost_is_no_failure(boot: Boot, places: Places) -> None:
    wire = Disturbed(boot(), Once(rb"@farm ", lambda line: b"", times=99))
    steps: list[Progress] = []
    result = run_batch(
        wire, [Job(f"{n}", "sleep 0.3; echo x") for n in range(5)], on_progress=steps.append, places=places
    )
    assert [job.raw["out"] for job in result.jobs] == [b"x\n"] * 5 and steps == []


@pytest.mark.parametrize("bad", ["", "A", "a b", "x" * 41, "a\n", "$(reboot)"])
def test_ids_are_plain(bad: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        Job(bad, ":")


def test_ids_are_unique(places: Places) -> None:
    with pytest.raises(ValueError, match="unique"):
        run_batch(None, [Job("a", ":"), Job("a", ":")], places=places)  # type: ignore[arg-type]


def fio_jobs(scratch: Path) -> list[Job]:
    matrix = [("read", "1M", 1), ("read", "4k", 1), ("randread", "4k", 1), ("randread", "4k", 32)]
    matrix += [("write", "1M", 1), ("write", "4k", 1), ("randwrite", "4k", 1), ("randwrite", "4k", 32)]
    return [
        Job(
            f"{n}",
            f"fio --output-format=json --group_reporting --name={rw}-{bs}-qd{depth} --filename={scratch} --rw={rw} "
            f"--bs={bs} --iodepth={depth} --ioengine=libaio --direct=1 --size=8M --runtime=500ms --time_based",
            ("sync",),
            30.0,
            "cat /sys/class/thermal/thermal_zone*/temp /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq 2>/dev/null",
        )
        for n, (rw, bs, depth) in enumerate(matrix)
    ]


def test_eight_fio_trials_stay_below_a_thousand_bytes_each(
    boot: Boot, places: Places, tmp_path: Path
) -> None:
    """Real fio on a busybox board (no xz), in a boot that has fetched its facts before, as every boot does."""
    tools = tools_dir(
        tmp_path / "bin",
        dict.fromkeys(
            [
                "base64",
                "bzip2",
                "cat",
                "dmesg",
                "grep",
                "gzip",
                "head",
                "mkdir",
                "mv",
                "rm",
                "sh",
                "sha256sum",
                "sleep",
                "stty",
                "sync",
                "tail",
                "wc",
            ],
            "busybox",
        )
        | {"fio": "fio"},
    )
    (tmp_path / "log").write_text("")
    board = boot("ash", tools)
    capture(board, "echo facts", 9.0, places=places)
    before = len(board.sent) + len(board.seen)
    result: BatchResult = run_batch(board, fio_jobs(tmp_path / "scratch"), places=places)
    for job in result.jobs:
        assert job.rc == 0 and job.raw["out"].startswith(b"{\n") and len(job.raw["out"]) > 5000
    total = len(board.sent) + len(board.seen) - before
    seconds = result.frame_bytes * 10 / 115200  # ten bits to a byte
    print(f"{total} bytes for 8 trials, frames {seconds:.2f} s at 115200 baud")
    assert total == result.bytes_up + result.bytes_down < 8000
    assert result.compression == "bzip2"
    assert seconds < 0.7
