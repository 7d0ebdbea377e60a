"""dd under each shell that boards have: the real busybox ash, mksh, dash and bash, with coreutils' and busybox' dd."""

import os
import re
import shutil
import subprocess
import threading
import time

import pytest

from farm.parse.dd import parse_dd
from farm.workload import command, dd
from farm.workload.model import DdWorkload

MIB = 1024 * 1024
SHELLS = {"ash": ("busybox", "sh"), "mksh": ("mksh",), "dash": ("dash",), "bash": ("bash", "--posix")}
REAL = re.compile(r"^real 0m(\d+\.\d{6})s$", re.MULTILINE)


def workload(**values):
    state = values.pop("conditioning", {"drop_caches": False})
    return DdWorkload(
        **{"name": "job", "tool": "dd", "rw": "read", "bs": "64k", "size": "4M", "target": "file", **values},
        conditioning=state,
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bs": "1M", "size": "32M", "target": "raw"}, "dd if=T of=/dev/null bs=1M count=32"),
        (
            {"bs": "1M", "size": "32M", "target": "raw", "direct": True},
            "dd if=T of=/dev/null bs=1M count=32 iflag=direct",
        ),
        ({"bs": 512, "size": 2296521564}, "dd if=T of=/dev/null bs=512"),
        ({"bs": 512, "count": 2097152, "size": 2**30}, "dd if=T of=/dev/null bs=512 count=2097152"),
        ({"rw": "write", "size": "4M", "target": "raw"}, "dd if=/dev/zero of=T bs=64k count=64"),
        ({"rw": "write", "fsync": True}, "dd if=/dev/zero of=T bs=64k count=64 conv=fsync"),
        ({"rw": "write", "direct": True}, "dd if=/dev/zero of=T bs=64k count=64 oflag=direct"),
        (
            {"rw": "write", "fsync": True, "conditioning": {"prefill": True}},
            "dd if=/dev/zero of=T bs=64k count=64 conv=fsync,notrunc",
        ),
    ],
)
def test_the_words(values, words):
    assert " ".join(dd.arguments(workload(**values), "T")) == words


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    """Runs a line in a real shell, with busybox' tools alone for ash, the system's for the others."""
    words = SHELLS[request.param]
    assert shutil.which(words[0]), f"{words[0]} is needed by this test: apt-get install {words[0]}"
    environment = dict(os.environ)
    if request.param == "ash":
        tools = tmp_path / "tools"
        tools.mkdir()
        for tool in ("dd", "ls", "cat", "rm", "sync", "sleep", "echo"):
            (tools / tool).symlink_to(shutil.which("busybox"))
        environment["PATH"] = str(tools)
        words = (shutil.which("busybox"), "sh")

    def run(line):
        return subprocess.run(
            [*words, "-c", line], env=environment, cwd=tmp_path, text=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


def prepared(made, shell):
    for line in made.prepare:
        done = shell(line)
        assert done.returncode == 0, (line, done.stdout)


def test_a_read_is_timed_in_every_shell(shell, tmp_path):
    w = workload()
    made = command(w, str(tmp_path / "a b.img"))
    prepared(made, shell)
    done = shell(made.run)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("+ dd 'if=")
    assert "64+0 records in\n64+0 records out\n" in done.stdout
    assert len(REAL.findall(done.stdout)) == 1
    (one,) = parse_dd(done.stdout, block_size=w.bs).samples
    assert one.bytes == 4 * MIB
    assert one.bw_bytes == pytest.approx(one.bytes / one.seconds)


@pytest.mark.parametrize("clock", ["/proc/timer_list", "/nowhere"])
def test_the_seconds_are_those_of_dd(shell, tmp_path, clock):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = dd.command(workload(bs=512, size=1024), str(pipe)).run
    assert line.count("/proc/timer_list") == 1

    def feed():
        with pipe.open("wb") as file:
            time.sleep(0.4)
            file.write(bytes(1024))

    feeder = threading.Thread(target=feed)
    feeder.start()
    began = time.monotonic()
    done = shell(line.replace("/proc/timer_list", clock))
    wall = time.monotonic() - began
    feeder.join()
    assert done.returncode == 0, done.stdout
    seconds = float(REAL.search(done.stdout)[1])
    # the feeder sleeps once dd has opened the pipe; /proc/uptime steps by 0.01 s
    assert 0.38 <= seconds <= wall + 0.01
    assert "timer_list" not in done.stdout


def test_the_fallback_steps_as_uptime_does(shell, tmp_path):
    (tmp_path / "f").write_bytes(bytes(4 * MIB))
    line = dd.command(workload(), str(tmp_path / "f")).run.replace("/proc/timer_list", "/nowhere")
    assert REAL.search(shell(line).stdout)[1].endswith("0000")


def test_the_exit_code_is_that_of_dd(shell, tmp_path):
    done = shell(dd.command(workload(), str(tmp_path / "gone")).run)
    assert done.returncode == 1
    assert not parse_dd(done.stdout, block_size=65536).samples


def test_a_write_with_fsync(shell, tmp_path):
    w = workload(rw="write", fsync=True)
    path = tmp_path / "f"
    made = command(w, str(path))
    prepared(made, shell)
    done = shell(made.run)
    assert done.returncode == 0, done.stdout
    assert path.stat().st_size == 4 * MIB
    (one,) = parse_dd(done.stdout, block_size=w.bs).samples
    assert one.bytes == 4 * MIB


def test_no_file_is_written_where_a_device_should_be(shell, tmp_path):
    gone = tmp_path / "mmcblk9"
    made = command(workload(rw="write", target="raw"), str(gone))
    assert shell(made.prepare[0]).returncode != 0
    assert shell(made.run).returncode != 0
    assert not gone.exists()


def test_nothing_of_the_line_stays_in_the_shell(shell, tmp_path):
    (tmp_path / "f").write_bytes(bytes(4 * MIB))
    line = dd.command(workload(), str(tmp_path / "f")).run
    done = shell(f"s=kept n=kept; {line}; echo $s $n")
    assert done.stdout.endswith("kept kept\n")
