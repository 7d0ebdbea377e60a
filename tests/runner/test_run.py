"""Runs on a virtual board, from outside: real U-Boot, kernels, fio and dd; counts are read from the database."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import BOARD, ROOT, LabHome, alive, children, in_real_time, lab_of, wait_for

pytestmark = pytest.mark.lab

KERNELS = """\
name: kernels-test
boards: [virt-rk3568]
boots: 2
trials: 1
variants:
  old: {baseline: true, kernel: kernel-6.1, modules: modules-6.1, expect: {kernel: "6.1."}}
  new: {kernel: kernel-6.12, modules: modules-6.12, expect: {kernel: "6.12."}}
workloads:
  - {tool: dd, rw: read, bs: 1M, count: 16, direct: true}
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 1s, ioengine: libaio, iodepth: 4}
"""
SLOW = """\
name: slow-test
boards: [virt-rk3568]
boots: 2
trials: 1
variants:
  only: {baseline: true}
workloads:
  - {tool: fio, rw: randread, bs: 4k, size: 16M, runtime: 6s}
"""
AGAINST_ITSELF = """\
name: calibrated
boards: [virt-rk3568]
boots: 2
trials: 1
variants:
  ra64: {baseline: true, knobs: {queue/read_ahead_kb: 64}, expect: {read_ahead_kb: 64}}
  ra1024: {knobs: {queue/read_ahead_kb: 1024}, expect: {read_ahead_kb: 1024}}
workloads:
  - {tool: dd, rw: read, bs: 1M, size: 16M, direct: true}
"""


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHome]:
    """A lab of one board that keeps the host's time, since these tests wait for much of what it does."""
    here = tmp_path_factory.mktemp("here")
    (here / "envs").mkdir()
    (here / "envs" / f"{BOARD}.yaml").write_text(in_real_time(BOARD))
    with lab_of(BOARD, home=here / "home", cwd=here) as lab:
        yield lab


