"""From a run in the store to verdicts: what goes into the test, which family it is in, and which outcomes withhold it."""

from __future__ import annotations

from typing import Any

import pytest

from farm.report.study import Study, study
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, Status, TrialRecord

ORDER = ["base", "cand", "cand", "base"] * 2
NOISE = [1.001, 0.999, 1.002, 0.998, 0.9985, 1.0015, 0.9995, 1.0005]  # far below 10 %
CAMPAIGN = """\
name: c
boards: [b]
variants: {base: {baseline: true}, cand: {}}
workloads:
  - {name: quick, tool: fio, rw: randread, size: 1M, band: 20%}
  - {name: plain, tool: fio, rw: randread, size: 1M}
"""


def fill(
    store: Store,
    *,
    ratio: float = 1.1,
    workloads: tuple[str, ...] = ("quick", "plain"),
    latency: bool = False,
    text: str = "",
    events: dict[int, tuple[dict[str, Any], ...]] | None = None,
    **settings: Any,
) -> None:
    """A run of 4 boots per variant on board b, the candidate `ratio` times as fast, latencies the other way round."""
    store.begin_run(
        RunRecord(
            "r", "c", text, 3, 0.0, settings={"baseline": "base", "variants": ["base", "cand"], **settings}
        )
    )
    for index, variant in enumerate(ORDER):
        value = 1e8 * NOISE[index] * (ratio if variant == "cand" else 1.0)
        samples = (SampleRecord("read", "bw_bytes", value),)
        if latency:
            samples += (
                SampleRecord("read", "lat_p99_ns", 1e14 / value),
                SampleRecord("read", "lat_p99.9_ns", 5e14 / value),
            )
        trials = tuple(TrialRecord(name, 0, "ok", "", "fio", 0.0, 1.0, samples) for name in workloads)
        store.commit_boot(boot(index, variant, trials=trials, events=(events or {}).get(index, ())))


def boot(index: int, variant: str, status: Status = "ok", attempt: int = 0, **more: Any) -> BootRecord:
    return BootRecord(
        "r", "b", index, index // 4, variant, attempt, status, more.pop("reason", ""), 60.0 * index, 60.0 * index + 9, **more
    )  # fmt: skip


def said(found: Study) -> dict[str, str]:
    return {
        row.label: row.verdict.verdict for block in found.table.blocks for row in block.rows if row.verdict
    }


def test_each_workload_has_its_own_band(store: Store) -> None:
    fill(store, text=CAMPAIGN)
    assert said(study(store, "r")) == {"quick": "same", "plain": "faster"}


def test_the_runs_band_counts_where_a_workload_names_none(store: Store) -> None:
    fill(store, band=0.2)
    assert said(study(store, "r")) == {"quick": "same", "plain": "same"}


def test_less_latency_is_faster_and_a_tool_without_latencies_is_no_row(store: Store) -> None:
    fill(store, latency=True)
    found = study(store, "r")
    assert [tail.metric for tail in found.tails] == ["lat_p99_ns", "lat_p99.9_ns"]
    for tail in found.tails:
        assert {row.verdict.verdict for block in tail.blocks for row in block.rows if row.verdict} == {
            "faster"
        }
    store.commit_boot(
        boot(
            8,
            "base",
            trials=(
                TrialRecord("dd", 0, "ok", "", "dd", 0.0, 1.0, (SampleRecord("read", "bw_bytes", 1e8),)),
            ),
        )
    )
    found = study(store, "r")
    assert "dd" in said(found)
    assert {row.label for tail in found.tails for block in tail.blocks for row in block.rows} == {
        "quick",
        "plain",
    }


def test_a_candidate_that_panics_now_and_then_is_not_called_faster(store: Store) -> None:
    """Its boots were repeated, so that no value is missing."""
    fill(store)
    assert said(study(store, "r"))["plain"] == "faster"
    event = {"kind": "panic", "line": "Kernel panic - not syncing"}
    for index in (1, 2):
        store.commit_boot(
            boot(index, "cand", "failed", attempt=1, reason=f"panic after {index}.5 s", events=(event,))
        )
    found = study(store, "r")
    (row,) = [row for row in found.table.blocks[0].rows if row.label == "plain"]
    assert row.verdict is not None and row.verdict.unstable and row.verdict.verdict == "inconclusive"
    assert "panic (2 times)" in row.verdict.reason and "withheld" in row.verdict.reason
    # Reasons that differ by their figures only are one kind.
    assert "failed boot: panic after N s (2 times)" in row.verdict.reason


