"""pytest as an engineer calls it at a desk, in processes of its own: without a board, and with a virtual one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from farm.fleet import busy, coordinator, env, places
from tests.lab import BOARD, ROOT, LabHome, wait_for

pytest_plugins = ["pytester"]

ENV = ROOT / "envs" / f"{BOARD}.yaml"


def desk(lab: LabHome, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run pytest as a person does, in the checkout, with the lab's home."""
    words = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-ra", *words)
    return subprocess.run(words, env=lab.env, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Outcome by name of the test, as pytest printed it."""
    return dict(
        re.findall(r"^\S*::(\S+) (PASSED|FAILED|SKIPPED|ERROR|BOARD TROUBLE)", done.stdout, re.MULTILINE)
    )


def of_desk() -> set[str]:
    """Names of the tests in tests/board/desk."""
    files = sorted((ROOT / "tests" / "board" / "desk").glob("test_*.py"))
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


def test_without_an_env_nothing_is_imported_and_nothing_changes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test_light():\n"
        "    loaded = {name for name in sys.modules if name.startswith('farm.')}\n"
        "    assert loaded == {'farm.pytest_plugin'}\n"
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_an_env_without_farm_block_is_labgrids_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.mark.lg_feature("here")
        def test_here(env): assert "farm.campaign" not in sys.modules

        @pytest.mark.lg_feature("elsewhere")
        def test_elsewhere(env): assert False

        def test_both_targets(env): assert sorted(env.config.get_targets()) == ["main", "remote"]

        def test_board(farm_board): pass
        """
    )
    pytester.makefile(
        ".yaml", plain="targets: {main: {resources: {}}, remote: {resources: {}}}\nfeatures: [here]\n"
    )
    done = pytester.runpytest_subprocess("--lg-env", "plain.yaml")
    done.assert_outcomes(passed=2, skipped=1, errors=1)
    done.stdout.fnmatch_lines(["*the env file has no farm: block*"])


def test_a_virtual_board_that_is_not_up_is_one_sentence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_HOME", str(pytester.path / "home"))
    for name in ("LG_VIRTUAL_PDU", "LG_VIRTUAL_DIR", "LG_VIRTUAL_IMAGES"):
        monkeypatch.delenv(name, raising=False)
    done = pytester.runpytest_subprocess("--lg-env", str(ENV))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert done.errlines == [
        f"ERROR: virtual board {BOARD} is not up; start it with: farm virtual up {BOARD}",
        "",
    ]


