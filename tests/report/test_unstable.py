"""A candidate that stalls now and then is unstable, never the same: from boots in the store to every output."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from farm.influx.points import verdict_line
from farm.report import html, terminal, text
from farm.report.content import headline
from farm.report.study import as_dict, latencies, study
from farm.store.db import Store
from farm.store.records import BootRecord, TrialRecord
from tests.report.stored import put

Change = Callable[[BootRecord], BootRecord]


def void_boots(record: BootRecord) -> BootRecord:
    """Two boots of the candidate are void as a whole."""
    if record.variant != "cand" or record.block not in (0, 1):
        return record
    lost = tuple(
        dataclasses.replace(one, status="void", reason="stalled", samples=()) for one in record.trials
    )
    return dataclasses.replace(record, status="void", reason="hung task in mmc_rescan", trials=lost)


def void_trials(record: BootRecord) -> BootRecord:
    """One workload's trial of the candidate is void in two boots that are good otherwise."""
    if record.variant != "cand" or record.block not in (0, 1):
        return record
    first, *others = record.trials
    lost = TrialRecord(first.workload, 0, "void", "no I/O on mmcblk0", "fio", 0.0, 1.0)
    return dataclasses.replace(record, trials=(lost, *others))


def mmc_errors(record: BootRecord) -> BootRecord:
    """No value is missing, but the kernel reported errors of the candidate's boots."""
    if record.variant != "cand" or record.block != 1:
        return record
    return dataclasses.replace(
        record, events=({"kind": "timeout", "line": "mmc0: Timeout waiting for hardware interrupt."},)
    )


CASES: list[tuple[Change, str]] = [
    (void_boots, "void boot: hung task in mmc_rescan"),
    (void_trials, "void trial: no I/O on mmcblkN"),
    (mmc_errors, "timeout (2 times)"),
]


@pytest.mark.parametrize(("change", "happened"), CASES, ids=["void boots", "void trials", "MMC errors"])
@pytest.mark.parametrize("ratio", [1.0, 1.1], ids=["would be the same", "would be faster"])
def test_what_only_the_candidate_suffers_withholds_its_verdict_in_every_output(
    store: Store, change: Change, happened: str, ratio: float
) -> None:
    put(store, "well", boots=8, ratio=ratio, seed=2)
    word = "same" if ratio == 1.0 else "faster"
    assert {row.verdict.verdict for row in study(store, "well").table.blocks[0].rows} == {word}
    put(store, "r", boots=8, ratio=ratio, change=change, started=1.9e9)
    found = study(store, "r")
    verdicts = [row.verdict for block in found.table.blocks for row in block.rows]
    assert all(one.unstable and one.verdict == "inconclusive" for one in verdicts)
    assert all(happened in one.reason and f"`{word}` is withheld" in one.reason for one in verdicts)
    assert "2 inconclusive; 2 of them unstable" in headline(found)

    out = io.StringIO()
    terminal.print_study(found, Console(file=out, width=100))
    printed = " ".join(out.getvalue().split())
    assert printed.count("! unstable") == 8, (
        "four rows, of bandwidths and of tails, and the reasons below them"
    )
    data = json.loads(json.dumps(as_dict(found)))
    rows = data["blocks"][0]["rows"]
    assert [(row["verdict"]["verdict"], row["verdict"]["unstable"]) for row in rows] == [
        ("inconclusive", True)
    ] * 2
    for said in (text.mail(found), text.markdown(found), html.page(found, latencies(store, found))):
        plain = " ".join(said.replace("\\", "").replace("&#39;", "'").split())
        assert "unstable" in plain and happened in plain and f"{word} (unstable)" not in plain
    lines = [verdict_line(found.run, "b", one) for one in verdicts]
    assert all(
        "unstable=1" in line and 'verdict="inconclusive"' in line and "score" not in line for line in lines
    )


@pytest.mark.parametrize(("change", "happened"), CASES, ids=["void boots", "void trials", "MMC errors"])
def test_slower_is_said_of_an_unstable_candidate_too(store: Store, change: Change, happened: str) -> None:
    put(store, "r", boots=8, ratio=0.8, change=change)
    for row in study(store, "r").table.blocks[0].rows:
        assert (row.verdict.verdict, row.verdict.unstable) == (
            "slower",
            True,
        ) and happened in row.verdict.reason


def test_what_both_suffer_is_no_instability(store: Store) -> None:
    def both(record: BootRecord) -> BootRecord:
        return dataclasses.replace(
            mmc_errors(dataclasses.replace(record, variant="cand")), variant=record.variant
        )

    put(store, "r", boots=8, change=both)
    assert {row.verdict.verdict for row in study(store, "r").table.blocks[0].rows} == {"same"}


def test_how_a_boot_was_driven_is_no_instability(store: Store) -> None:
    def over_serial(record: BootRecord) -> BootRecord:
        if record.variant != "cand":
            return record
        return dataclasses.replace(
            record, events=({"kind": "ssh", "line": "no shell at root@b:22: refused"},)
        )

    put(store, "r", boots=8, change=over_serial)
    assert {row.verdict.verdict for row in study(store, "r").table.blocks[0].rows} == {"same"}
