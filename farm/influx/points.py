"""Records -> points. The same record always gives the same lines, so that sending twice changes nothing.

Tags are what one groups by and that stays few; what is unique to a point is a field (influx servers of version 1
and 2 keep every combination of tags in memory). Times are whole milliseconds: `ms` is spelled alike by all servers,
where microseconds are `u` to one and `us` to another, and all of them keep a millisecond exactly.

measurement   time                 tags besides campaign, branch               fields
trial         its start            board soc card variant status workload      run boot trial rep reason wall_seconds,
                                   tool rw bs iodepth numjobs direction        and metrics by name (bw_bytes iops ...)
boot          its start            board soc card variant status               run boot index attempt block reason
                                                                               seconds commit kernel banner flash.*
                                                                               events events.KIND, and facts by name
run           its start            -                                           run status seed seconds boards boots_*
                                                                               trials note host version baseline
verdict       its run's start      board soc card variant workload metric      run verdict score ratio low high p ...
                                   direction tool rw bs iodepth numjobs
changepoint   first run after it   board soc card workload metric direction    ratio low high p run_before ...
board         its check            board soc card (no campaign, no branch)     health ok reason failures_in_a_row, and
                                                                               facts by name, as in boot

`rw` is the workload's (randread), `direction` the data's (read): a randrw trial is two points. Only trials with
`status=ok` count; a torn boot's good trials carry the boot's status.

`RunRecord.settings` may name `socs` (board -> soc), `branch`, and `commits` (variant -> commit).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from farm.influx.line import Value, head, line, tail
from farm.quantity import parse_size, short_size
from farm.store.labels import card_of, release_of
from farm.store.records import RunRecord, StoredBoot, StoredTrial, Tally

if TYPE_CHECKING:
    from farm.analysis.compare import Verdict

Tags = dict[str, str | None]

_OPTION = re.compile(r"--(rw|bs|iodepth|numjobs)=([\w.]+)")
_DD = re.compile(r"(?:^|[\s;(])dd((?:\s{1,3}[a-z]+=[^\s;)]*)+)")
_DD_OPERAND = re.compile(r"([a-z]+)=([^\s;)]*)")
_SCORES = {"slower": -1.0, "faster": 1.0, "same": 0.0}
_IMPORTED_STEP_MS = 1000
# Names that a fact may not take: a field beside a tag of the same name cannot be asked for, `time` is refused.
_TAKEN = {
    *("board", "soc", "card", "variant", "campaign", "branch", "status", "workload", "direction", "metric"),
    *("tool", "rw", "bs", "iodepth", "numjobs", "time"),
}


def boot_lines(run: RunRecord, boot: StoredBoot, trials: Iterable[StoredTrial]) -> Iterator[str]:
    """The points of a boot and of its trials, in the order of `trials`."""
    tags = _tags(run, boot)
    # imported boots all bear the date of their mail; apart from each other they do not overwrite one another
    shift = boot.index * _IMPORTED_STEP_MS if run.settings.get("imported") else 0
    yield line("boot", tags | {"status": boot.status}, _boot_fields(run, boot), _ms(boot.started) + shift)
    last: dict[str, int] = {}
    for trial in trials:
        ms = _ms(trial.started) + shift
        if trial.workload in last:  # trials that did not run may bear the same time
            ms = max(ms, last[trial.workload] + 1)
        last[trial.workload] = ms
        yield from _trial_lines(run, boot, trial, tags, ms)


def run_line(run: RunRecord, tally: Tally) -> str:
    """The point of a run, with what became of its boots."""
    return line(
        "run",
        {"campaign": run.campaign, "branch": _text(run.settings.get("branch"))},
        {
            "run": run.id,
            "status": run.status,
            "seed": str(run.seed),  # 64 bits, which a float has not
            "seconds": None if run.ended is None else run.ended - run.started,
            "boards": tally.boards,
            "boots_ok": tally.boots_ok,
            "boots_void": tally.boots_void,
            "boots_failed": tally.boots_failed,
            "trials": tally.trials,
            "imported": float(bool(run.settings.get("imported"))),
            "baseline": _text(run.settings.get("baseline")),
            "note": run.note or None,
            "host": run.host or None,
            "version": run.version or None,
        },
        _ms(run.started),
    )


def verdict_line(
    run: RunRecord,
    board: str,
    verdict: Verdict,
    *,
    metric: str = "bw_bytes",
    direction: str = "",
    card: str | None = None,
    shapes: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The point of a verdict. `score` is 1 faster, -1 slower, 0 same, and absent where it is inconclusive.

    `shapes` are `shape()` of the workloads by name, for the tags tool, rw, bs, iodepth and numjobs.
    """
    tags: Tags = {
        **_place(run, board),
        **(shapes or {}).get(verdict.workload, {}),
        "card": card,
        "variant": verdict.candidate,
        "workload": verdict.workload,
        "metric": metric,
        "direction": direction,
    }
    fields: dict[str, Value] = {
        "run": run.id,
        "verdict": verdict.verdict,
        "score": _SCORES.get(verdict.verdict),
        "unstable": float(verdict.unstable),
        "reason": verdict.reason,
        "baseline": verdict.baseline,
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "p": verdict.p,
        "n_base": verdict.n_base,
        "n_cand": verdict.n_cand,
        "spread_base": verdict.spread_base,
        "spread_cand": verdict.spread_cand,
        "more_boots": verdict.more_boots,
        "flags": "; ".join(verdict.flags) or None,
    }
    return line("verdict", tags, fields, _ms(run.started))


