"""The verdict rule held to account: false alarms and real effects found, beside the rules that others use.

`python -m farm.analysis.simulate --repetitions 2000` prints a table per rule and ends with 1 where ours
misses a limit. All percentages are differences of logs: 16 workloads that share 30 % of their
noise, 4 of them really 0.05 apart, boot noise 0.02 (or 0.01 for the baseline against 0.04), a drift that the
whole board shares: 0.10 over the session, steps of a random walk of 0.012 a boot, or one step of 0.05.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from farm.analysis.compare import ALPHA, Verdict, compare, settled
from farm.analysis.noise import noise_of
from farm.schedule import schedule

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Noise = Literal["normal", "t3"]
Drift = Literal["none", "linear", "walk", "step"]
Spread = Literal["2 %", "1 % / 4 %"]

WORKLOADS, REAL = 16, 4
EFFECT, SHARED = 0.05, 0.3
BASE, CAND = "base", "cand"
BAND = 0.03
OURS = "this test"
TABLE = {("none", 5): 0.42, ("none", 6): 0.64, ("none", 8): 0.89, ("linear", 6): 0.68}
"""Real effects found by this test with normal noise of 2 %, by drift and boots per variant: what is asked of it."""
TABLE_REPETITIONS = 160
"""That table is from 120 to 200 repetitions, and so has a standard error of its own."""
LOOKS = (6, 8, 10, 12)
"""Boots per variant after which a campaign with `boots: {min: 6, max: 12}` looks."""


@dataclass(frozen=True)
class Setting:
    """What the boots are like; `boots` per variant, `effect` in logs of the first `real` workloads."""

    noise: Noise = "normal"
    drift: Drift = "none"
    spread: Spread = "2 %"
    boots: int = 6
    effect: float = EFFECT
    real: int = REAL


@dataclass(frozen=True)
class Outcome:
    """One rule in one setting, over `repetitions` simulated campaigns."""

    false_alarms: float  # share of campaigns with any verdict on a workload without effect
    found: float  # share of the real effects
    found_deviation: float  # of that share between campaigns
    repetitions: int


def order(boots: int, seed: int) -> Bools:
    """Which boots of a campaign are the candidate's, from the real schedule.

    An odd number is whole mirrored blocks and then half of one: a torn campaign, or one that was cut short.
    """
    planned = schedule((BASE, CAND), boots + boots % 2, seed)[: 2 * boots]
    return np.array([boot.variant == CAND for boot in planned])


def campaign(setting: Setting, seed: Sequence[int]) -> tuple[Floats, Bools]:
    """Logs of the values, boots x workloads, and which boots are the candidate's."""
    rng = np.random.default_rng(seed)
    is_cand = order(setting.boots, int(rng.integers(2**32)))
    boots = len(is_cand)

    def noise(*shape: int) -> Floats:
        if setting.noise == "normal":
            return rng.standard_normal(shape)
        return rng.standard_t(3, shape) / math.sqrt(3)  # of variance 1

    deviation = np.where(is_cand, 0.04, 0.01) if setting.spread == "1 % / 4 %" else np.full(boots, 0.02)
    y = math.sqrt(SHARED) * noise(boots, 1) + math.sqrt(1 - SHARED) * noise(boots, WORKLOADS)
    y = y * deviation[:, None]
    match setting.drift:
        case "linear":
            y += 0.10 * np.linspace(0, 1, boots)[:, None]
        case "walk":
            y += np.cumsum(rng.normal(0, 0.012, boots))[:, None]
        case "step":
            y += 0.05 * (np.arange(boots) >= rng.integers(1, boots))[:, None]
        case "none":
            pass
    y[:, : setting.real] += setting.effect * is_cand[:, None]
    return y, is_cand


def verdicts(y: Floats, is_cand: Bools, *, draws: int, seed: int, looks: int = 1) -> tuple[Verdict, ...]:
    """Our own, on a campaign whose boots are five minutes apart."""
    return compare(
        60e6 * np.exp(y),
        300.0 * np.arange(len(y)),
        [CAND if one else BASE for one in is_cand],
        BASE,
        workloads=[f"w{i}" for i in range(y.shape[1])],
        candidates=[CAND],
        band=BAND,
        draws=draws,
        seed=seed,
        looks=looks,
    )


class _HasP(Protocol):
    """What scipy's tests return."""

    @property
    def pvalue(self) -> Any: ...


def _holm_rejects(result: _HasP) -> Bools:
    """Holm's procedure at 5 % along the last axis."""
    p = np.asarray(result.pvalue, dtype=np.float64)
    by_size = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, by_size, -1) < ALPHA / np.arange(p.shape[-1], 0, -1)
    rejects = np.empty(p.shape, dtype=bool)
    np.put_along_axis(rejects, by_size, np.logical_and.accumulate(steps, axis=-1), -1)
    return rejects


def _naive(base: Floats, cand: Floats) -> Bools:
    ratio = np.exp(cand).mean(axis=1) / np.exp(base).mean(axis=1)
    return np.asarray(np.abs(ratio - 1) > BAND)