def test_kernel_events_of_the_candidate_alone_count_and_shared_ones_do_not(store: Store) -> None:
    crc = ({"kind": "crc", "line": "mmcblk0: response CRC error"},)
    fill(store, events={0: crc, 1: crc})
    assert said(study(store, "r"))["plain"] == "faster"


def test_void_trials_of_the_candidate_alone_withhold_the_verdict(store: Store) -> None:
    fill(store)
    store.commit_boot(
        boot(
            8,
            "cand",
            trials=(TrialRecord("plain", 0, "void", "ran 0.01 s, shorter than its floor", "fio", 0.0, 0.0),),
        )
    )
    (row,) = [row for row in study(store, "r").table.blocks[0].rows if row.label == "plain"]
    assert row.verdict is not None and row.verdict.unstable
    assert "void trial: ran N s, shorter than its floor" in row.verdict.reason


def test_a_candidate_without_any_good_boot_is_there_and_inconclusive(store: Store) -> None:
    fill(store, workloads=("plain",))
    store.commit_boot(boot(9, "third", "failed", reason="no prompt"))
    rows = {block.candidate: block.rows[0] for block in study(store, "r").table.blocks}
    third = rows["third"].verdict
    assert third is not None and third.verdict == "inconclusive" and "third has no boot" in third.reason


@pytest.mark.parametrize(
    ("baseline", "verdict", "ratio"), [("base", "faster", 1.1), ("cand", "slower", 1 / 1.1)]
)
def test_the_other_baseline_turns_the_verdict_round(
    store: Store, baseline: str, verdict: str, ratio: float
) -> None:
    fill(store, workloads=("plain",), baseline=baseline)
    (row,) = study(store, "r").table.blocks[0].rows
    assert row.verdict is not None and row.verdict.verdict == verdict
    assert row.ratio == pytest.approx(ratio, rel=0.01)


def test_lint_flags_and_drift_stand_beside_the_verdicts(store: Store) -> None:
    fill(store, text=CAMPAIGN)
    doubts = {doubt.code: doubt for doubt in study(store, "r").doubts}
    assert doubts["no-ramp"].workloads == ("quick", "plain") and doubts["no-ramp"].boards == ("b",)
    assert "spread" not in doubts and "drift" not in doubts
    for index in range(8, 16):  # the same order again, each boot 5 % slower than the one before
        sample = SampleRecord("read", "bw_bytes", 1e8 * 0.95 ** (index - 7))
        trial = TrialRecord("plain", 0, "ok", "", "fio", 0.0, 1.0, (sample,))
        store.commit_boot(boot(index, ORDER[index - 8], trials=(trial,)))
    doubts = {doubt.code: doubt for doubt in study(store, "r").doubts}
    assert "plain" in doubts["drift"].message and "plain, base:" in doubts["spread"].message


def test_an_emulated_card_above_its_bus_is_no_fault_of_the_run(store: Store) -> None:
    """25 MHz x 4 bit carry 12.5 MB/s: impossible on a real bus, and nothing unusual on one that no clock holds back."""
    settings = {"baseline": "base", "variants": ["base", "cand"], "synthetic": {"emulated": "by QEMU"}}
    store.begin_run(RunRecord("r", "c", "", 1, 0.0, settings=settings))
    facts = {"ios.timing": "sd high-speed", "ios.width_bits": 4, "ios.clock_hz": 25_000_000}
    for board, base, cand in (("emulated", 25e6, 1e6), ("real", 25e6, 1e6)):
        for index, (variant, value) in enumerate((("base", base), ("cand", cand))):
            trial = TrialRecord("w", 0, "ok", "", "dd", 0.0, 1.0, (SampleRecord("read", "bw_bytes", value),))
            store.commit_boot(
                BootRecord("r", board, index, 0, variant, 0, "ok", "", 60.0 * index, 60.0 * index + 9, facts=facts, trials=(trial,))
            )  # fmt: skip
    doubts = {(one.code, one.boards): one for one in study(store, "r").doubts if "bus" in one.code}
    assert set(doubts) == {
        ("bus-not-clocked", ("emulated",)),
        ("above-bus-limit", ("real",)),
        ("below-15-percent-of-bus", ("real",)),
    }
    assert "12.5 MB/s" in doubts["bus-not-clocked", ("emulated",)].message
    assert "impossible" not in doubts["bus-not-clocked", ("emulated",)].message
