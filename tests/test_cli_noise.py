"""Calibrations, looks and gates on the command line, from stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.store.db import Store
from tests import test_cli
from tests.report.stored import CAMPAIGN, put
from tests.test_cli import Farm

farm = test_cli.farm  # the fixture
MEASURED = CAMPAIGN.replace("boards: [b]", "boards: [virt-rk3568]").replace(
    "boots: 6", "boots: {min: 6, max: 12}\nband: measured"
)


@pytest.fixture
def campaign(farm: Farm) -> Path:
    (farm.folder / "c.yaml").write_text(MEASURED)
    return farm.folder / "c.yaml"


def calibrate(farm: Farm, **more: object) -> None:
    with Store.open(farm.home / "farm.db", create=True) as store:
        put(
            store,
            "aa1",
            boards=("virt-rk3568",),
            variants=("base", "base-again"),
            aa=True,
            noise=0.02,
            **more,
        )  # type: ignore[arg-type]


def test_a_plan_names_the_calibration_that_bands_and_boots_come_from(farm: Farm, campaign: Path) -> None:
    calibrate(farm)
    done = farm("plan", campaign, "--seed", "1")
    said = " ".join(done.out.split())
    assert done.code == 0, done.err
    assert "noise by A/A run aa1 of 2027-01-15 08:00 UTC, card SDQEMU (0x0000aa):" in said
    assert "(measured); boots per variant needed:" in said and "4 looks: after 6 boots per variant" in said
    (board,) = json.loads(farm("plan", campaign, "--seed", "1", "--json").out)["boards"]
    assert [(one["workload"], one["run"], one["measured"]) for one in board["estimates"]] == [
        ("one", "aa1", True),
        ("two", "aa1", True),
    ]
    assert len(board["least"]["boots"]) == 12 and len(board["boots"]) == 24


def test_a_measured_band_without_calibration_is_said_before_anything_is_touched(
    farm: Farm, campaign: Path
) -> None:
    said = farm.complaint(2, "plan", campaign)
    assert said == (
        f"farm: {campaign}:4: band: board virt-rk3568 has no A/A run of workload one with 1 trials a boot and the card of its "
        "last boot; calibrate it by farm run --aa c.yaml, or write band: 3%"
    )
    calibrate(farm, workloads=("one",))
    assert "has no A/A run of workload two" in farm.complaint(2, "plan", campaign)


def test_a_plain_band_needs_no_calibration(farm: Farm, campaign: Path) -> None:
    campaign.write_text(MEASURED.replace("band: measured", "band: 3%"))
    done = farm("plan", campaign)
    assert done.code == 0 and "noise: unknown" in done.out
    assert not (farm.home / "farm.db").exists()


def test_compare_can_be_a_gate(farm: Farm) -> None:
    with Store.open(farm.home / "farm.db", create=True) as store:
        put(store, "bad", ratio=0.9)
        put(store, "good", ratio=1.1, seed=2)
    assert farm("compare", "bad").code == 0
    for form in ("terminal", "markdown", "mail", "json"):
        done = farm("compare", "bad", "--fail-on", "slower", "--format", form)
        assert (done.code, done.err) == (1, "exit code 1, as --fail-on asks: 4 slower\n"), form
        assert done.out
    assert farm("compare", "good", "--fail-on", "slower", "--fail-on", "unstable").code == 0
    assert farm("compare", "bad", "--fail-on", "faster").code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--aa", "--confirm"), "--aa expects no difference, so there is nothing to confirm"),
        (("--commit", "base"), "--commit 'base' is not VARIANT=SHA"),
        (("--commit", "new=1a2b"), "--commit names 'new', which is no variant; the campaign has base, cand"),
        (("--branch", "\x1b[2J"), "--branch '\\x1b[2J' is no name of a branch"),
    ],
)
def test_options_of_run_that_cannot_be_meant(
    farm: Farm,
    campaign: Path,
    options: tuple[str, ...],
    said: str,
) -> None:
    assert farm.complaint(2, "run", campaign, *options).startswith(f"farm: {said}")
