"""What counts, counts once; what does not is told with its reason. Every expected figure is worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from farm.errors import UserError
from farm.report.compare_view import Note, as_dict
from farm.report.series import Series, by_board
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord
from tests.report.stored import compared


def test_a_boot_is_the_median_of_its_trials_and_a_variant_of_its_boots(small: Store) -> None:
    table = compared(small, "small")
    (block,) = table.blocks
    (row,) = block.rows
    assert row.cand is not None
    assert (block.board, block.candidate, row.workload, row.rw) == ("rk", "cand", "w", "read")
    # base: boot 0 median(100, 110, 300) = 110, boot 3 90; cand: boot 1 median(220, 200) = 210, boot 2 190.
    # The trials together would give 105 and 200.
    assert (row.base.value, row.cand.value, row.ratio) == (100e6, 200e6, 2.0)
    assert (row.base.boots, row.cand.boots) == (2, 2)
    # Sample standard deviation of 110 and 90 (and of 210 and 190) is sqrt(200).
    assert row.base.spread == pytest.approx(math.sqrt(200) / 100)
    assert row.cand.spread == pytest.approx(math.sqrt(200) / 200)
    # Boot 4 of the baseline was void; boot 1 of the candidate was repeated.
    assert (row.base.planned, row.base.void, row.base.failed) == (3, 2, 0)
    assert (row.cand.planned, row.cand.void, row.cand.failed) == (2, 0, 2)
    assert row.verdict is None


def test_what_does_not_count_is_told_with_its_reason(small: Store) -> None:
    assert compared(small, "small").notes == (
        Note("boot", "rk", "cand", "failed", "kernel panic", ((1, 0),), (), ()),
        Note("boot", "rk", "base", "void", "other kernel than flashed", ((4, 0),), (), ()),
        Note("trial", "rk", "cand", "failed", "exit status 1", ((2, 0),), ("w",), (8,)),
        Note("trial", "rk", "base", "void", "fio saw no I/O on mmcblk0", ((3, 0),), ("w",), (10,)),
    )


def test_json_has_every_figure(small: Store) -> None:
    data = json.loads(json.dumps(as_dict(compared(small, "small"))))
    (row,) = data["blocks"][0]["rows"]
    assert row["base"] | {"spread": None} == {
        "variant": "base", "value": 100e6, "boots": 2, "spread": None, "planned": 3, "void": 2, "failed": 0,
    }  # fmt: skip
    assert (row["ratio"], data["baseline"], data["metric"]) == (2.0, "base", "bw_bytes")
    assert data["notes"][0]["reason"] == "kernel panic"
    assert (data["first_trial"], data["last_trial"]) == (1, 11)


def test_a_baseline_that_the_run_lacks_is_named(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0, settings={"baseline": "nope", "variants": ["a", "b"]}))
    with pytest.raises(UserError, match="run r has no variant 'nope'; name one of a, b"):
        compared(store, "r")


def test_a_run_without_boots_is_an_empty_table(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0, settings={"baseline": "a", "variants": ["a", "b"]}))
    table = compared(store, "r")
    assert (table.blocks, table.notes, table.first_trial) == ((), (), None)


def test_both_directions_of_a_workload_are_rows_and_void_ones_keep_theirs(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0, settings={"baseline": "a", "workloads": ["mix", "dead"]}))
    mixed = (SampleRecord("write", "bw_bytes", 1e6), SampleRecord("read", "bw_bytes", 3e6))
    for index in (0, 1):
        trials = (
            TrialRecord("dead", 0, "void", "no measurement", "dd", 0.0, 1.0),
            TrialRecord("mix", 0, "ok", "", "fio", 0.0, 1.0, samples=mixed),
            TrialRecord("mix", 1, "failed", "exit status 1", "fio", 0.0, 1.0),
        )
        store.commit_boot(BootRecord("r", "b", index, 0, "a", 0, "ok", "", 9.0 - index, 10.0, trials=trials))
    table = compared(store, "r")
    (block,) = table.blocks
    assert block.candidate is None
    assert [
        (row.label, row.base.value, row.base.boots, row.base.failed, row.base.void) for row in block.rows
    ] == [
        ("mix read", 3e6, 2, 2, 0),
        ("mix write", 1e6, 2, 2, 0),
        ("dead", None, 0, 0, 2),
    ]
    assert all(row.cand is None and row.ratio is None for row in block.rows)


def test_the_table_for_statistics_has_the_same_medians(small: Store) -> None:
    (table,) = by_board(small.values("small")).values()
    assert table.series == (Series("w", "read", "w"),)
    assert (table.indexes, table.variants) == ((0, 1, 2, 3), ("base", "cand", "cand", "base"))
    assert table.starts.tolist() == [0.0, 100.0, 200.0, 300.0]
    assert table.values.tolist() == [[110e6], [210e6], [190e6], [90e6]]


def test_a_boot_without_a_good_trial_of_a_series_has_nan_there(store: Store) -> None:
    store.begin_run(RunRecord("r", "c", "", 1, 0.0))
    for index, names in enumerate((("x", "y"), ("y",))):
        trials = tuple(
            TrialRecord(name, 0, "ok", "", "dd", 0.0, 1.0, samples=(SampleRecord("read", "bw_bytes", 7.0),))
            for name in names
        )
        store.commit_boot(BootRecord("r", "b", index, 0, "a", 0, "ok", "", 0.0, 1.0, trials=trials))
    values = by_board(store.values("r"))["b"].values
    np.testing.assert_array_equal(values, [[7.0, 7.0], [np.nan, 7.0]])


@dataclass(frozen=True)
class Said:
    verdict: str
    unstable: bool
    reason: str


def test_verdicts_stand_at_their_rows(small: Store) -> None:
    said = Said("faster", False, "100 % faster")
    table = compared(small, "small", verdicts={("rk", "cand", "w"): said, ("rk", "cand", "other"): said})
    assert [row.verdict for row in table.blocks[0].rows] == [said]
    assert as_dict(table)["blocks"][0]["rows"][0]["verdict"]["reason"] == "100 % faster"


def test_the_verdicts_of_the_analysis_fit(small: Store) -> None:
    from farm.analysis.compare import compare

    (table,) = by_board(small.values("small")).values()
    verdicts = compare(
        table.values, table.starts, table.variants, "base", workloads=[one.label for one in table.series]
    )
    keyed = {(table.board, verdict.candidate, verdict.workload): verdict for verdict in verdicts}
    (row,) = compared(small, "small", verdicts=keyed).blocks[0].rows
    assert row.verdict is not None and row.verdict.verdict == "inconclusive"  # two boots are never enough
