"""Conditioning lines, run by real shells on real files; what needs a block device is shown on a file in its place."""

import os
import shutil
import subprocess

import pytest

from farm.workload import command
from farm.workload.command import prepare, prepare_timeout
from farm.workload.model import DdWorkload, FioWorkload

MIB = 1024 * 1024
SHELLS = [("busybox", "sh"), ("mksh",), ("dash",), ("bash", "--posix")]


def raw(**state):
    return FioWorkload(name="w", tool="fio", rw="write", bs="4k", size="2M", conditioning=state)


def file(size=3 * MIB + 100, **values):
    return DdWorkload(
        **{"name": "f", "tool": "dd", "rw": "read", "bs": "4k", "target": "file", "size": size, **values},
        conditioning={"drop_caches": False},
    )


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request, tmp_path):
    assert shutil.which(request.param[0]), f"apt-get install {request.param[0]}"

    def run(line):
        return subprocess.run(
            [*request.param, "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    return run


def test_the_order_is_target_then_caches_then_rest():
    lines = prepare(raw(prefill=True, drop_caches=True, idle=1.5), "/dev/mmcblk0p2")
    assert len(lines) == 4
    assert lines[0].startswith("[ -b /dev/mmcblk0p2 ] || ")
    assert "dd if=/dev/urandom of=/dev/mmcblk0p2 bs=1M count=2 conv=fsync" in lines[1]
    assert lines[2:] == ("sync && echo 3 >/proc/sys/vm/drop_caches", "sleep 1.5")


def test_direct_reads_of_the_device_need_only_the_device():
    w = FioWorkload(name="r", tool="fio", rw="read", size="2M")
    assert len(prepare(w, "/dev/mmcblk0")) == 1


def test_what_is_no_device_is_refused(shell, tmp_path):
    done = shell(prepare(raw(), str(tmp_path / "mmcblk9"))[0])
    assert done.returncode != 0
    assert done.stderr == f"{tmp_path}/mmcblk9 is no block device\n"


def test_a_prefill_happens_once_and_again_for_more(shell, tmp_path):
    target = tmp_path / "card"
    target.write_bytes(bytes(4 * MIB))

    def fill(size):
        w = FioWorkload(name="w", tool="fio", rw="write", size=size, conditioning={"prefill": True})
        line = prepare(w, str(target))[1].replace("/dev/farm-filled", f"{tmp_path}/farm-filled")
        assert "/dev/farm-filled" not in line
        assert shell(line).returncode == 0

    def filled():
        # random bytes: a sector of zeros was not written
        data = target.read_bytes()
        return [any(data[at : at + 512]) for at in range(0, len(data), 512)].count(True) * 512

    fill("1536k")
    assert filled() == 1536 * 1024
    target.write_bytes(bytes(4 * MIB))
    fill("1M")
    assert filled() == 0
    fill("3M")
    assert filled() == 3 * MIB


def test_a_discard_without_prefill_makes_the_next_prefill_happen(shell, tmp_path):
    target = tmp_path / "card"
    target.write_bytes(bytes(2 * MIB))
    place = f"{tmp_path}/farm-filled"
    fill, discard = (
        prepare(raw(**state), str(target))[1].replace("/dev/farm-filled", place)
        for state in ({"prefill": True}, {"discard": True})
    )
    assert shell(fill).returncode == 0
    done = shell(discard)
    assert done.returncode == 0
    assert "note: not discarded" in done.stderr  # a file is no block device
    target.write_bytes(bytes(2 * MIB))
    assert shell(fill).returncode == 0
    assert any(target.read_bytes())


def test_discard_and_prefill_together_happen_once(shell, tmp_path):
    target = tmp_path / "card"
    target.write_bytes(bytes(2 * MIB))
    line = prepare(raw(discard=True, prefill=True), str(target))[1].replace(
        "/dev/farm-filled", f"{tmp_path}/farm-filled"
    )
    done = shell(line)
    assert done.returncode == 0
    assert "note: not discarded" in done.stderr
    assert any(target.read_bytes())
    assert shell(line).stderr == ""


def test_a_prefill_that_fails_is_a_failure(shell, tmp_path):
    line = prepare(raw(prefill=True), str(tmp_path / "no" / "card"))[1].replace(
        "/dev/farm-filled", f"{tmp_path}/farm-filled"
    )
    assert shell(line).returncode != 0
    assert not list(tmp_path.glob("farm-filled*"))


def test_a_file_to_read_is_made_once_with_its_full_size(shell, tmp_path):
    path = tmp_path / "a 'b' $c.img"
    (line,) = command(file(), str(path)).prepare
    assert shell(line).returncode == 0
    first = path.read_bytes()
    assert len(first) == 3 * MIB + 100
    assert first[-100:] != bytes(100)
    assert shell(line).returncode == 0
    assert path.read_bytes() == first
    path.write_bytes(first[:1000])
    assert shell(line).returncode == 0
    assert path.stat().st_size == 3 * MIB + 100


def test_small_and_whole_sizes_too(shell, tmp_path):
    for size in (512, 1000, MIB, 2 * MIB):
        path = tmp_path / f"{size}.img"
        assert shell(prepare(file(size), str(path))[0]).returncode == 0
        assert path.stat().st_size == size


def test_a_file_that_cannot_be_made_is_a_failure(shell, tmp_path):
    assert shell(prepare(file(), str(tmp_path / "no" / "f"))[0]).returncode != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may drop caches")
def test_caches_are_dropped(shell):
    w = DdWorkload(name="d", tool="dd", rw="read", size="1M")
    assert w.drop_caches
    assert shell(prepare(w, "/dev/null")[-1]).returncode == 0


def test_time_is_given_for_filling():
    assert prepare_timeout(raw()) == 120
    assert prepare_timeout(raw(prefill=True, idle=5)) == pytest.approx(125 + 2 * MIB / 1e6)
    assert prepare_timeout(file(2_000_000_000)) == pytest.approx(2120)
