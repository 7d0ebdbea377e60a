"""Runs, trials and comparisons on a terminal or in a pipe: at most 100 columns, and every colour doubled by a sign."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from farm.report.compare_view import Block, CompareTable, Row, Side, VerdictLike
from farm.report.content import first, noise
from farm.report.figures import (
    NONE,
    format_percent,
    format_ratio,
    format_time,
    format_value,
    one_line,
    visible,
)
from farm.report.study import Study
from farm.report.words import IMPORTED, doubt_text, metric_name, note_text
from farm.store.db import Store
from farm.store.records import Tally

WIDTH = 100
SHOWN_RAW = 1_000_000
"""Bytes of one kind of raw output that are shown; all of it is in the JSON."""
SHOWN_NOTES = 20
SHOWN_TAILS = 40
SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}
_BLANKS = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")  # the colours that end behind them stay
_ASCII = str.maketrans({"▲": "^", "▼": "v"})
_COLOURS = {
    "faster": "green",
    "slower": "red",
    "ok": "green",
    "done": "green",
    "void": "yellow",
    "failed": "red",
}


# ---- runs ----------------------------------------------------------------------------------------------------


def runs_data(store: Store) -> list[dict[str, Any]]:
    """All runs as JSON values, oldest first, with how many boots and trials each has."""
    tallies = store.tallies()
    return [
        dataclasses.asdict(run) | {"tally": tallies[run.id]._asdict() if run.id in tallies else None}
        for run in store.runs()
    ]


def print_runs(store: Store, out: Console) -> None:
    """The runs as a table, oldest first."""
    page = _page(out)
    tallies = store.tallies()
    table = _table("<run", "<campaign", "status", "started (UTC)", ">boards", ">ok/void/failed", ">trials")
    for run in store.runs():
        tally = tallies.get(run.id, Tally())
        table.add_row(
            _text(page, run.id),
            _text(page, run.campaign),
            _text(page, run.status, style=_COLOURS.get(run.status, "")),
            _text(page, format_time(run.started).removesuffix(" UTC")[:16]),
            str(tally.boards),
            f"{tally.boots_ok}/{tally.boots_void}/{tally.boots_failed}",
            f"{tally.first_trial}-{tally.last_trial}" if tally.trials else NONE,
        )
    if table.row_count:
        _grid(page, table)
        _say(page, "Boots are counted as ok/void/failed; trials are the numbers that `farm show` takes.")
    else:
        _say(page, f"There are no runs yet in {store.path}; `farm run CAMPAIGN` makes one.")


# ---- one trial -----------------------------------------------------------------------------------------------


def trial_data(store: Store, trial_id: int) -> dict[str, Any]:
    """A trial with its boot, run and complete raw output as JSON values.

    Raw output is `{"bytes": n, "text": ...}`, or `base64` instead of `text` where it is not UTF-8, so that either
    way it can be had back byte for byte. Raises UserError if there is no such trial.
    """
    trial = store.trial(trial_id)
    boot = store.boot(trial.boot_id)
    data = dataclasses.asdict(trial)
    data["raw"] = {kind: _raw_json(raw) for kind, raw in store.raw(trial_id).items()}
    of_boot = dataclasses.asdict(boot)
    del of_boot["trials"]
    return {"trial": data, "boot": of_boot, "run": dataclasses.asdict(store.run(boot.run_id))}


def _raw_json(raw: bytes) -> dict[str, Any]:
    try:
        return {"bytes": len(raw), "text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": len(raw), "base64": base64.b64encode(raw).decode("ascii")}


def print_trial(store: Store, trial_id: int, out: Console) -> None:
    """A trial: where it ran and how, status, samples, facts, events, raw output with control signs written out.

    Raises UserError if there is no such trial.
    """
    trial = store.trial(trial_id)
    boot = store.boot(trial.boot_id)
    run = store.run(boot.run_id)
    page = _page(out)
    heading = f"Trial {trial_id}: {one_line(trial.workload)}, repetition {trial.rep}: {trial.status}"
    _line(page, heading, style=_COLOURS.get(trial.status, ""))
    of_boot = f"{boot.status}: {boot.reason}" if boot.reason else boot.status
    for name, text in (
        ("reason", trial.reason),
        ("run", f"{run.id} (campaign {run.campaign}, seed {run.seed}, {run.status})"),
        ("board", boot.board),
        ("variant", boot.variant),
        ("boot", f"{boot.index}, attempt {boot.attempt}, block {boot.block}, {of_boot}"),
        ("started", format_time(trial.started)),
        ("took", format_value("seconds", trial.seconds)),
        ("command", trial.command),
        ("console log", boot.log_path),
    ):
        if text:
            _line(page, f"  {name:<12} {one_line(text)}")
    _section(page, "Samples")
    for sample in trial.samples:
        shown = format_value(sample.metric, sample.value)
        name = f"{sample.metric} {sample.rw}".strip()
        _line(page, f"  {one_line(name):<28} {shown:>14}  ({sample.value!r})")
    if not trial.samples:
        _line(page, "  none")
    for title, values in (
        ("Facts of the trial", trial.facts),
        ("Facts of the boot", boot.facts),
        ("Flashed", boot.flash),
        ("Console bytes of the boot", boot.console_bytes),
    ):
        if values:
            _section(page, title)
            _facts(page, values)
    if boot.events:
        _section(page, "Events of the boot")
        for event in boot.events:
            about = ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("kind", "line"))
            _line(page, f"  {one_line(str(event.get('kind', '')))}: {one_line(str(event.get('line', '')))}")
            if about:
                _line(page, f"      {one_line(about)}")
    raw = store.raw(trial_id)
    if not raw:
        _section(page, "No raw output is stored")
    for kind, data in raw.items():
        _section(page, f"Raw output {one_line(kind)}, {len(data)} bytes")
        if data:
            _line(page, visible(data[:SHOWN_RAW]).removesuffix("\n"))
        if len(data) > SHOWN_RAW:
            more = len(data) - SHOWN_RAW
            _line(page, f"[{more} more bytes; `farm show --json {trial_id}` has all of them]")


def _facts(page: Console, values: Mapping[str, Any]) -> None:
    flat = list(_flat(values))
    width = min(max(len(one_line(name)) for name, _ in flat), 32)
    for name, value in flat:
        _line(page, f"  {one_line(name):<{width}}  {one_line(value)}")


def _flat(values: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- comparison ----------------------------------------------------------------------------------------------


def print_study(study: Study, out: Console) -> None:
    """The comparisons with their verdicts, then where boards agree, then the warnings."""
    page = _page(out)
    for text in first(study):
        _say(page, one_line(text), style="yellow")
    print_compare(study.table, out)
    for tail in study.tails:
        for block in tail.blocks:
            _line(page, "")
            _say(page, f"{metric_name(tail.metric).capitalize()}, where less is better", style="bold")
            rows = block.rows
            if len(rows) > SHOWN_TAILS:
                rows = tuple(
                    row for row in rows if row.verdict and row.verdict.verdict in ("faster", "slower")
                )
                left = len(block.rows) - len(rows[:SHOWN_TAILS])
                _say(page, f"{left} of {len(block.rows)} rows are left out; --format json has all of them.")
            if rows:
                _block(page, tail, dataclasses.replace(block, rows=rows[:SHOWN_TAILS]))
    if spreads := noise(study):
        _section(page, "Noise")
        heads = spreads["heads"]
        grid = _table(f"<{heads[0]}", f"<{heads[1]}", heads[2], *(f">{head}" for head in heads[3:]))
        for row in spreads["rows"]:
            grid.add_row(*(_text(page, cell) for cell in row))
        _grid(page, grid, left=2)
        _say(page, spreads["words"])
    if study.agreement:
        _section(page, "Across boards")
        for found in study.agreement:
            _say(page, "  " + one_line(found.sentence))
    if study.doubts:
        _section(page, "Warnings")
        for doubt in study.doubts[:SHOWN_NOTES]:
            _say(page, "  " + one_line(doubt_text(doubt)), style="yellow")
        if len(study.doubts) > SHOWN_NOTES:
            _say(page, f"  ... and {len(study.doubts) - SHOWN_NOTES} more; --format json has all of them.")


def print_compare(table: CompareTable, out: Console) -> None:
    """The comparison: a table per board and candidate, then what does not count and why, then what it may say."""
    page = _page(out)
    about = f"Run {one_line(table.run_id)}: campaign {one_line(table.campaign)}, seed {table.seed}"
    _line(page, about if table.status == "done" else f"{about}, {table.status}")
    if not table.blocks:
        _say(page, "No trial of it is stored.")
    for block in table.blocks:
        _line(page, "")
        _block(page, table, block)
    if table.notes:
        _line(page, "")
        for note in table.notes[:SHOWN_NOTES]:
            _say(page, note_text(note), style=_COLOURS[note.status])
        if len(table.notes) > SHOWN_NOTES:
            _say(page, f"... and {len(table.notes) - SHOWN_NOTES} more reasons; --json has all of them.")
    _line(page, "")
    if table.imported:
        _say(page, IMPORTED)
    if table.blocks:
        what = "Medians of the boots, a boot being the median of its trials; spread is the boots' CV"
        _say(page, f"{what}; n counts boots.")
    if table.first_trial is not None:
        numbers = f"{table.first_trial} to {table.last_trial}"
        _say(page, f"Trials {numbers}: `farm show TRIAL` prints one with its raw output.")


def _block(page: Console, table: CompareTable, block: Block) -> None:
    """One board and candidate. Below it the reasons of its verdicts."""
    base, cand = table.baseline, block.candidate
    title = f"Board {one_line(block.board)}: {one_line(base)}" + (
        f" (baseline) against {one_line(cand)}" if cand is not None else " alone"
    )
    _say(page, title, style="bold")
    sides = [base] if cand is None else [base, cand]
    heads = ["<workload", "rw", *(f">{one_line(name, 12)}" for name in sides)]
    heads += ([] if cand is None else [">ratio"]) + [">n", ">spread %", "<proof"]
    heads += ["verdict"] if cand is not None else []
    grid = _table(*(_encodable(page, head) for head in heads))
    for row in block.rows:
        of_row = [row.base] if row.cand is None else [row.base, row.cand]
        cells = [_text(page, row.workload), _text(page, row.rw or NONE)]
        cells += [_text(page, format_value(table.metric, side.value)) for side in of_row]
        if row.cand is not None:
            cells.append(_text(page, format_ratio(row.ratio)))
        cells.append(_text(page, "?" if table.imported else "/".join(str(side.boots) for side in of_row)))
        cells.append(_text(page, "/".join(format_percent(side.spread) for side in of_row)))
        cells.append(_proof(page, of_row, table.imported))
        if cand is not None:
            cells.append(_verdict(page, row.verdict))
        grid.add_row(*cells)
    _grid(page, grid, left=2)
    _reasons(page, block.rows)


def _proof(page: Console, sides: list[Side], imported: bool) -> Text:
    if imported:
        return _text(page, "unproven", style="yellow")
    proven, planned = sum(side.boots for side in sides), sum(side.planned for side in sides)
    return _text(page, f"{proven}/{planned} proven", style="green" if proven == planned else "yellow")


def _word(verdict: VerdictLike) -> str:
    """Sign and word: `▲ faster`; `!` alone where instability is why nothing else is said."""
    if verdict.unstable and verdict.verdict == "inconclusive":
        return "! unstable"
    return f"{SIGNS.get(verdict.verdict, '?')} {verdict.verdict}" + (" !" if verdict.unstable else "")


def _verdict(page: Console, verdict: VerdictLike | None) -> Text:
    if verdict is None:
        return _text(page, NONE)
    colour = "yellow" if verdict.unstable else _COLOURS.get(verdict.verdict, "")
    return _text(page, _word(verdict), style=colour)


def _reasons(page: Console, rows: Iterable[Row]) -> None:
    for row in rows:
        if row.verdict is not None:
            reason, word = one_line(row.verdict.reason), _word(row.verdict)
            # a sentence that says the word itself needs the sign only
            said = reason.lower().startswith(f"{row.verdict.verdict}:")
            _say(page, f"  {one_line(row.label)}: {word.partition(' ')[0] if said else word + ':'} {reason}")


# ---- layout --------------------------------------------------------------------------------------------------


def _page(out: Console) -> Console:
    """The console itself on a terminal, at most 100 columns of it; plain lines of 100 columns elsewhere."""
    if not out.is_terminal:
        return Console(
            file=out.file, width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False
        )
    return Console(
        file=out.file,
        force_terminal=True,
        width=min(out.width, WIDTH),
        no_color=out.no_color,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _table(*heads: str) -> Table:
    """A table without lines. `>` before a head aligns its column to the right, `<` lets it be folded."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        plain = head.lstrip("<>")
        table.add_column(
            Text(plain),
            justify="right" if head[0] == ">" else "left",
            overflow="fold",
            no_wrap=head[0] != "<",
            min_width=max(len(plain), 6) if head[0] == "<" else None,
        )
    return table


