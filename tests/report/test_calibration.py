"""A/A runs: what they say of themselves, which of them counts for a campaign, and the bands that follow."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from farm.analysis.noise import Noise
from farm.campaign import load_campaign
from farm.errors import UserError
from farm.report import html, text
from farm.report.calibration import measured_bands, newest
from farm.report.study import as_dict, latencies, study
from farm.store.db import Store
from tests.report.stored import CAMPAIGN, CARD, boot, put

AGAIN = ("base", "base-again")
OTHER_CARD = {"card.name": "ANOTHER", "card.manfid": "0x000011"}


def aa(store: Store, run: str, **more: Any) -> None:
    put(store, run, **{"variants": AGAIN, "aa": True, "noise": 0.02, **more})


def campaign(tmp_path: Path, old: str = "", new: str = ""):
    assert old in CAMPAIGN
    (tmp_path / "c.yaml").write_text(CAMPAIGN.replace(old, new) if old else CAMPAIGN)
    return load_campaign(tmp_path / "c.yaml")


def test_an_aa_run_says_what_it_is_and_how_much_noise_there_was(store: Store) -> None:
    aa(store, "aa1", boots=24)
    found = study(store, "aa1")
    assert list(found.campaign.variants) == ["base", "base-again"]
    assert [(row.label, row.metric, row.boots) for row in found.noise] == [
        ("one", "bw_bytes", 48), ("two", "bw_bytes", 48), ("one", "lat_p99_ns", 48), ("two", "lat_p99_ns", 48),
    ]  # fmt: skip
    for row in found.noise:  # put with 2 %; a standard deviation from 48 boots is within a third of it
        assert 0.0133 < row.spread < 0.027 and row.upper > row.spread
        assert row.band == pytest.approx(math.expm1(1.96 * row.upper * math.sqrt(2 / 24)), rel=1e-3)
    mail = " ".join(text.mail(found).split())
    assert "no difference is expected, and faster or slower is a false alarm" in mail
    assert "Noise ----- board workload" in mail and "farm run nightly.yaml --seed 1 --aa" in mail
    assert "base-again against base" in mail
    page = html.page(found, latencies(store, found))
    assert "is a false alarm" in page and "<h2>Noise</h2>" in page
    assert json.loads(json.dumps(as_dict(found)))["noise"][0]["boots"] == 48


def test_a_change_in_an_aa_run_is_flagged_as_a_false_alarm_everywhere(store: Store) -> None:
    aa(store, "aa1", noise=0.002, ratio={"one": 0.9})
    found = study(store, "aa1")
    (one, two) = found.table.blocks[0].rows
    assert one.verdict.verdict == "slower" and "false-alarm" in one.verdict.flags
    assert one.verdict.reason.startswith("False alarm, since both names are the same variant. Slower: ")
    assert "false-alarm" not in two.verdict.flags
    assert "False alarm" in text.mail(found) and "False alarm" in text.markdown(found)
    assert "False alarm" in html.page(found, {})


def test_the_newest_run_of_the_same_card_workload_and_trials_counts(store: Store, tmp_path: Path) -> None:
    aa(store, "old", started=1000.0, seed=2)
    aa(store, "newer", started=2000.0, seed=3, workloads=("one",))
    aa(store, "torn", started=3000.0, seed=4, status="interrupted")
    put(store, "none", started=4000.0, seed=5)
    found = newest(store, campaign(tmp_path), ["b", "elsewhere"])
    assert {name: one.run for name, one in found["b"].items()} == {"one": "newer", "two": "old"}
    assert found["b"]["one"].card == "SDQEMU (0x0000aa)" and found["elsewhere"] == {}
    assert set(found["b"]["one"].noise) == {("bw_bytes", "read"), ("lat_p99_ns", "read")}
    # another name and band measure the same; another size or number of trials does not
    renamed = newest(store, campaign(tmp_path, "name: one,", "name: renamed, band: 1%,"), ["b"])
    assert renamed["b"]["renamed"].run == "newer"
    assert set(newest(store, campaign(tmp_path, "bs: 8k, size: 1M", "bs: 8k, size: 2M"), ["b"])["b"]) == {
        "one"
    }
    assert newest(store, campaign(tmp_path, "trials: 1", "trials: 2"), ["b"])["b"] == {}


def test_a_card_that_was_changed_is_not_calibrated(store: Store, tmp_path: Path) -> None:
    aa(store, "aa1", started=1000.0)
    put(store, "later", started=2000.0, facts=OTHER_CARD)
    assert newest(store, campaign(tmp_path), ["b"])["b"] == {}
    store.commit_boot(boot("later", "b", 99, "base", "failed", facts={}))
    aa(store, "aa2", started=3000.0, facts=OTHER_CARD)
    assert newest(store, campaign(tmp_path), ["b"])["b"]["one"].run == "aa2"


def test_measured_bands_are_fixed_in_the_run_and_used(store: Store, tmp_path: Path) -> None:
    """2 % of noise and 6 boots: a band near 1.96 x 0.02 x 1.4 x sqrt(2/6) = 3.2 %; a change of 1 % is inside, of 10 % not."""
    aa(store, "aa1", boots=12)
    wanted = campaign(tmp_path, "trials: 1", "trials: 1\nband: measured")
    bands = measured_bands(wanted, newest(store, wanted, ["b"]))
    of_one = bands["b"]["one"]
    assert (of_one["run"], of_one["card"]) == ("aa1", "SDQEMU (0x0000aa)")
    assert 0.02 < of_one["bands"]["bw_bytes read"] < 0.05
    put(
        store, "r", ratio={"one": 1.01, "two": 1.1}, noise=0.001, started=1.9e9, band="measured", measured_bands=bands,
        text=wanted.source_text,
    )  # fmt: skip
    one, two = study(store, "r").table.blocks[0].rows
    assert (one.verdict.verdict, two.verdict.verdict) == ("same", "faster")
    assert f"the band of {100 * of_one['bands']['bw_bytes read']:.3g} %" in one.verdict.reason
    mail = " ".join(text.mail(study(store, "r")).split())
    assert "Measured bands are from A/A run aa1 of 2027-01-15" in mail
    # a plain band of the workload itself beats the campaign's
    own = campaign(tmp_path, "trials: 1", "trials: 1\nband: measured").source_text.replace(
        "name: one,", "name: one, band: 0.1%,"
    )
    put(
        store,
        "own",
        ratio=1.01,
        noise=0.0002,
        started=1.95e9,
        band="measured",
        measured_bands=bands,
        text=own,
    )
    one, two = study(store, "own").table.blocks[0].rows
    assert (one.verdict.verdict, two.verdict.verdict) == ("faster", "same")


def test_a_band_so_wide_that_same_says_little_is_a_warning(store: Store, tmp_path: Path) -> None:
    aa(store, "aa1", noise=0.3)
    wanted = campaign(tmp_path, "trials: 1", "trials: 1\nband: measured")
    bands = measured_bands(wanted, newest(store, wanted, ["b"]))
    put(store, "r", started=1.9e9, band="measured", measured_bands=bands, text=wanted.source_text, ratio=1.1)
    (doubt,) = [one for one in study(store, "r").doubts if one.code == "wide-band"]
    assert (doubt.boards, doubt.workloads) == (
        ("b",),
        ("one", "two"),
    ) and "`same` says little" in doubt.message


def test_bands_of_another_card_are_a_warning(store: Store, tmp_path: Path) -> None:
    aa(store, "aa1", started=1000.0)
    wanted = campaign(tmp_path, "trials: 1", "trials: 1\nband: measured")
    bands = measured_bands(wanted, newest(store, wanted, ["b"]))
    settings = {"band": "measured", "measured_bands": bands, "text": wanted.source_text}
    put(store, "swapped", started=2000.0, facts=OTHER_CARD, **settings)
    (doubt,) = [one for one in study(store, "swapped").doubts if one.code == "calibrated-another-card"]
    assert (
        doubt.message
        == "the bands were measured with card SDQEMU (0x0000aa), and this run found ANOTHER (0x000011)"
    )
    put(store, "kept", started=3000.0, **settings)
    assert "calibrated-another-card" not in {one.code for one in study(store, "kept").doubts}


def test_a_measured_band_without_calibration_is_refused_with_line_and_remedy(
    store: Store, tmp_path: Path
) -> None:
    aa(store, "aa1", workloads=("one",))
    wanted = campaign(tmp_path, "bs: 8k,", "bs: 8k, band: measured,")
    with pytest.raises(UserError) as caught:
        measured_bands(wanted, newest(store, wanted, ["b"]))
    assert str(caught.value) == (
        f"{tmp_path}/c.yaml:8: workloads[1].band: board b has no A/A run of workload two with 1 trials a boot and the card of "
        "its last boot; calibrate it by farm run --aa c.yaml, or write band: 3%"
    )
    plain = campaign(tmp_path)
    assert measured_bands(plain, newest(store, plain, ["b"])) == {"b": {}}


def test_bands_follow_from_the_least_boots(store: Store, tmp_path: Path) -> None:
    aa(store, "aa1")
    few = campaign(tmp_path, "boots: 6", "boots: {min: 4, max: 16}\nband: measured")
    found = newest(store, few, ["b"])
    noise: Noise = found["b"]["one"].noise["bw_bytes", "read"]
    assert measured_bands(few, found)["b"]["one"]["bands"]["bw_bytes read"] == noise.band(4)
    assert CARD["card.name"] in found["b"]["one"].card