def changepoint_line(
    *,
    board: str,
    workload: str,
    campaign: str,
    at: float,
    ratio: float,
    low: float,
    high: float,
    p: float | None = None,
    branch: str | None = None,
    soc: str | None = None,
    card: str | None = None,
    metric: str = "bw_bytes",
    direction: str = "",
    variant: str | None = None,
    before: Mapping[str, str] | None = None,
    after: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """A change found in a trend. `at` is the start of the first run after it (UTC epoch seconds), `ratio` after /
    before with its interval; `before` and `after` name the runs on both sides: `run`, `commit`, `kernel`. `text`
    is the sentence that a dashboard shows at the mark.
    """
    names = {f"{name}_before": value for name, value in (before or {}).items()}
    names |= {f"{name}_after": value for name, value in (after or {}).items()}
    tags: Tags = {
        "board": board,
        "soc": soc,
        "card": card,
        "variant": variant,
        "workload": workload,
        "campaign": campaign,
        "branch": branch,
        "metric": metric,
        "direction": direction,
    }
    return line(
        "changepoint",
        tags,
        {"ratio": ratio, "low": low, "high": high, "p": p, "text": text, **names},
        _ms(at),
    )


def board_line(
    board: str,
    health: str,
    *,
    at: float,
    reason: str = "",
    soc: str | None = None,
    card: str | None = None,
    facts: Mapping[str, Value] | None = None,
) -> str:
    """How a board is at `at` (UTC epoch seconds): `health` is `ok`, `failed` or `quarantine`; `facts` are by name."""
    fields: dict[str, Value] = {
        "health": health,
        "ok": float(health == "ok"),
        "reason": reason or None,
        **(facts or {}),
    }
    return line("board", {"board": board, "soc": soc, "card": card}, fields, _ms(at))


@lru_cache(4096)
def _shape_of(command: str) -> tuple[tuple[str, str], ...]:
    if options := dict(_OPTION.findall(command)):
        if "bs" in options:
            options["bs"] = _short(options["bs"])
        return (("tool", "fio"), *options.items())
    if found := _DD.search(command):
        operands = dict(_DD_OPERAND.findall(found[1]))
        rw = "read" if operands.get("of") == "/dev/null" else "write"
        return (("tool", "dd"), ("rw", rw), ("bs", _short(operands.get("bs", "512"))))
    return ()


def shape(trial: StoredTrial) -> dict[str, str]:
    """The tags tool, rw, bs, iodepth and numjobs of a trial: from its command line, else from what the tool said."""
    if found := _shape_of(trial.command or _text(trial.facts.get("command")) or ""):
        return dict(found)
    told: dict[str, str] = {}
    for name, key in (("rw", "option_rw"), ("bs", "bs"), ("iodepth", "iodepth"), ("numjobs", "numjobs")):
        if value := _text(trial.facts.get(key)):
            told[name] = _short(value) if name == "bs" else value
    if told:
        told["tool"] = "dd" if "dialect" in trial.facts else "fio"
    return told


def _trial_lines(run: RunRecord, boot: StoredBoot, trial: StoredTrial, tags: Tags, ms: int) -> Iterator[str]:
    of_boot = trial.status == "ok" and boot.status != "ok"
    status, reason = (boot.status, boot.reason) if of_boot else (trial.status, trial.reason)
    common: dict[str, Value] = {
        "run": run.id,
        "boot": boot.id,
        "trial": trial.id,
        "rep": trial.rep,
        "wall_seconds": trial.seconds,
        "reason": reason or None,
    }
    metrics: dict[str, dict[str, Value]] = {}
    for sample in trial.samples:
        metrics.setdefault(sample.rw, {})[sample.metric] = sample.value
    series: Tags = {**tags, **shape(trial), "status": status, "workload": trial.workload}
    for direction, values in metrics.items() or [("", {})]:
        yield head("trial", {**series, "direction": direction}) + tail({**values, **common}, ms)


def _boot_fields(run: RunRecord, boot: StoredBoot) -> dict[str, Value]:
    banner = _text(boot.facts.get("banner")) or _text(boot.flash.get("banner")) or ""
    fields: dict[str, Value] = {} if run.settings.get("imported") else _flat(boot.facts)
    fields |= _flat({f"flash.{name}": value for name, value in boot.flash.items() if name != "banner"})
    fields |= {
        "run": run.id,
        "boot": boot.id,
        "index": boot.index,
        "attempt": boot.attempt,
        "block": boot.block,
        "seconds": boot.ended - boot.started,
        "reason": boot.reason or None,
        "commit": _of(run.settings.get("commits"), boot.variant),
        "kernel": release_of(banner) or None,
        "banner": banner or None,
        "events": len(boot.events),
    }
    for kind in sorted({str(event.get("kind", "other")) for event in boot.events}):
        fields[f"events.{kind}"] = sum(str(event.get("kind", "other")) == kind for event in boot.events)
    return fields


def _flat(facts: Mapping[str, Any], before: str = "", depth: int = 3) -> dict[str, Value]:
    """Numbers and texts of a JSON object under dotted names; lists are left to the record."""
    found: dict[str, Value] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping) and depth:
            found |= _flat(value, f"{before}{name}.", depth - 1)
        elif isinstance(value, (bool, int, float, str)) and value != "" and before + name not in _TAKEN:
            found[before + name] = value
    return found


def _tags(run: RunRecord, boot: StoredBoot) -> Tags:
    return {**_place(run, boot.board), "card": card_of(boot.facts), "variant": boot.variant}


def _place(run: RunRecord, board: str) -> Tags:
    return {
        "campaign": run.campaign,
        "branch": _text(run.settings.get("branch")),
        "board": board,
        "soc": _of(run.settings.get("socs"), board),
    }


def _of(names: object, key: str) -> str | None:
    return _text(names.get(key)) if isinstance(names, Mapping) else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def _short(size: str) -> str:
    """A block size as people write it, so that 4096 and 4k are one tag."""
    try:
        return short_size(parse_size(size))
    except ValueError:
        return size


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