RULES: dict[str, Callable[[Floats, Floats], Bools]] = {
    "means differ by more than 3 %": _naive,
    "Welch t + Holm": lambda a, b: _holm_rejects(stats.ttest_ind(a, b, axis=1, equal_var=False)),
    "Mann-Whitney + Holm": lambda a, b: _holm_rejects(stats.mannwhitneyu(a, b, axis=1, method="exact")),
    "paired t + Holm": lambda a, b: _holm_rejects(stats.ttest_rel(a, b, axis=1)),
}
"""The rules of others: logs of campaigns x boots x workloads of either side, in order of time -> what they report."""


def simulate(setting: Setting, repetitions: int, *, draws: int = 2000, seed: int = 0) -> dict[str, Outcome]:
    """The outcomes of every rule, ours last, on the same simulated campaigns."""
    campaigns = [campaign(setting, (seed, i)) for i in range(repetitions)]
    base = np.stack([y[~is_cand] for y, is_cand in campaigns])
    cand = np.stack([y[is_cand] for y, is_cand in campaigns])
    reported = {name: rule(base, cand) for name, rule in RULES.items()}
    reported[OURS] = np.array(
        [
            [one.verdict in ("faster", "slower") for one in verdicts(y, is_cand, draws=draws, seed=i)]
            for i, (y, is_cand) in enumerate(campaigns)
        ]
    )
    return {name: _outcome(one, setting.real) for name, one in reported.items()}


def _outcome(reported: Bools, real: int) -> Outcome:
    found = reported[:, :real].mean(axis=1) if real else np.zeros(len(reported))
    alarms = reported[:, real:].any(axis=1).mean()
    return Outcome(float(alarms), float(found.mean()), float(found.std()), len(reported))


def null_p(setting: Setting, repetitions: int, *, draws: int = 2000, seed: int = 0) -> Floats:
    """The smallest corrected p of each of `repetitions` campaigns; with no real effect it should be uniform."""
    smallest = []
    for i in range(repetitions):
        ps = [one.p for one in verdicts(*campaign(setting, (seed, i)), draws=draws, seed=i)]
        smallest.append(min(p for p in ps if p is not None))
    return np.array(smallest)


def stopped(setting: Setting, repetitions: int, *, draws: int = 2000, seed: int = 0) -> tuple[Floats, Floats]:
    """Campaigns that look after LOOKS boots and stop when settled.

    Returns for each whether it reported any change, and which share of its workloads it called `same`.
    """
    changed, same = [], []
    for i in range(repetitions):
        y, is_cand = campaign(setting, (seed, i))
        for boots in LOOKS:
            # The noise of a longer campaign, seen up to this block.
            says = verdicts(y[: 2 * boots], is_cand[: 2 * boots], draws=draws, seed=i, looks=len(LOOKS))
            if settled(says):
                break
        changed.append(any(one.verdict in ("faster", "slower") for one in says))
        same.append(np.mean([one.verdict == "same" for one in says]))
    return np.array(changed, dtype=float), np.array(same)


