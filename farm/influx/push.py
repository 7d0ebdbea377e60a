"""From the outbox to a server: at least once, with the effect of exactly once.

A row leaves the outbox only after the server has said that it has all of its points; until then it is sent again,
and a point that comes twice overwrites itself. A row's lines are rendered once, when it is first looked at, and kept
in the outbox. What the server refuses for good is noted at its row with the server's words.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from farm.influx.client import Refused, Server, Unavailable
from farm.influx.config import InfluxConfig
from farm.influx.line import pack, unpack
from farm.influx.points import boot_lines, run_line
from farm.store.db import Store
from farm.store.outbox import OutboxRow
from farm.store.records import RunRecord, Tally
from farm.units import format_duration

BATCH = 5000
"""Lines of a request, about 2 MB; what InfluxData advises for version 1 and 2."""
PAGE = 20
"""Rows of the outbox that are in memory at a time."""
_SHOWN = 20
_SHOWN_LINE = 200


@dataclass(frozen=True)
class Patience:
    """How often a request is tried, and the seconds between: doubling, with jitter, unless the server names them."""

    tries: int = 5
    first_s: float = 1.0
    longest_s: float = 60.0

    def delay(self, tried: int, asked: float | None = None) -> float:
        """Seconds to wait after `tried` failures. Half of it is random, so that hosts that lost a server together
        do not come back together."""
        full = min(self.longest_s, self.first_s * 2.0 ** min(tried - 1, 30))
        return max(asked or 0.0, full * random.uniform(0.5, 1.0))  # noqa: S311


PATIENCE = Patience()


@dataclass
class PushReport:
    """What a push did. `sent` and `refused` are points, `rows` and `waiting` rows of the outbox (boots, runs,
    verdicts ...). `words` counts the points refused by the server's words. `problem` says in a sentence why the
    rest still waits, and is empty if nothing does."""

    sent: int = 0
    rows: int = 0
    waiting: int = 0
    words: Counter[str] = field(default_factory=Counter)
    problem: str = ""

    @property
    def refused(self) -> int:
        """Points that the server refused for good."""
        return self.words.total()


@dataclass
class _Batch:
    """Rows that travel together; `ends[i]` is the number of lines up to and with row i."""

    rows: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, row: int, lines: list[str]) -> None:
        self.lines += lines
        self.rows.append(row)
        self.ends.append(len(self.lines))


def push(
    store: Store,
    config: InfluxConfig,
    *,
    everything: bool = False,
    say: Callable[[str], None] = lambda line: None,
    patience: Patience = PATIENCE,
    sleep: Callable[[float], None] = time.sleep,
) -> PushReport:
    """Send what waits in the outbox, or with `everything` all that was ever put there.

    A server that does not answer is a `problem` of the report, after `patience.tries`. Raises UserError where url,
    token, org or bucket are wrong, StoreError where the store cannot be read or written.
    """
    if everything:
        store.outbox.requeue()
    report = PushReport()
    try:
        with Server(config) as server:
            for batch in _batches(store):
                refused = _deliver(server, batch.lines, patience, say, sleep)
                _settle(store, config, batch, refused, report)
    except _GaveUp as problem:
        report.problem = str(problem)
    report.waiting, _ = store.outbox.tally()
    return report


def _batches(store: Store) -> Iterator[_Batch]:
    batch, after = _Batch(), 0
    runs: dict[str, RunRecord] = {}
    while rows := store.outbox.waiting(PAGE, after=after):
        after = rows[-1].id
        fresh = {row.id: pack(_render(store, row, runs)) for row in rows if row.body is None}
        if fresh:
            store.outbox.fill(fresh)
        for row in rows:
            batch.add(row.id, unpack(row.body if row.body is not None else fresh[row.id]))
            if len(batch.lines) >= BATCH:
                yield batch
                batch = _Batch()
    if batch.rows:
        yield batch


def _render(store: Store, row: OutboxRow, runs: dict[str, RunRecord]) -> list[str]:
    """The lines of a boot or a run; everything else comes with its lines."""
    assert row.run_id is not None, "rows without a body are boots and runs"
    if row.kind == "boot":
        assert row.boot_id is not None
        if row.run_id not in runs:
            runs.clear()  # boots come in the order of their runs: one is enough, and memory stays flat
            runs[row.run_id] = store.run(row.run_id)
        trials = store.trials(row.run_id, boot_id=row.boot_id)
        return list(boot_lines(runs[row.run_id], store.boot(row.boot_id), trials))
    return [run_line(store.run(row.run_id), store.tallies().get(row.run_id, Tally()))]


class _GaveUp(Exception):
    pass


def _deliver(
    server: Server,
    lines: list[str],
    patience: Patience,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
    at: int = 0,
) -> dict[int, str]:
    """Send lines; the places (counted from `at`) of those that the server refused, with its words.

    Servers of different versions name refused points differently or not at all and take the rest or none of it, so
    what is left is halved until the points stand alone; a point that is sent again overwrites itself.
    """
    if not lines:
        return {}
    tried = 0
    while True:
        try:
            server.write(lines)
            return {}
        except Refused as refused:
            if len(lines) == 1 or refused.dropped == len(lines):
                return dict.fromkeys(range(at, at + len(lines)), refused.words)
            break
        except Unavailable as problem:
            tried += 1
            if tried >= patience.tries:
                raise _GaveUp(problem.words) from None
            delay = patience.delay(tried, problem.retry_after)
            say(f"{problem.words}; trying again in {format_duration(delay)}")
            sleep(delay)
    half = len(lines) // 2
    first = _deliver(server, lines[:half], patience, say, sleep, at)
    return first | _deliver(server, lines[half:], patience, say, sleep, at + half)


def _settle(
    store: Store, config: InfluxConfig, batch: _Batch, refused: dict[int, str], report: PushReport
) -> None:
    whole, begin = [], 0
    for row, end in zip(batch.rows, batch.ends, strict=True):
        places = [place for place in range(begin, end) if place in refused] if refused else []
        if places:
            notes = [f"{refused[place]}: {batch.lines[place][:_SHOWN_LINE]}" for place in places[:_SHOWN]]
            if len(places) > _SHOWN:
                notes.append(f"and {len(places) - _SHOWN} points more")
            store.outbox.mark_refused(row, config.scrub("\n".join(notes)))
        else:
            whole.append(row)
        begin = end
    store.outbox.mark_sent(whole)
    report.words.update(refused.values())
    report.sent += len(batch.lines) - len(refused)
    report.rows += len(batch.rows)
