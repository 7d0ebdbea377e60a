"""Every corpus file, read as `farm import` reads it, against values typed from the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from farm.parse.dmesg import parse_dmesg
from farm.parse.importing import import_object
from farm.parse.text import parse_any
from tests.parse.corpus_expected import CASES, same

CORPUS = Path(__file__).parents[1] / "corpus"


def test_every_corpus_file_has_a_case() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_file(name: str) -> None:
    want = CASES[name]
    got = parse_any((CORPUS / name).read_text())
    assert len(got.samples) == len(want.samples), got.problems
    for sample, expected in zip(got.samples, want.samples, strict=True):
        same(sample, expected)
    assert {problem.code for problem in got.problems} == want.problems, got.problems
    for key, value in want.facts.items():
        fact = got.facts[key]
        if isinstance(value, dict):
            assert isinstance(fact, Mapping)
            fact = {name: fact[name] for name in value}
        assert fact == value


def test_gtod_reduce_and_disabled_latency_give_none() -> None:
    for name in ("fio-2.0.13-human-gtod-reduce-no-lat.txt", "fio-3.33-json-lat-percentiles-disabled.txt"):
        (sample,) = parse_any((CORPUS / name).read_text()).samples
        assert sample.lat_ns == {}


def test_what_a_run_needs_to_judge_its_own_trial() -> None:
    (sample,) = parse_any((CORPUS / "fio-3.33-json-read-libaio-qd8.txt").read_text()).samples
    extra = sample.extra
    assert extra["fio_version"] == "fio-3.33"
    assert (extra["bs"], extra["iodepth"], extra["ioengine"]) == ("128k", "8", "libaio")
    assert (extra["total_ios"], extra["runtime_ms"], extra["error"], extra["jobs"]) == (15930, 1001, 0, 1)
    disks = extra["disk_util"]
    assert isinstance(disks, tuple)
    assert [(disk["name"], disk["read_ios"], disk["write_ios"]) for disk in disks] == [("vda", 13974, 6)]
    options = extra["job_options"]
    assert isinstance(options, dict)
    assert options["direct"] == "1"


def test_kernel_lines_are_typed() -> None:
    events = parse_dmesg((CORPUS / "dmesg-mmc-error-and-state-lines.txt").read_text())
    first = events[0]
    assert (first.kind, first.device, first.seconds) == ("cqe-recovery", "mmc0", 30.090146)
    # Counted by hand in the file. "Result: OK", "PREP_CMD: card is removed" and "when card removed" are no trouble.
    counts = {"cqe-recovery": 5, "cqe-timeout": 5, "timeout": 5, "io-error": 10, "tuning-failed": 6, "busy": 5,
              "cqe-enabled": 4, "hsq-enabled": 1, "reset-stuck": 5, "test-failed": 2, "flush-error": 7,
              "card-removed": 3, "stray-interrupt": 5, "init-error": 4}  # fmt: skip
    kinds = [event.kind for event in events]
    assert {kind: kinds.count(kind) for kind in counts} == counts
    cards = parse_dmesg((CORPUS / "dmesg-mmc-new-card-variants.txt").read_text())
    assert len(cards) == 22
    assert all(event.kind == "new-card" for event in cards)
    assert (cards[0].detail["speed"], cards[0].detail["type"], cards[0].detail["address"]) == (
        "UHS-I speed SDR104", "SDHC", "0001",
    )  # fmt: skip
    assert cards[2].detail.get("address") is None  # "card on SPI"
    named = parse_dmesg((CORPUS / "dmesg-mmc-hs400es-hbg4a2.txt").read_text())
    assert (named[1].kind, named[1].detail["name"], named[1].detail["size"]) == ("card", "HBG4a2", "29.1 GiB")


def test_typos_of_the_time_table_are_named() -> None:
    problems = parse_any((CORPUS / "perf-table-fua-vs-cache-5duts-typos.txt").read_text()).problems
    assert [problem.message.split()[0] for problem in problems] == [
        "13:28:13",
        "13:20:64",
        "6:60.00",
        "6:56:28",
    ]


@pytest.mark.parametrize("name", sorted(CASES))
def test_json_object(name: str) -> None:
    data = import_object(name, (CORPUS / name).read_bytes())
    assert set(data) == {"file", "samples", "facts", "problems"}
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again == data
    assert data["samples"] or data["problems"]
    for sample in again["samples"]:
        assert set(sample) == {"tool", "rw", "job", "bytes", "seconds", "bw_bytes", "iops", "lat_ns"}