def test_wrong_variants_are_all_said_before_the_board_is_touched(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LG_VIRTUAL_PDU", "LG_VIRTUAL_DIR", "LG_VIRTUAL_IMAGES"):
        monkeypatch.setenv(name, "/nowhere")
    marks = ("'a', knob={}", "name='a'", "'a', args='x'", "'a', args='y'", "'golden'")
    tests = [
        f"@pytest.mark.farm_variant({mark})\ndef test_{n}(measure): pass\n" for n, mark in enumerate(marks)
    ]
    pytester.makepyfile(test_marks="import pytest\n" + "".join(tests))
    done = pytester.runpytest_subprocess("--lg-env", str(ENV))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    file = pytester.path / "test_marks.py"
    first, second, third, fourth, _ = done.errlines
    assert first.startswith(f"ERROR: {file}:2: farm_variant.knob: ")
    assert second.startswith(f"{file}:4: farm_variant takes one name of letters")
    assert third == f"{file}:8: variant a means something else in another test; give it another name"
    assert fourth.startswith(f"{file}:10: farm_variant: golden is the image")


def test_a_board_in_use_ends_the_session_with_who_uses_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_HOME", str(pytester.path / "home"))
    for name in ("LG_VIRTUAL_PDU", "LG_VIRTUAL_DIR", "LG_VIRTUAL_IMAGES"):
        monkeypatch.setenv(name, "/nowhere")
    pytester.makepyfile("def test_it(measure): assert False")
    with busy.hold([env.load(str(ENV))], pytester.path / "home", "somebody's run"):
        done = pytester.runpytest_subprocess("--lg-env", str(ENV))
    assert done.ret == 3
    said = f"{BOARD}: is busy: somebody's run, pid {os.getpid()}"
    done.stdout.fnmatch_lines(["*no tests ran*", f"* _pytest.outcomes.Exit: {said} *"])


@pytest.mark.lab
def test_the_board_tests_and_the_readmes_example_run_at_a_desk(lab_home: LabHome, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "test_example.py").write_text(code)
    done = desk(lab_home, "--lg-env", f"envs/{BOARD}.yaml", "tests/board", str(tmp_path))
    assert outcomes(done) == dict.fromkeys(of_desk() | {"test_large_readahead"}, "PASSED"), done.stdout
    assert done.returncode == 0
    run, rows = measured(lab_home)
    assert rows == [
        ("golden", 0, "ok", "dd-read-1M", "ok", 2),
        ("golden", 0, "ok", "randread-4k", "ok", 1),
        ("golden", 0, "ok", "dd-write-1M", "ok", 1),
        ("unmet", 1, "void", "dd-read-1M", "void", 1),
        ("ra1024", 2, "ok", "dd-read-1M", "ok", 3),
    ]
    assert f"boots stored: 3, trials: 8; look at them with: farm compare {run}" in done.stdout
    said = lab_home.farm("compare", run).stdout
    assert f"Board {BOARD}: golden (baseline) against ra1024" in said
    assert "void: boot 1 of unmet on" in said
    mail = re.sub(r"\s+", " ", lab_home.farm("compare", run, "--format", "mail").stdout)
    assert "Boots of the variants ran in the order of pytest's tests" in mail
    assert "mirrored" not in mail
    (log,) = re.findall(r"^console log: (.*)$", done.stdout, re.MULTILINE)
    assert "U-Boot 20" in Path(log).read_text(errors="replace")


@pytest.mark.lab
def test_the_board_tests_run_at_a_coordinator_and_the_place_is_given_back(lab_home: LabHome) -> None:
    lab_home.farm("coordinator", "up")
    address = coordinator.running(lab_home.path) or ""
    try:
        wait_for("the exporter serves", lambda: places.seen(address)[BOARD].resources, 20)
        short = "not (fio or writes or not_as_expected)"  # these ran at the desk above
        words = ("--lg-env", f"envs/{BOARD}.yaml", "--lg-coordinator", address, "tests/board", "-k", short)
        done = desk(lab_home, *words)
        left_out = {name for name in of_desk() if re.search("fio|writes|not_as_expected", name)}
        assert len(left_out) == 3
        assert outcomes(done) == dict.fromkeys(of_desk() - left_out, "PASSED"), done.stdout
        assert measured(lab_home)[1] == [("golden", 0, "ok", "dd-read-1M", "ok", 2)]
        assert places.seen(address)[BOARD].holder == ""
    finally:
        lab_home.farm("coordinator", "down")


@pytest.mark.lab
def test_a_board_that_does_not_come_up_is_no_slow_kernel(lab_home: LabHome, tmp_path: Path) -> None:
    text = ENV.read_text().replace("prompt: '\\n=> '", "prompt: 'never> '", 1)
    text = text.replace("  boot_seconds: 20", "  deadlines: {bootloader: 4}\n  boot_seconds: 20")
    assert "never> " in text
    assert "bootloader: 4" in text
    (tmp_path / f"{BOARD}.yaml").write_text(text)
    (tmp_path / "test_two.py").write_text(
        "def test_first(measure): assert measure(tool='dd', rw='read', bs='1M', size='1M').bw_bytes > 1e6\n"
        "def test_second(measure): assert False\n"
    )
    done = desk(lab_home, "--lg-env", str(tmp_path / f"{BOARD}.yaml"), str(tmp_path / "test_two.py"))
    assert outcomes(done) == {"test_first": "BOARD TROUBLE", "test_second": "SKIPPED"}, done.stdout
    assert "1 skipped, 1 error" in done.stdout
    assert "failed" not in done.stdout.splitlines()[-1]
    trouble = done.stdout[done.stdout.index("ERROR at call of test_first") :]
    assert f"{BOARD}: bootloader: no prompt within 4 s" in trouble
    assert "    | U-Boot 20" in trouble
    assert re.search(r"full console log: \S+/console\.log\n", trouble)
    assert f"not run, because the board failed before: {BOARD}: bootloader: no prompt" in re.sub(
        r"\s+", " ", trouble
    )
    assert "Traceback" not in done.stdout


def measured(lab: LabHome) -> tuple[str, list[tuple]]:
    """The newest run of pytest: its id; variant, boot, its status, workload, its status and how many trials."""
    ((run, status),) = lab.rows(
        "SELECT id, status FROM run WHERE campaign = 'pytest' ORDER BY started DESC LIMIT 1"
    )
    assert status == "done"
    return run, lab.rows(
        "SELECT boot.variant, boot_index, boot.status, workload, trial.status, count(*) FROM trial "
        "JOIN boot ON boot.id = boot_id WHERE run_id = ? GROUP BY boot.id, workload ORDER BY min(trial.id)",
        run,
    )
