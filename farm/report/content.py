"""What a written report says, in its order, as plain texts: shared by mail and markdown, no layout in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from farm import __version__
from farm.analysis.compare import Verdict
from farm.campaign import Campaign
from farm.report.boards import Board
from farm.report.compare_view import Block, CompareTable, Row
from farm.report.figures import NONE, format_time, format_value
from farm.report.study import Study
from farm.report.words import IMPORTED, change, count, doubt_text, interval, metric_name, note_text, word
from farm.store.records import RunRecord
from farm.units import format_percent

LISTED = 40
"""Reasons, warnings and the like beyond this many are counted, not listed: a mail has to be read."""


def content(study: Study) -> dict[str, Any]:
    """The parts that the template puts in order; every text may hold what a board or a poster wrote."""
    return {
        "subject": _subject(study),
        "headline": headline(study),
        "warnings_first": first(study),
        "boards": [
            {
                "name": board.name,
                "fields": board_fields(board, imported=study.table.imported),
                "blocks": list(_blocks(study, board)),
            }
            for board in study.boards
        ],
        "noise": noise(study),
        "agreement": _few([found.sentence for found in study.agreement]),
        "doubts": _few([doubt_text(doubt) for doubt in study.doubts]),
        "lost": _few([note_text(note) for note in study.table.notes]),
        "variants": list(_variants(study)),
        "commands": list(_commands(study))[:LISTED],
        "method": list(method(study)),
        "repeat": repeat(study),
        "footer": f"farm {study.run.version or __version__}",
    }


def _subject(study: Study) -> str:
    candidates = [name for name in study.variants if name != study.table.baseline]
    return f"{study.run.campaign}: {', '.join(candidates) or 'no candidate'} against {study.table.baseline}"


def verdicts(study: Study, table: CompareTable | None = None) -> list[tuple[str, Row, Verdict]]:
    """Board, row and verdict of each cell of a table (default the main one) that has a verdict."""
    return [
        (block.board, row, row.verdict)
        for block in (table or study.table).blocks
        for row in block.rows
        if isinstance(row.verdict, Verdict)
    ]


def headline(study: Study) -> str:
    """How many verdicts of which kind, in one sentence."""
    said = [verdict for _, _, verdict in verdicts(study)]
    counts = {
        word: sum(one.verdict == word for one in said)
        for word in ("faster", "slower", "same", "inconclusive")
    }
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"
    unstable = sum(one.unstable for one in said)
    words += f"; {unstable} of them unstable" if unstable else ""
    split = sum(found.agreement in ("disagree", "ratios-disagree") for found in study.agreement)
    words += f"; boards disagree about {split} of {len(study.agreement)}" if split else ""
    boards = f"{len(study.boards)} board" + ("s" if len(study.boards) != 1 else "")
    about = [f"run {study.run.id}", study.run.status]
    about += [f"branch {branch}"] if (branch := study.run.settings.get("branch")) else []
    return f"{words}, from {len(said)} comparisons of workloads on {boards} ({', '.join(about)})."


def failed(study: Study, fail_on: Iterable[str]) -> str:
    """What in a study is slower or unstable, where that was asked for, in one sentence; empty where nothing is."""
    said = [verdict for table in study.tables for _, _, verdict in verdicts(study, table)]
    counts = {
        "slower": sum(one.verdict == "slower" and not study.run.settings.get("aa") for one in said),
        "unstable": sum(one.unstable for one in said),
    }
    found = [
        f"{counts[word]} {word}" for word in ("slower", "unstable") if word in set(fail_on) and counts[word]
    ]
    return f"exit code 1, as --fail-on asks: {', '.join(found)}" if found else ""


def first(study: Study) -> list[str]:
    """What has to be known before the first figure is read."""
    found = []
    settings = study.run.settings
    if settings.get("aa"):
        found.append(
            "A/A run: both names are one and the same variant, so no difference is expected, and faster or slower is a "
            "false alarm; one is expected in 20 such runs of a board."
        )
    if settings.get("confirms"):
        found.append(
            f"This run measures again, with fresh boots, what run {settings['confirms']} called slower."
        )
    most = settings.get("boots")
    found += [
        f"{board} stopped early, after {boots} of at most {most} boots per variant, since every workload was settled: its "
        "effects are biased outward, that is, they look larger than they are."
        for board, boots in settings.get("settled", {}).items()
    ]
    if study.table.imported:
        found.append(IMPORTED)
    found += [
        f"{board.name} is synthetic: {board.synthetic}. Its figures say nothing of real hardware."
        for board in study.boards
        if board.synthetic
    ]
    if study.run.status not in ("done",):
        found.append(f"The run is not complete: its status is {study.run.status}.")
    return found


def board_fields(board: Board, *, imported: bool) -> list[tuple[str, str]]:
    """What identifies a board, as name and text; one entry where all variants agree."""
    found = [("SoC", board.soc), ("card", board.card), ("firmware", board.firmware)]
    found += [("CID", board.cid)] if board.cid else []
    found += _per_variant("ios", board.ios) + _per_variant("kernel", board.kernels)
    commits = {variant: commit for variant, commit in board.commits.items() if commit}
    found += [(f"commit of {variant}", commit) for variant, commit in commits.items()]
    boots = ", ".join(f"{variant} {good} of {tried}" for variant, (good, tried) in board.boots.items())
    differing = [
        f"{fact.name} ({', '.join(f'{variant} ' + '/'.join(values) for variant, values in fact.by_variant.items())})"
        for fact in board.facts
        if fact.differs and not fact.name.startswith("ios.")
    ]
    found += [] if imported else [("boots", f"good of tried: {boots}")]
    found += [("differs", "; ".join(differing[:12]))] if differing else []
    return found


def _per_variant(name: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    if len(set(values.values())) <= 1:
        return [(name, next(iter(values.values()), "unknown"))]
    return [(f"{name} of {variant}", value) for variant, value in values.items()]


def _blocks(study: Study, board: Board) -> Iterable[dict[str, Any]]:
    for table in study.tables:
        for block in table.blocks:
            if block.board == board.name:
                yield _block(study, table, block)


def _block(study: Study, table: CompareTable, block: Block) -> dict[str, Any]:
    main = table is study.table
    names = [table.baseline] if block.candidate is None else [table.baseline, block.candidate]
    short = all(len(name) <= 12 for name in names)
    shown = names if short else ["baseline", "candidate"][: len(names)]
    heads = [
        "workload",
        *shown,
        *(["change", "95 % interval", "n"] if block.candidate is not None else ["n"]),
    ]
    heads += (
        ["bus %"]
        if main
        and any((block.board, name, row.label) in study.shares for row in block.rows for name in names)
        else []
    )
    heads += ["verdict"]
    bus = "bus %" in heads
    rows = [_cells(study, table, block, row, bus) for row in block.rows]
    against = f"{block.candidate} against {table.baseline}" if block.candidate is not None else table.baseline
    reasons = [
        f"{row.label}: {row.verdict.reason}"
        for row in block.rows
        if row.verdict is not None and (main or row.verdict.verdict != "inconclusive")
    ]
    return {
        "title": f"{metric_name(table.metric).capitalize()}, {against}:",
        "heads": heads,
        "rows": rows,
        "reasons": _few(reasons),
    }


def _cells(study: Study, table: CompareTable, block: Block, row: Row, bus: bool) -> list[str]:
    sides = [row.base] if row.cand is None else [row.base, row.cand]
    cells = [row.label, *(format_value(table.metric, side.value) for side in sides)]
    if row.cand is not None:
        cells += [change(row), interval(row)]
    cells.append(count(table, sides))
    if bus:
        found = (study.shares.get((block.board, side.variant, row.label)) for side in sides)
        cells.append("/".join(NONE if share is None else f"{format_percent(share.share)}" for share in found))
    cells.append(word(row))
    return cells


def noise(study: Study) -> dict[str, Any] | None:
    """What an A/A run found out about noise, as a table; None for other runs."""
    if not study.noise:
        return None
    return {
        "words": (
            "Spread is the standard deviation between boots around a linear trend, at most its upper 95 % bound; band is "
            "what noise alone moves a comparison of as many boots per variant, exceeded in one of 20."
        ),
        "heads": ["board", "workload", "metric", "boots", "spread %", "at most %", "band %"],
        "rows": [
            [
                row.board,
                row.label,
                metric_name(row.metric),
                str(row.boots),
                *(format_percent(share) for share in (row.spread, row.upper, row.band)),
            ]
            for row in study.noise
        ],
    }


def _few(texts: Sequence[str]) -> list[str]:
    more = len(texts) - LISTED
    return [
        *texts[:LISTED],
        *([f"... and {more} more; `farm compare --format json` has all of them"] if more > 0 else []),
    ]


def _commands(study: Study) -> Iterable[tuple[str, str]]:
    """Each workload's command line below a comment that says what is done before it."""
    known = {one.name: one for one in study.campaign.workloads} if study.campaign else {}
    for name, command in study.commands.items():
        before = [f"{name}:"]
        if name in known:
            state = known[name].conditioning
            before += ["discarded;"] if state.discard else []
            before += ["area written once a boot;"] if state.prefill else []
            before += ["sync; echo 3 >/proc/sys/vm/drop_caches;"] if state.drop_caches else []
            before += [f"{state.idle_s:g} s of rest;"] if state.idle_s else []
        yield " ".join(before).rstrip(";"), command


