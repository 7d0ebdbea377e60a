"""Posted results -> an imported run: samples under a variant and board, what is unknown marked unknown."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm import __version__
from farm.complaint import printable
from farm.errors import UserError
from farm.parse.clean import clean
from farm.parse.importing import decode, plain
from farm.parse.measurement import Measurement, Parsed
from farm.parse.text import parse_any
from farm.quantity import parse_size, short_size
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, StoredBoot, TrialRecord
from farm.workload.posted import Posted, commands, doubts_of, doubts_of_options

MAX_KEPT = 1_000_000
"""Bytes of a file that are kept as raw output beside what was read out of it."""
# drivers/mmc/core/bus.c (mmc_add_card) names these speeds; eMMC runs them on 8 bits at up to 200 MHz (JESD84-B51,
# 5.3), which is what a bus share of a posted figure is measured by when `ios` was not posted.
_NOMINAL = {
    "HS400 Enhanced strobe": "mmc HS400 enhanced strobe",
    "HS400": "mmc HS400",
    "HS200": "mmc HS200",
}
_PREFIXES = re.compile(r"^\d{1,2}[.)]\s?")


@dataclass(frozen=True)
class Source:
    """Where posted results belong. `numbers` picks samples by their place in each file, from 1; None is all of them."""

    variant: str
    board: str
    workload: str | None = None
    numbers: frozenset[int] | None = None
    card: str | None = None
    soc: str | None = None


def check_names(**options: str | None) -> None:
    """Raise UserError for a name that no list could show or no command could take; None is an option not given."""
    for option, name in options.items():
        if name is None:
            continue
        if not name.strip() or not name.isprintable() or len(name) > 200:
            raise UserError(
                f"--{option} {printable(name)!r} is no name; give 1 to 200 characters that can be seen"
            )
    if options.get("run") == "latest":
        raise UserError(
            "--run latest would hide the newest run; give the id of an imported run, or a new name"
        )


def import_files(
    store: Store,
    run_id: str,
    source: Source,
    files: Iterable[tuple[str, bytes]],
    *,
    baseline: str | None = None,
) -> int:
    """Add what the files (name, content) hold to the imported run `run_id`, which is made if need be.

    Each repeat of a posted figure becomes a boot of its own so that it can be seen; readers take the number of boots
    and their order as unknown. The first variant of a run is its baseline unless `baseline` names another. Returns
    how many samples were stored. Raises UserError for files without a usable measurement, StoreError as the store does.
    """
    known = {run.id: run for run in store.runs()}
    if run_id in known and not known[run_id].settings.get("imported"):
        raise UserError(
            f"--run {run_id}: farm measured this run itself; leave --run out, or name an imported run"
        )
    there = store.boots(run_id) if run_id in known else []
    now = time.time()
    run = known.get(run_id) or RunRecord(
        id=run_id,
        campaign="imported",
        campaign_text="",
        seed=0,
        started=now,
        ended=now,
        status="done",
        version=__version__,
        settings={"imported": True, "baseline": baseline or source.variant},
    )
    if run_id in known and baseline not in (None, run.settings.get("baseline")):
        raise UserError(
            f"run {run_id} has the baseline {run.settings.get('baseline')!r} already; leave --baseline out"
        )
    boots: list[BootRecord] = []
    for name, data in files:
        text = decode(data)
        boots += boots_of(run_id, source, name, text, first=_next_index(there, boots, source.board), now=now)
    _refuse_again(run_id, [*there, *boots])
    store.import_samples(run, boots)
    return sum(len(boot.trials) for boot in boots)


def _refuse_again(run_id: str, boots: Iterable[StoredBoot | BootRecord]) -> None:
    """Raise UserError where a sample of one text would count twice for a variant of a board."""
    had: set[tuple[str, str, str, int]] = set()
    for boot in boots:
        digest = str(boot.facts.get("text_sha256"))
        new = {(boot.board, boot.variant, digest, number) for number in boot.facts.get("text_samples", ())}
        if had & new:
            raise UserError(
                f"run {run_id} has this sample already for {boot.variant} on {boot.board}; choose others with "
                "--samples, or another --as",
                file=boot.facts.get("file"),
            )
        had |= new


def _next_index(there: Sequence[StoredBoot], new: Sequence[BootRecord], board: str) -> int:
    return 1 + max((boot.index for boot in (*there, *new) if boot.board == board), default=-1)


def boots_of(
    run_id: str, source: Source, name: str, text: str, *, first: int, now: float
) -> list[BootRecord]:
    """The boots of one file: the n-th repeat of every workload goes to the n-th of them. Raises UserError if none."""
    parsed = parse_any(text)
    samples = {
        number: one
        for number, one in enumerate(parsed.samples, 1)
        if source.numbers is None or number in source.numbers
    }
    if not samples:
        why = "; ".join(problem.message for problem in parsed.problems[:3])
        if parsed.samples:
            why = f"its samples are numbered 1 to {len(parsed.samples)}, and none of these was asked for"
        raise UserError(f"holds no usable measurement ({why or 'nothing that farm knows'})", file=name)
    posted = list(commands(clean(text)))
    matched = _matched(list(samples.values()), parsed.samples, posted)
    repeats: dict[str, list[tuple[int, TrialRecord]]] = {}
    for (number, sample), command in zip(samples.items(), matched, strict=True):
        workload = source.workload or workload_name(sample)
        trials = repeats.setdefault(workload, [])
        trials.append((number, _trial(workload, sample, command, now)))
    data = text.encode("utf-8", "replace")
    facts = {**facts_of(parsed), "file": plain(name), "text_sha256": hashlib.sha256(data).hexdigest()}
    facts |= {key: value for key, value in (("card.name", source.card), ("soc", source.soc)) if value}
    raw = {"out": data[:MAX_KEPT]}
    found = []
    for repeat in range(max(len(trials) for trials in repeats.values())):
        taken = [trials[repeat] for trials in repeats.values() if repeat < len(trials)]
        own = [trial for _, trial in taken]
        if repeat == 0:
            own[0] = TrialRecord(**{**vars(own[0]), "raw": raw})
        found.append(
            BootRecord(
                run_id, source.board, first + repeat, 0, source.variant, 0, "ok", "", now, now,
                facts=facts | {"text_samples": sorted(number for number, _ in taken)}, trials=tuple(own),
            )
        )  # fmt: skip
    return found


def workload_name(sample: Measurement) -> str:
    """A name that is the same for the same work in another file: `randread-1M`, `dd-read-512`, `sequential-read`."""
    extra = sample.extra
    rw = _word(extra.get("option_rw")) or sample.rw or "transfer"
    if sample.tool == "table":
        case = _PREFIXES.sub("", (sample.job or "table").split(" / ")[-1])
        return _slug(case) or "table"
    size = extra.get("bs")
    try:
        block = f"-{short_size(parse_size(str(size).split(',')[0]))}" if size else ""
    except ValueError:
        block = ""
    return f"dd-{rw}{block}" if sample.tool == "dd" else _slug(f"{rw}{block}")


def facts_of(parsed: Parsed) -> dict[str, Any]:
    """Facts of a text under the names that a boot's own facts have."""
    facts, found = parsed.facts, dict[str, Any]()
    ios = facts.get("ios")
    if isinstance(ios, Mapping):
        for name in ("timing", "width_bits", "clock_hz", "actual_clock_hz", "voltage"):
            if ios.get(name) is not None:
                found[f"ios.{name}"] = ios[name]
    for event in _entries(facts.get("events")):
        detail = event.get("detail")
        if not isinstance(detail, Mapping):
            continue
        if event.get("kind") == "card" and detail.get("name"):
            found["card.name"] = plain(detail["name"])
        timing = _NOMINAL.get(str(detail.get("speed")))
        if (
            event.get("kind") == "new-card"
            and timing
            and "ios.timing" not in found
            and not isinstance(ios, Mapping)
        ):
            found |= {"ios.timing": timing, "ios.width_bits": 8, "ios.clock_hz": 200_000_000}
            found["ios.source"] = "nominal, by the mode in the kernel's line"
    for name, key in (("kernel", "banner"), ("cmdline", "cmdline"), ("read_ahead_kb", "read_ahead_kb")):
        if facts.get(name) is not None:
            found[key] = plain(facts[name])
    return found


