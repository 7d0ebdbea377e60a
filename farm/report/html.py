"""A study as one HTML file: nothing is loaded, nothing runs, every text that came from a board is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from farm.report import svg
from farm.report.boards import Board
from farm.report.compare_view import Block, CompareTable, Row, Side
from farm.report.content import content, headline
from farm.report.figures import NONE, format_percent, format_time, format_value
from farm.report.series import BoardSeries
from farm.report.study import PERCENTILES, Study
from farm.report.template import template
from farm.report.words import change, count, interval, metric_name, word

SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "?"}


@dataclass(frozen=True)
class Cell:
    """One verdict with its figures, as the matrix and the tables show it."""

    board: str
    candidate: str
    sign: str
    word: str
    kind: str
    change: str
    interval: str
    count: str
    sides: tuple[tuple[int, str, str, str, float | None], ...]
    """Style, variant, median, spread in percent, share of the bus in percent."""
    reason: str


@dataclass(frozen=True)
class Plots:
    """One board's plots of one workload."""

    board: str
    dots: Markup
    order: Markup
    tails: Markup


@dataclass(frozen=True)
class Workload:
    """One series: what each board and candidate says of it."""

    label: str
    rw: str
    cells: tuple[Cell, ...]
    plots: tuple[Plots, ...]


Tables = Mapping[str, BoardSeries]
"""One metric's tables by board."""


def page(study: Study, latencies: Mapping[str, Tables]) -> str:
    """The whole file; `latencies` as study.latencies gives them."""
    styles = {name: number for number, name in enumerate(_ordered(study))}
    return template("report.html.j2", markup=True).render(
        **content(study),
        run=study.run,
        study=study,
        said=headline(study),
        styles=styles,
        marker=svg.marker,
        workloads=list(_workloads(study, styles, latencies)),
        tails=[(metric_name(tail.metric), _tail_rows(study, tail, styles)) for tail in study.tails],
        fact_rows=list(_facts(study.boards)),
        started=format_time(study.run.started),
        ended=format_time(study.run.ended),
        none=NONE,
    )


def _ordered(study: Study) -> list[str]:
    base = study.table.baseline
    return [base, *(name for name in study.variants if name != base)]


def _workloads(
    study: Study, styles: Mapping[str, int], latencies: Mapping[str, Tables]
) -> Iterable[Workload]:
    rows: dict[str, list[tuple[Block, Row]]] = {}
    for block in study.table.blocks:
        for row in block.rows:
            rows.setdefault(row.label, []).append((block, row))
    main = study.judged[0]
    values = _Values(
        main.metric,
        _cut(main.tables, styles),
        {metric: _cut(latencies[metric], styles) for metric in PERCENTILES if metric in latencies},
    )
    tried: dict[str, set[float]] = {board.name: set() for board in study.boards}
    if not study.table.imported:  # the order of those is unknown
        for boot in study.boots:
            tried[boot.board].add(float(boot.index))
    for label, members in rows.items():
        boards = dict.fromkeys(block.board for block, _ in members)
        yield Workload(
            label=label,
            rw=members[0][1].rw,
            cells=tuple(_cell(study, study.table, block, row, styles) for block, row in members),
            plots=tuple(
                _plots(
                    board,
                    label,
                    [row for block, row in members if block.board == board],
                    styles,
                    values,
                    tried[board],
                )
                for board in boards
            ),
        )


def _cell(study: Study, table: CompareTable, block: Block, row: Row, styles: Mapping[str, int]) -> Cell:
    sides = [row.base] if row.cand is None else [row.base, row.cand]
    verdict = row.verdict
    unstable = verdict is not None and verdict.unstable
    kind = "none" if verdict is None else verdict.verdict
    sign = NONE if verdict is None else SIGNS.get(verdict.verdict, "?")
    return Cell(
        board=block.board,
        candidate=block.candidate or "",
        sign="!" if unstable and kind == "inconclusive" else sign + ("!" if unstable else ""),
        word=word(row),
        kind="unstable" if unstable else kind,
        change=change(row),
        interval=interval(row),
        count=count(table, sides),
        sides=tuple(_side(study, table, block.board, row.label, side, styles) for side in sides),
        reason="" if verdict is None else verdict.reason,
    )


def _side(
    study: Study, table: CompareTable, board: str, label: str, side: Side, styles: Mapping[str, int]
) -> tuple[int, str, str, str, float | None]:
    share = study.shares.get((board, side.variant, label)) if table is study.table else None
    return (
        styles[side.variant],
        side.variant,
        format_value(table.metric, side.value),
        format_percent(side.spread),
        None if share is None else 100 * share.share,
    )