def _variants(study: Study) -> Iterable[str]:
    for name in study.variants:
        role = " (baseline)" if name == study.table.baseline else ""
        one = study.campaign.variants.get(name) if study.campaign else None
        if one is None:
            yield f"{name}{role}"
            continue
        parts = [
            f"{key} {value}" for key in ("kernel", "dtb", "initrd", "modules") if (value := getattr(one, key))
        ]
        parts += [f"kernel arguments `{one.args}`"] if one.args else []
        parts += [f"{path} = {value}" for path, value in one.knobs.items()]
        proof = ", ".join(f"{key} = {value}" for key, value in one.expect.items())
        parts += [f"proven by {proof}"] if proof else []
        yield f"{name}{role}: {'; '.join(parts) or 'nothing set, the golden image'}"


def method(study: Study) -> Iterable[str]:
    """How the figures came about, in sentences."""
    if study.table.imported:
        yield "These figures were read out of logs or mails; farm measured none of them."
        return
    trials = study.run.settings.get("trials")
    each = f"the median of its {trials} trials" if isinstance(trials, int) and trials > 1 else "its trial"
    order = f"in mirrored random blocks (seed {study.run.seed})"
    if study.run.settings.get("order") == "tests":
        each = "the median of its trials"
        order = "in the order of pytest's tests, so drift that is not linear may look like an effect"
    yield (
        "A sample is one boot, after a power cycle and with the flashed kernel proven by its banner; its value is "
        f"{each}. Boots of the variants ran {order}, from {format_time(study.run.started)} on."
    )
    looks = study.run.settings.get("looks", 1)
    if looks > 1:
        least, most = (study.run.settings.get(name) for name in ("least_boots", "boots"))
        yield (
            f"A board stops when every bandwidth is settled, which is looked at after {least} boots per variant and after "
            f"each block up to {most}: {looks} looks, fixed in advance. They share the error rates equally, 5 % / {looks} "
            "each (that of `same` too), so that intervals and verdicts hold over all of them."
        )
    bands = study.run.settings.get("measured_bands", {})
    sources = {(one["run"], one["started"]): None for of_board in bands.values() for one in of_board.values()}
    for run, started in sources:
        yield (
            f"Measured bands are from A/A run {run} of {format_time(started)}: what noise alone moves a comparison, 1.96 x "
            "the upper 95 % bound of the spread of boots x sqrt(2 / boots per variant)."
        )
    draws = min(one.draws for one in study.judged)
    yield (
        "Medians are over boots. Change is candidate / baseline from a linear model of the logs with a trend over time, "
        f"p and the simultaneous 95 % interval from {draws} permutations of whole boots, corrected over all workloads and "
        "candidates of a board (max-T); latency tails are a family of their own, and lower is better there. Faster and "
        "slower need a corrected p below 0.05 and a change outside the band; `same`, per workload, the 90 % interval "
        "inside it."
    )