@pytest.fixture(scope="module")
def kernels_run(lab_home: LabHome, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("campaign") / "kernels.yaml"
    file.write_text(KERNELS)
    done = lab_home.farm("run", str(file), "--seed", "5")
    found = re.search(r"^run: +(\S+) \(done\)$", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return found[1]


def test_two_kernels_are_flashed_and_each_boot_is_proven_by_its_banner(
    lab_home: LabHome, kernels_run: str
) -> None:
    boots = lab_home.rows(
        "SELECT variant, status, json_extract(facts, '$.banner'), json_extract(flash, '$.method') FROM boot "
        "WHERE run_id = ? ORDER BY boot_index",
        kernels_run,
    )
    assert len(boots) == 4
    assert {(status, method) for _, status, _, method in boots} == {("ok", "uboot-write")}
    for variant, _, banner, _ in boots:
        assert banner.startswith("Linux version 6.1." if variant == "old" else "Linux version 6.12.")
    order = [variant for variant, *_ in boots]
    assert order in (["old", "new", "new", "old"], ["new", "old", "old", "new"])


def test_each_change_of_kernel_was_written_and_read_back(lab_home: LabHome, kernels_run: str) -> None:
    rows = lab_home.rows(
        "SELECT variant, json_extract(flash, '$.written'), json_extract(flash, '$.verified') FROM boot "
        "WHERE run_id = ? ORDER BY boot_index",
        kernels_run,
    )
    # ABBA: the third boot finds its kernel on the device already, and a device is not worn for nothing
    assert [written > 0 for _, written, _ in rows][1:] == [True, False, True]
    assert {verified for *_, verified in rows} == {"CRC-32 read back from the boot device"}


def test_every_trial_has_samples_and_complete_raw_output(lab_home: LabHome, kernels_run: str) -> None:
    trials = lab_home.rows(
        "SELECT trial.workload, trial.status, trial.reason, count(sample.metric) FROM trial "
        "JOIN boot ON boot.id = trial.boot_id LEFT JOIN sample ON sample.trial_id = trial.id "
        "WHERE boot.run_id = ? GROUP BY trial.id",
        kernels_run,
    )
    assert len(trials) == 8
    assert {(status, reason) for _, status, reason, _ in trials} == {("ok", "")}
    assert all(count >= 3 for *_, count in trials)


def test_an_independent_script_finds_the_same_medians(lab_home: LabHome, kernels_run: str) -> None:
    script = ROOT / "tests" / "independent_medians.py"
    words = [sys.executable, str(script), str(lab_home.path / "farm.db"), kernels_run]
    theirs = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    ours = lab_home.farm("compare", kernels_run, "--json").stdout
    for variant in ("old", "new"):
        found = re.search(rf"\b{variant}\b.*?([0-9.]+) MB/s", theirs)
        assert found, theirs
        assert f"{float(found[1]):.1f}"[:-2] in ours


def test_an_aa_run_measures_the_baseline_under_two_names(lab_home: LabHome, tmp_path: Path) -> None:
    """The first two boots of a block are one of each name, so it is stopped there; what was not done calibrates nothing."""
    (tmp_path / "aa.yaml").write_text(AGAINST_ITSELF)
    words = ("--aa", "--seed", "5", "--branch", "next", "--commit", "ra64=1a2b")
    run = lab_home.start("run", str(tmp_path / "aa.yaml"), *words)
    wait_for("two boots committed", lambda: "boot 2/4" in (run.stdout.readline() if run.stdout else ""), 200)
    run.terminate()
    run.communicate(timeout=60)
    (name,) = lab_home.rows("SELECT id FROM run ORDER BY started DESC LIMIT 1")[0]
    assert name.endswith("-calibrated-aa")
    boots = lab_home.rows(
        "SELECT variant, status, json_extract(facts, '$.read_ahead_kb'), json_extract(facts, '$.banner') FROM boot "
        "WHERE run_id = ? ORDER BY variant",
        name,
    )
    assert [variant for variant, *_ in boots] == ["ra64", "ra64-again"]
    assert {row[1:] for row in boots} == {("ok", 64, boots[0][3])}
    assert lab_home.rows(
        "SELECT status, settings ->> '$.aa', settings ->> '$.branch', settings ->> '$.commits.ra64-again' FROM run WHERE id = ?",
        name,
    ) == [("interrupted", 1, "next", "1a2b")]


def test_qemu_killed_in_a_trial_costs_one_boot_which_is_repeated(lab_home: LabHome, tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW)
    run = lab_home.start("run", str(tmp_path / "slow.yaml"), "--seed", "1")
    log = _measuring(lab_home)
    os.kill(_qemu(lab_home), signal.SIGKILL)
    text, _ = run.communicate(timeout=300)
    assert run.returncode == 0, text
    rows = lab_home.rows(
        "SELECT boot_index, attempt, status FROM boot WHERE run_id = (SELECT max(id) FROM run) ORDER BY boot_index, attempt"
    )
    assert rows == [(0, 0, "failed"), (0, 1, "ok"), (1, 0, "ok")], text
    assert "FAILED" in text
    assert str(log) in text


def test_farm_killed_leaves_results_but_no_process_and_the_run_can_go_on(
    lab_home: LabHome, tmp_path: Path
) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW)
    run = lab_home.start("run", str(tmp_path / "slow.yaml"), "--seed", "1")
    wait_for("first boot committed", lambda: "boot 1/2" in (run.stdout.readline() if run.stdout else ""), 120)
    workers = children(run.pid)
    assert workers
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_for("workers gone", lambda: not [pid for pid in workers if alive(pid)], 10)
    (name,) = lab_home.rows("SELECT max(id) FROM run")[0]
    assert lab_home.rows("SELECT boot_index, status FROM boot WHERE run_id = ?", name) == [(0, "ok")]
    lab_home.farm("run", str(tmp_path / "slow.yaml"), "--resume", name)
    rows = lab_home.rows("SELECT boot_index, status FROM boot WHERE run_id = ? ORDER BY boot_index", name)
    assert rows == [(0, "ok"), (1, "ok")]


def _qemu(lab: LabHome) -> int:
    import json

    (board,) = [
        one for one in json.loads(lab.farm("virtual", "status", "--json").stdout) if one["name"] == BOARD
    ]
    assert board["qemu_pid"]
    return int(board["qemu_pid"])


def _measuring(lab: LabHome) -> Path:
    """Wait until the newest run measures, which its console log shows; that log's path."""

    def newest() -> Path | None:
        logs = sorted(
            (lab.path / "logs").glob("*-slow-test/*/boot-000-0.log"), key=lambda path: path.stat().st_mtime
        )
        return logs[-1] if logs and b"@farm" in logs[-1].read_bytes() else None

    found = wait_for("a trial begins", newest, 120)
    assert isinstance(found, Path)
    return found