def _plots(
    board: str, label: str, rows: Sequence[Row], styles: Mapping[str, int], values: _Values, tried: Set[float]
) -> Plots:
    lanes = values.main[board].of(label) if board in values.main else []
    intervals = []
    for row in rows:
        low, ratio, high = (getattr(row.verdict, name, None) for name in ("low", "ratio", "high"))
        if (
            row.cand is not None
            and row.base.value
            and low is not None
            and ratio is not None
            and high is not None
        ):
            base = row.base.value
            intervals.append(svg.Interval(styles[row.cand.variant], base * low, base * ratio, base * high))
    tails: dict[str, list[tuple[int, float]]] = {}
    for metric, cut in values.latencies.items():
        own = cut[board].of(label) if board in cut else []
        if points := [(lane.style, float(np.median(lane.values))) for lane in own if len(lane.values)]:
            tails[metric[4:-3]] = points
    what = f"{label} on {board}"
    lost = sorted(tried - {place for lane in lanes for place in lane.places.tolist()})
    return Plots(
        board=board,
        dots=svg.dots(
            values.metric, lanes, intervals, f"{what}: every boot, medians, interval of the change"
        ),
        order=svg.order(values.metric, lanes, lost, f"{what}: boots in order") if tried else Markup(""),
        tails=svg.percentiles(tails, f"{what}: latency percentiles"),
    )


@dataclass(frozen=True)
class _Values:
    """What is plotted: the main metric and latencies, by board."""

    metric: str
    main: Mapping[str, _Lanes]
    latencies: Mapping[str, Mapping[str, _Lanes]]


class _Lanes:
    """One board's table of one metric, cut into variants once for all of its workloads."""

    def __init__(self, table: BoardSeries, styles: Mapping[str, int]) -> None:
        names = np.array(table.variants, dtype=object)
        self._values = table.values
        self._places = np.array(table.indexes, dtype=np.float64)
        self._columns = {one.label: number for number, one in enumerate(table.series)}
        self._of = {name: mine for name in styles if (mine := names == name).any()}
        self._styles = styles

    def of(self, label: str) -> list[svg.Lane]:
        """A lane for each variant that the board has boots of; empty where the table has no such series."""
        if label not in self._columns:
            return []
        column = self._values[:, self._columns[label]]
        there = np.isfinite(column)
        return [
            svg.Lane(name, self._styles[name], column[mine & there], self._places[mine & there])
            for name, mine in self._of.items()
        ]


def _cut(tables: Tables, styles: Mapping[str, int]) -> dict[str, _Lanes]:
    return {board: _Lanes(table, styles) for board, table in tables.items()}


def _tail_rows(study: Study, tail: CompareTable, styles: Mapping[str, int]) -> list[tuple[str, Cell]]:
    return [
        (row.label, _cell(study, tail, block, row, styles)) for block in tail.blocks for row in block.rows
    ]


_IDENTITY = ("soc", "card", "firmware", "kernel", "commit", "ios")
Owner = tuple[str, str]
"""Board and variant; the variant is empty where a fact is the board's."""


def _facts(boards: Sequence[Board]) -> Iterable[tuple[str, bool, list[tuple[str, str]]]]:
    """Each fact with whether boards or variants differ in it, and its values, each with whose they are."""
    named: dict[str, dict[Owner, tuple[str, ...]]] = {}
    marked: set[str] = set()
    for board in boards:
        own: dict[str, dict[str, tuple[str, ...]]] = {
            "soc": {"": (board.soc,)},
            "card": {"": (board.card,)},
            "firmware": {"": (board.firmware,)},
            "kernel": {variant: (text,) for variant, text in board.kernels.items()},
            "commit": {variant: (text,) for variant, text in board.commits.items() if text},
            "ios": {variant: (text,) for variant, text in board.ios.items()},
        }
        own |= {fact.name: dict(fact.by_variant) for fact in board.facts}
        marked |= {fact.name for fact in board.facts if fact.differs}
        for name, texts in own.items():
            for variant, text in texts.items():
                named.setdefault(name, {})[board.name, variant] = text
    for name, values in named.items():
        groups: dict[tuple[str, ...], list[Owner]] = {}
        for owner, shown in values.items():
            groups.setdefault(shown, []).append(owner)
        alike = len(groups) == 1
        yield (
            name,
            name in marked or (not alike and name in _IDENTITY),
            [
                ("" if alike else _owners(who, boards, values), " / ".join(shown))
                for shown, who in groups.items()
            ],
        )


def _owners(owners: Sequence[Owner], boards: Sequence[Board], values: Mapping[Owner, object]) -> str:
    """`virt-a`, or `virt-a ra128` where the variants of a board are not all among the owners."""
    found = []
    for board in boards:
        mine = [variant for name, variant in owners if name == board.name]
        of_board = [variant for name, variant in values if name == board.name]
        if mine and len(mine) == len(of_board) and len(boards) > 1:
            found.append(board.name)
        else:
            name = board.name if len(boards) > 1 else ""
            found += [" ".join(part for part in (name, variant) if part) for variant in mine]
    return ", ".join(found)