def repeat(study: Study) -> dict[str, str] | None:
    """What somebody needs who has nothing but this text: the campaign and the command."""
    if study.campaign is None:
        return None
    return {
        "words": f"Save this as {study.run.campaign}.yaml (boards are env files, images are entries of theirs):",
        "campaign": campaign_yaml(study.run.campaign_text),
        "command": shlex.join(
            ["farm", "run", f"{study.run.campaign}.yaml", "--seed", str(study.run.seed)]
            + (["--aa"] if study.run.settings.get("aa") else [])
            + _boards(study.run, study.campaign)
        ),
    }


def _boards(run: RunRecord, campaign: Campaign) -> list[str]:
    """How the boards were asked for, where that is not the campaign's word."""
    asked, count = run.settings.get("asked"), run.settings.get("count")
    if not isinstance(asked, list) or (tuple(asked), count) == (campaign.boards, campaign.count):
        return []
    words = [word for name in asked for word in ("--board", str(name))]
    return [*words, "--count", str(count)] if count is not None else words


def campaign_yaml(text: str) -> str:
    """The campaign without comments and anchors, in lines short enough for a mail."""
    data = yaml.safe_load(text)
    if isinstance(data, dict) and isinstance(data.get("description"), str):
        # as one paragraph, however it was wrapped
        data["description"] = " ".join(data["description"].split())
    return yaml.safe_dump(
        data, sort_keys=False, width=70, allow_unicode=False, default_flow_style=False
    ).rstrip("\n")
