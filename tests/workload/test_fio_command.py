"""fio's command line: words typed from fio's manual, and the real fio doing what they say."""

import json
import shlex
import shutil
import subprocess

import pytest

from farm.parse.fio import parse_fio
from farm.workload import command, fio
from farm.workload.model import FioWorkload

MIB = 1024 * 1024


def workload(**values):
    return FioWorkload(**{"name": "job", "tool": "fio", "rw": "read", "size": "1M", "bs": "4k", **values})


def test_a_read_of_the_packed_study_is_what_was_posted_and_cannot_write():
    # posted: --filename=/dev/mmcblk0p30 --direct=1 --iodepth=20 --rw=read --bs=4K --size=512M --group_reporting
    #         --numjobs=20 --name=test_read
    w = workload(name="test_read", size="512M", iodepth=20, numjobs=20)
    assert fio.command(w, "/dev/mmcblk0p30").run == (
        "fio --name=test_read --filename=/dev/mmcblk0p30 --rw=read --bs=4k --size=512M --direct=1 --ioengine=psync "
        "--iodepth=20 --numjobs=20 --readonly --allow_file_create=0 --group_reporting --output-format=json"
    )


def test_every_option():
    w = workload(
        rw="randrw", rwmixread=70, numjobs=4, offset_increment="64M", size="64M", iodepth=8, ioengine="libaio",
        thread=True, runtime="1500ms", ramp=2, direct=False, target="file",
    )  # fmt: skip
    assert fio.arguments(w, "/mnt/f") == (
        "fio", "--name=job", "--filename=/mnt/f", "--rw=randrw", "--rwmixread=70", "--bs=4k", "--size=64M",
        "--offset_increment=64M", "--direct=0", "--ioengine=libaio", "--iodepth=8", "--numjobs=4", "--thread",
        "--runtime=1500ms", "--time_based", "--ramp_time=2s", "--end_fsync=1", "--group_reporting",
        "--output-format=json",
    )  # fmt: skip


@pytest.mark.parametrize("rw", ["read", "randread"])
def test_reads_are_read_only(rw):
    assert "--readonly" in fio.arguments(workload(rw=rw), "/dev/x")


@pytest.mark.parametrize("rw", ["write", "randwrite", "randrw", "trim", "randtrim"])
def test_nothing_makes_a_file_where_a_device_should_be(rw):
    words = fio.arguments(workload(rw=rw), "/dev/x")
    assert "--allow_file_create=0" in words
    assert "--readonly" not in words


def test_every_word_is_quoted_for_the_shell():
    run = command(workload(target="file"), "/mnt/a b/$(reboot)';x").run
    assert shlex.split(run)[2] == "--filename=/mnt/a b/$(reboot)';x"


@pytest.fixture(scope="module")
def real_fio():
    assert shutil.which("fio"), "fio is needed by this test: apt-get install fio"


def shell(line, directory):
    return subprocess.run(["sh", "-c", line], cwd=directory, capture_output=True, text=True, timeout=60)


def run(w, path, directory):
    made = command(w, str(path))
    for line in made.prepare:
        done = shell(line, directory)
        assert done.returncode == 0, (line, done.stderr)
    return shell(made.run, directory)


@pytest.mark.parametrize("rw", ["read", "randread", "write", "randwrite", "randrw"])
def test_the_real_fio_runs_each_mode_on_a_file(real_fio, tmp_path, rw):
    state = {"drop_caches": False, "prefill": True}
    w = workload(rw=rw, size="4M", bs="64k", target="file", direct=False, conditioning=state)
    path = tmp_path / "name:with colon.img"
    done = run(w, path, tmp_path)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    moved = {side: job[side]["io_bytes"] for side in ("read", "write", "trim") if job[side]["io_bytes"]}
    assert set(moved) == ({"read", "write"} if rw == "randrw" else {rw.removeprefix("rand")})
    assert sum(moved.values()) == 4 * MIB
    assert path.stat().st_size == 4 * MIB
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_real_fio_takes_fractions_of_seconds_and_several_jobs(real_fio, tmp_path):
    w = workload(
        rw="randread", size="1M", target="file", direct=False, runtime="300ms", ramp="100ms", numjobs=2,
        offset_increment="1M", thread=True, conditioning={"drop_caches": False},
    )  # fmt: skip
    done = run(w, tmp_path / "f", tmp_path)
    assert done.returncode == 0, done.stderr
    (one,) = parse_fio(done.stdout).samples
    assert 0.27 <= one.seconds <= 0.6
    assert one.seconds >= w.floor_s


def test_the_real_fio_makes_no_file_for_a_device_that_has_gone(real_fio, tmp_path):
    gone = tmp_path / "mmcblk9"
    for rw in ("read", "randwrite"):
        done = shell(fio.command(workload(rw=rw, direct=False), str(gone)).run, tmp_path)
        assert not parse_fio(done.stdout).samples
        assert not gone.exists()


def test_a_write_without_prefill_allocates_anew(real_fio, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old" * 4096)
    w = workload(rw="write", size="64k", target="file", direct=False, conditioning={"drop_caches": False})
    before = path.stat().st_ino
    (tmp_path / "g").hardlink_to(path)  # keeps the inode in use, so that its number cannot come back
    assert run(w, path, tmp_path).returncode == 0
    assert path.stat().st_size == 65536
    assert path.stat().st_ino != before