def _grid(page: Console, table: Table, left: int = 0) -> None:
    """The table without the blanks that rich fills lines with: people paste it into mails.

    On a terminal that is too narrow for the figures, the terminal wraps the lines; no figure is cut.
    """
    for column in table.columns:
        if column.no_wrap:  # rich would measure the longest word only
            column.width = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
    padded = Padding(table, (0, 0, 0, left), expand=False)
    needed = Measurement.get(page, page.options.update(width=WIDTH), padded).minimum
    before = page.width
    page.width = max(before, needed)
    with page.capture() as drawn:
        page.print(padded)
    page.width = before
    for line in drawn.get().splitlines():
        page.file.write(_BLANKS.sub(r"\1", line) + "\n")


def _encodable(page: Console, text: str) -> str:
    """The text in signs that the output's encoding has."""
    encoding = page.encoding
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
    return text


def _text(page: Console, text: str, *, style: str = "") -> Text:
    return Text(_encodable(page, one_line(text)), style=style, overflow="fold")


def _say(page: Console, text: str, *, style: str = "") -> None:
    """A sentence, wrapped to the page with its indentation."""
    indent = " " * (len(text) - len(text.lstrip()))
    wrapped = textwrap.wrap(
        text, page.width, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False
    )
    for line in wrapped:
        _line(page, line, style=style)


def _line(page: Console, text: str, *, style: str = "") -> None:
    """A line as it is, never wrapped: it may be copied or searched for."""
    page.out(_encodable(page, text), style=style or None, highlight=False)


def _section(page: Console, title: str) -> None:
    _line(page, f"\n{title}", style="bold")