def sample_numbers(text: str | None) -> frozenset[int] | None:
    """The numbers in `1-12,14`; None for None. Raises UserError for anything else."""
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if not match or int(match[2] or match[1]) < int(match[1]) or int(match[1]) == 0:
            raise UserError(f"--samples {text!r} is no list of numbers; write for example 1-12,14")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _matched(
    samples: Sequence[Measurement], everything: Sequence[Measurement], posted: Sequence[Posted]
) -> list[Posted | None]:
    """For each sample the command that it came from, where the text leaves no doubt which that is."""
    of_dd = [one for one in posted if one.tool == "dd"]
    all_dd = [one for one in everything if one.tool == "dd"]
    of_fio = [one for one in posted if one.tool == "fio"]
    found: list[Posted | None] = []
    for sample in samples:
        if sample.tool == "dd":
            at = next(number for number, one in enumerate(all_dd) if one is sample)
            found.append(of_dd[at] if len(of_dd) == len(all_dd) else of_dd[0] if len(of_dd) == 1 else None)
        else:
            found.append(_fio_command(sample, of_fio))
    return found


def _fio_command(sample: Measurement, posted: Sequence[Posted]) -> Posted | None:
    rw = _word(sample.extra.get("option_rw")) or _table_rw(sample)
    same = [one for one in posted if one.options.get("rw", one.options.get("readwrite", "read")) == rw]
    size = re.search(r"bs=(\w+)", sample.job or "")
    if size and (sized := [one for one in same if _equal(one.options.get("bs"), size[1])]):
        same = sized
    if same:
        return same[0]
    if len(posted) == 1 and rw:  # "and the same with rw=..."
        one = posted[0]
        said = re.sub(r"((?:rw|readwrite)=)\w+", rf"\g<1>{rw}", one.text)
        return Posted("fio", said, {**one.options, "rw": rw}, one.dropped_caches)
    return None


def _table_rw(sample: Measurement) -> str | None:
    case = (sample.job or "").lower()
    return f"rand{sample.rw}" if sample.rw and "rand" in case else sample.rw


def _trial(workload: str, sample: Measurement, command: Posted | None, now: float) -> TrialRecord:
    options = sample.extra.get("job_options")
    if command is not None:
        doubts = doubts_of(command, bytes_moved=sample.bytes)
    else:
        doubts = doubts_of_options(options) if isinstance(options, Mapping) and options else ()
    facts: dict[str, Any] = {key: plain(value) for key, value in sample.extra.items() if key != "disk_util"}
    facts |= {"imported": True, "lint": [vars(one) for one in doubts]}
    return TrialRecord(
        workload=workload,
        rep=0,
        status="ok",
        reason="",
        command=str(plain(command.text)) if command else "",
        started=now,
        seconds=sample.seconds or 0.0,
        samples=tuple(
            SampleRecord(sample.rw or "", metric, value) for metric, value in sample.metrics().items()
        ),
        facts=facts,
    )


def _equal(a: str | None, b: str) -> bool:
    try:
        return a is not None and parse_size(a) == parse_size(b)
    except ValueError:
        return False


def _entries(value: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:60].lower() if " " in text else text[:60]
