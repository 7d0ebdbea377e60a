"""What people see: fits 100 columns, says everything without colour, and hands no control sign to the terminal."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from rich.console import Console

from farm.errors import UserError
from farm.report import terminal
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord
from tests.report.stored import compared

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def plain(show: Callable[[Console], None]) -> str:
    """What a pipe gets."""
    file = io.StringIO()
    show(Console(file=file))
    return file.getvalue()


def coloured(show: Callable[[Console], None], width: int = 140) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=True, color_system="standard", width=width, _environ={}))
    return file.getvalue()


@dataclass(frozen=True)
class Said:
    verdict: str
    unstable: bool
    reason: str


def test_a_comparison_reads_like_this(small: Store) -> None:
    text = plain(lambda out: terminal.print_compare(compared(small, "small"), out))
    assert text == (
        "Run small: campaign readahead, seed 5, running\n"
        "\n"
        "Board rk: base (baseline) against cand\n"
        "  workload  rw        base      cand  ratio    n  spread %  proof       verdict\n"
        "  w         read  100 MB/s  200 MB/s  2.000  2/2  14.1/7.1  4/5 proven  -\n"
        "\n"
        "failed: boot 1 of cand on rk: kernel panic\n"
        "void: boot 4 of base on rk: other kernel than flashed\n"
        "failed: 1 trial of w in boot 2 of cand on rk (farm show 8): exit status 1\n"
        "void: 1 trial of w in boot 3 of base on rk (farm show 10): fio saw no I/O on mmcblk0\n"
        "\n"
        "Medians of the boots, a boot being the median of its trials; spread is the boots' CV; n counts\n"
        "  boots.\n"
        "Trials 1 to 11: `farm show TRIAL` prints one with its raw output.\n"
    )


@pytest.mark.parametrize(
    ("verdict", "unstable", "shown"),
    [
        ("faster", False, "▲ faster"),
        ("slower", False, "▼ slower"),
        ("same", False, "= same"),
        ("inconclusive", False, "? inconclusive"),
        ("inconclusive", True, "! unstable"),
        ("slower", True, "▼ slower !"),
    ],
)
def test_verdicts_have_a_sign_and_a_word(small: Store, verdict: str, unstable: bool, shown: str) -> None:
    said = {("rk", "cand", "w"): Said(verdict, unstable, "because [red]so[/red]")}
    table = compared(small, "small", verdicts=said)
    text = plain(lambda out: terminal.print_compare(table, out))
    assert text.splitlines()[4].endswith(f"proven  {shown}")
    assert f"  w: {shown}: because [red]so[/red]\n" in text
    # The same words on a terminal, where colour only repeats them.
    assert COLOUR.sub("", coloured(lambda out: terminal.print_compare(table, out))) == text
    # And in an encoding that has no such signs.
    raw = io.BytesIO()
    ascii_only = io.TextIOWrapper(raw, encoding="ascii")
    terminal.print_compare(table, Console(file=ascii_only))
    ascii_only.flush()
    assert shown.replace("▲", "^").replace("▼", "v") in raw.getvalue().decode("ascii")


def test_the_widest_comparison_fits_100_columns(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0, settings={"baseline": "baseline-" + "x" * 40}))
    for index in range(200):
        name = "candidate-" + "y" * 40 if index % 2 else "baseline-" + "x" * 40
        sample = SampleRecord("write", "lat_p99.9_ns", 123.4e6 * (1 + index % 7))
        trials = tuple(
            TrialRecord(
                f"randwrite-512k-qd128-j16-libaio-{n}", 0, "ok", "", "fio", 0.0, 1.0, samples=(sample,)
            )
            for n in range(2)
        )
        store.commit_boot(BootRecord("r", "b" * 120, index, 0, name, 0, "ok", "", 0.0, 1.0, trials=trials))
    said = {
        ("b" * 120, "candidate-" + "y" * 40, f"randwrite-512k-qd128-j16-libaio-{n}"): Said(
            "inconclusive", False, "word " * 60
        )
        for n in range(2)
    }
    table = compared(store, "r", metric="lat_p99.9_ns", verdicts=said)
    for text in (
        plain(lambda out: terminal.print_compare(table, out)),
        COLOUR.sub("", coloured(lambda out: terminal.print_compare(table, out))),
    ):
        lines = [line for line in text.splitlines() if "b" * 120 not in line]  # a word longer than a line
        assert max(map(len, lines)) <= 100
        assert lines[-1] == lines[-1].rstrip()
        for whole in ("494 ms", "100/100", "200/200", "? inconclusive"):
            assert whole in text


def test_a_narrow_terminal_cuts_no_figure(small: Store) -> None:
    text = COLOUR.sub("", coloured(lambda out: terminal.print_compare(compared(small, "small"), out), 40))
    assert re.search(r"w +read +100 MB/s +200 MB/s +2\.000 +2/2 +14\.1/7\.1 +4/5", text)


def test_runs_are_listed_with_what_they_hold(small: Store) -> None:
    small.begin_run(
        RunRecord("20261130-182233-a-rather-long-campaign", "a-rather-long-campaign", "", 1, 1796063013.0)
    )
    small.finish_run("20261130-182233-a-rather-long-campaign", "done")
    text = plain(lambda out: terminal.print_runs(small, out))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == [
        "run",
        "campaign",
        "status",
        "started",
        "(UTC)",
        "boards",
        "ok/void/failed",
        "trials",
    ]
    assert lines[1].split() == ["small", "readahead", "running", "1970-01-01", "00:16", "1", "4/1/1", "1-11"]
    assert "2026-11-30 18:23" in lines[2] and "0/0/0" in lines[2]
    data = json.loads(json.dumps(terminal.runs_data(small)))
    assert [(run["id"], run["tally"] and run["tally"]["trials"]) for run in data] == [
        ("small", 11),
        ("20261130-182233-a-rather-long-campaign", None),
    ]


def test_no_runs_is_a_sentence(store: Store) -> None:
    assert "There are no runs yet in" in plain(lambda out: terminal.print_runs(store, out))


def test_a_trial_is_shown_with_all_that_is_known(store: Store) -> None:
    store.begin_run(RunRecord("r1", "readahead", "", 7, 0.0))
    trial = TrialRecord(
        "dd-read",
        2,
        "void",
        "ran 0.001 s, shorter than its floor of 0.5 s",
        "time dd if=/dev/mmcblk0p2 of=/dev/null bs=1M count=32",
        1796063013.0,
        1.25,
        samples=(
            SampleRecord("read", "bw_bytes", 61_860_000.0),
            SampleRecord("read", "lat_p99_ns", 812_300.0),
        ),
        raw={"out": b"32+0 records in\r\n32+0 records out\r\nreal\t0m 0.54s\r\n", "err": b""},
        facts={"rc": 0},
    )
    store.commit_boot(
        BootRecord(
            "r1", "virt-a", 3, 1, "ra1024", 1, "ok", "", 0.0, 1.0,
            facts={"ios": {"clock_hz": 50_000_000, "timing": "sd high-speed"}, "lines": ["a", "b"]},
            flash={"method": "netboot"}, events=({"kind": "crc", "line": "mmc0: crc", "rep": 1},),
            log_path="/logs/x.log", console_bytes={"trial": 812}, trials=(trial,),
        )
    )  # fmt: skip
    assert plain(lambda out: terminal.print_trial(store, 1, out)) == (
        "Trial 1: dd-read, repetition 2: void\n"
        "  reason       ran 0.001 s, shorter than its floor of 0.5 s\n"
        "  run          r1 (campaign readahead, seed 7, running)\n"
        "  board        virt-a\n"
        "  variant      ra1024\n"
        "  boot         3, attempt 1, block 1, ok\n"
        "  started      2026-11-30 18:23:33 UTC\n"
        "  took         1.25 s\n"
        "  command      time dd if=/dev/mmcblk0p2 of=/dev/null bs=1M count=32\n"
        "  console log  /logs/x.log\n"
        "\nSamples\n"
        "  bw_bytes read                     61.9 MB/s  (61860000.0)\n"
        "  lat_p99_ns read                      812 us  (812300.0)\n"
        "\nFacts of the trial\n"
        "  rc  0\n"
        "\nFacts of the boot\n"
        "  ios.clock_hz  50000000\n"
        "  ios.timing    sd high-speed\n"
        '  lines         ["a", "b"]\n'
        "\nFlashed\n"
        "  method  netboot\n"
        "\nConsole bytes of the boot\n"
        "  trial  812\n"
        "\nEvents of the boot\n"
        "  crc: mmc0: crc\n"
        "      rep 1\n"
        "\nRaw output out, 50 bytes\n"
        "32+0 records in\n"
        "32+0 records out\n"
        "real    0m 0.54s\n"
        "\nRaw output err, 0 bytes\n"
    )
    data = json.loads(json.dumps(terminal.trial_data(store, 1)))
    assert data["trial"]["raw"]["out"] == {"bytes": 50, "text": trial.raw["out"].decode()}
    assert (data["trial"]["command"], data["boot"]["variant"], data["run"]["seed"]) == (
        trial.command,
        "ra1024",
        7,
    )
    with pytest.raises(UserError, match="no trial 99"):
        terminal.print_trial(store, 99, Console(file=io.StringIO()))
    with pytest.raises(UserError, match="no trial 99"):
        terminal.trial_data(store, 99)


def test_hostile_text_never_reaches_the_terminal(hostile: Store) -> None:
    views: list[Callable[[Console], None]] = [
        lambda out: terminal.print_runs(hostile, out),
        lambda out: terminal.print_compare(compared(hostile, "latest"), out),
    ]
    views += [lambda out, number=number: terminal.print_trial(hostile, number, out) for number in (1, 2, 5)]  # type: ignore[misc]
    for view in views:
        assert not CONTROL.search(plain(view))
        assert not CONTROL.search(COLOUR.sub("", coloured(view)))  # only our own colours
        assert "^[[2J" in plain(view)
    raw = hostile.raw(1)["out"]
    data = json.loads(json.dumps(terminal.trial_data(hostile, 1)))["trial"]["raw"]["out"]
    assert base64.b64decode(data["base64"]) == raw
    assert data["bytes"] == len(raw)


def test_huge_output_is_cut_with_a_word_and_whole_in_json(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0))
    log = b"[    1.0] mmc0: error -110\n" * 200_000
    trial = TrialRecord("w", 0, "ok", "", "dd", 0.0, 1.0, raw={"out": log})
    store.commit_boot(BootRecord("r", "b", 0, 0, "v", 0, "ok", "", 0.0, 1.0, trials=(trial,)))
    text = plain(lambda out: terminal.print_trial(store, 1, out))
    assert 1_000_000 < len(text) < 1_010_000
    assert text.endswith("[4400000 more bytes; `farm show --json 1` has all of them]\n")
    assert terminal.trial_data(store, 1)["trial"]["raw"]["out"]["text"] == log.decode()


def test_imported_results_claim_nothing(store: Store) -> None:
    run = RunRecord(
        "mail", "import", "", 0, 0.0, status="done", settings={"imported": True, "baseline": "before"}
    )
    boots = [
        BootRecord("mail", "rk", index, 0, name, 0, "ok", "", 0.0, 0.0,
                   trials=(TrialRecord("dd", 0, "ok", "", "dd", 0.0, 1.0,
                                       samples=(SampleRecord("read", "bw_bytes", value),)),))
        for index, (name, value) in enumerate((("before", 61.86e6), ("after", 79.31e6)))
    ]  # fmt: skip
    store.import_samples(run, boots)
    text = plain(lambda out: terminal.print_compare(compared(store, "mail"), out))
    assert re.search(r"dd +read +61\.9 MB/s +79\.3 MB/s +1\.282 +\? +-/- +unproven +-\n", text)
    assert "number and order of the boots are unknown, and nothing is proven." in text