def outside_measured(setting: Setting, repetitions: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Campaigns without effect whose bands were measured by an A/A run of as many boots before.

    Returns for each which share of its workloads noise alone moved out of the band, and which share of the bands is at
    least 1.96 standard errors of such a comparison.
    """
    outside, enough = [], []
    deviation = 0.02 * math.sqrt(2 / setting.boots)
    for i in range(repetitions):
        calibration, _ = campaign(setting, (seed, i, 0))
        y, is_cand = campaign(setting, (seed, i, 1))
        starts = 300.0 * np.arange(len(calibration))
        found = [noise_of(np.exp(column), starts, 1e-4) for column in calibration.T]
        bands = np.log1p([one.band(setting.boots) for one in found if one is not None])
        estimates = y[is_cand].mean(axis=0) - y[~is_cand].mean(axis=0)
        outside.append(float(np.mean(np.abs(estimates) > bands)))
        enough.append(float(np.mean(bands >= 1.96 * deviation)))
    return np.array(outside), np.array(enough)


def margin(share: float, repetitions: int) -> float:
    """Three standard errors of a share."""
    return 3 * math.sqrt(share * (1 - share) / repetitions)


def complaints(setting: Setting, ours: Outcome) -> list[str]:
    """Which limits our rule misses in this setting."""
    found: list[str] = []
    limit = ALPHA + margin(ALPHA, ours.repetitions)
    if ours.false_alarms > limit:
        found.append(f"{_named(setting)}: false alarms {ours.false_alarms:.3f}, at most {limit:.3f} allowed")
    expected = TABLE.get((setting.drift, setting.boots))
    if expected is not None and (setting.noise, setting.spread) == ("normal", "2 %"):
        deviation = max(ours.found_deviation, 0.05)
        room = 3 * deviation * math.sqrt(1 / ours.repetitions + 1 / TABLE_REPETITIONS)
        if abs(ours.found - expected) > room:
            found.append(
                f"{_named(setting)}: found {ours.found:.3f}, the table says {expected} +- {room:.3f}"
            )
    return found


def _named(setting: Setting) -> str:
    return f"{setting.noise} noise {setting.spread}, drift {setting.drift}, n={setting.boots}"


def _one(task: tuple[str, Setting, int, int, int]) -> tuple[list[str], list[str]]:
    """Lines to print and complaints of one task; runs in a process of its own."""
    kind, setting, repetitions, draws, seed = task
    if kind == "rules":
        outcomes = simulate(setting, repetitions, draws=draws, seed=seed)
        row = "  ".join(f"{one.false_alarms:.3f} / {one.found:.2f}" for one in outcomes.values())
        return [f"{_named(setting):46} {row}"], complaints(setting, outcomes[OURS])
    bounds: list[tuple[str, float, float, float]] = []  # what, share, allowed, three standard errors
    if kind == "null":
        smallest = null_p(setting, repetitions, draws=draws, seed=seed)
        shares = {a: float((smallest <= a).mean()) for a in (0.01, 0.05, 0.1)}
        line = f"{_named(setting):46} " + "  ".join(
            f"P(p <= {a}) = {share:.3f}" for a, share in shares.items()
        )
        bounds = [(f"P(p <= {a})", share, a, margin(a, repetitions)) for a, share in shares.items()]
    elif kind == "bands":
        outside, enough = outside_measured(setting, repetitions, seed=seed)
        share = float(outside.mean())
        line = f"{_named(setting):46} measured band: noise alone leaves it {share:.3f}, wide enough {enough.mean():.3f}"
        bounds = [("noise alone outside a measured band", share, ALPHA, margin(ALPHA, repetitions))]
        if (
            setting.noise == "normal"
        ):  # what the upper bound promises; heavier tails than normal make it hold less often
            room = 3 * max(float(enough.std()), 0.05) / math.sqrt(repetitions)
            bounds.append(("measured bands too narrow", 1 - float(enough.mean()), ALPHA, room))
    else:
        changed, same = stopped(setting, repetitions, draws=draws, seed=seed)
        if setting.effect == 0:
            share = float(changed.mean())
            line = f"{_named(setting):46} looks, no effect: any false alarm {share:.3f}, called `same` {same.mean():.2f}"
            bounds = [("false alarms with looks", share, ALPHA, margin(ALPHA, repetitions))]
        else:
            share = float(same.mean())
            line = f"{_named(setting):46} looks, every workload at the edge of the band: called `same` {share:.3f}"
            # Workloads of a campaign share noise, so the campaign is the unit of this error.
            room = 3 * max(float(same.std()), 0.05) / math.sqrt(repetitions)
            bounds = [("`same` at the edge of the band", share, ALPHA, room)]
    wrong = [
        f"{_named(setting)}: {what} is {share:.3f}, at most {allowed + room:.3f} allowed"
        for what, share, allowed, room in bounds
        if share > allowed + room
    ]
    return [line], wrong


def _tasks(quick: bool, repetitions: int, draws: int, seed: int) -> list[tuple[str, Setting, int, int, int]]:
    noises: Sequence[Noise] = ("normal",) if quick else get_args(Noise)
    drifts: Sequence[Drift] = ("none", "linear") if quick else get_args(Drift)
    boots = (6,) if quick else (5, 6, 8)
    grid = [Setting(n, d, s, b) for s, n, d, b in itertools.product(get_args(Spread), noises, drifts, boots)]
    null = [Setting(n, d, boots=6, effect=0, real=0) for n, d in itertools.product(noises, drifts)]
    most = LOOKS[-1]
    looks = [
        *(Setting(n, d, boots=most, effect=0, real=0) for n, d in itertools.product(noises, drifts)),
        Setting(boots=most, effect=math.log1p(BAND), real=WORKLOADS),
    ]
    bands = [Setting(n, boots=b, effect=0, real=0) for n, b in itertools.product(noises, boots)]
    kinds = (("rules", grid), ("null", null), ("looks", looks), ("bands", bands))
    return [(kind, one, repetitions, draws, seed) for kind, settings in kinds for one in settings]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 0 if every limit is met, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m farm.analysis.simulate", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--repetitions", type=int, default=2000, help="simulated campaigns per row (2000)")
    parser.add_argument("--draws", type=int, default=2000, help="permutations per campaign (2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--quick", action="store_true", help="few settings and repetitions: does it run at all?"
    )
    options = parser.parse_args(arguments)
    repetitions, draws = (40, 200) if options.quick else (options.repetitions, options.draws)
    tasks = _tasks(options.quick, repetitions, draws, options.seed)
    print(f"{repetitions} repetitions, {draws} draws; any false alarm / real effects found")
    print(f"{'':46} " + "  ".join(f"{name.split(' ')[0]:>12}" for name in (*RULES, OURS)))
    wrong: list[str] = []
    results: Iterator[tuple[list[str], list[str]]]
    with contextlib.ExitStack() as stack:
        if options.processes > 1:
            # Processes of one thread each: the products of matrices here are too small to be split further.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(options.processes))
            results = pool.imap(_one, tasks)
        else:
            results = map(_one, tasks)
        for lines, missed in results:
            print("\n".join(lines), flush=True)
            wrong += missed
    print("\n".join(["every limit is met"] if not wrong else [f"MISSED {line}" for line in wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
