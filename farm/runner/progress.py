"""What people see while a run goes on: a live line per board on a terminal, plain lines elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from farm.runner.messages import BoardOver, BootDone, Checked, Doing, Joined, Message, Settled, TrialDone
from farm.store.records import DRIVEN
from farm.units import format_duration


class ProgressView:
    """Call it with every message of a run. `total` is the number of boots of the campaign, `boards` has how many of them
    each board is to do, which may turn out otherwise where boards share."""

    def __init__(self, console: Console, total: int, guess_s: float, boards: Mapping[str, int]) -> None:
        self.console, self.total, self.guess_s, self.boots = console, total, guess_s, dict(boards)
        self.done = dict.fromkeys(boards, 0)
        self.lines = dict.fromkeys(boards, "waiting")
        self.began = time.monotonic()
        self.boot_began = dict.fromkeys(boards, self.began)
        self.seconds: dict[str, list[float]] = {board: [] for board in boards}
        # a line costs a millisecond to draw: many boards are drawn less often
        often = min(4.0, 40 / max(1, len(boards)))
        self.live = Live(self._table(), console=console, refresh_per_second=often, transient=True)

    def __enter__(self) -> ProgressView:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def _left(self, board: str) -> str:
        """How long this board still takes, empty where that is not known."""
        todo = self.boots[board] - self.done[board]
        if todo <= 0:
            return ""
        boots = self.seconds[board]
        each = statistics.median(boots) if boots else self.guess_s
        running = time.monotonic() - self.boot_began[board]
        return f"{format_duration(max(0.0, todo * each - min(running, each)))} left"

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for board, line in self.lines.items():
            number = f"{min(self.done[board] + 1, self.total)}/{self.boots[board] or '?'}"
            # escape-free: board text reaches this only as names that were validated
            table.add_row(board, f"boot {number}", line, self._left(board))
        return table

    def _join(self, board: str) -> None:
        self.boots[board] = 0
        self.done.setdefault(board, 0)
        self.seconds.setdefault(board, [])
        self.boot_began[board] = time.monotonic()
        self.lines[board] = "joins"
        self._print(f"{board}: came free, joins")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __call__(self, message: Message) -> None:
        """Show a message."""
        if isinstance(message, Doing):
            self.lines[message.board] = f"{message.variant}: {message.what}"
            if message.what == "power off":
                self.boot_began[message.board] = time.monotonic()
        elif isinstance(message, TrialDone):
            sign = "" if message.ok else " FAILED"
            self.lines[message.board] = f"{message.variant}: trial {message.done}/{message.total}{sign}"
        elif isinstance(message, BootDone):
            self._boot(message)
        elif isinstance(message, Joined):
            self._join(message.board)
        elif isinstance(message, Checked):
            record = message.record
            self._print(f"{record.board}: check {'passed' if record.ok else 'FAILED: ' + record.reason}")
        elif isinstance(message, Settled):
            self._print(
                f"{message.board}: settled after {message.boots} of at most {message.most} boots per variant, stops"
            )
        elif isinstance(message, BoardOver):
            self.lines[message.board] = "done" if not message.exit_code else "gave up"
            if message.reason:
                self._print(f"{message.board}: gave up: {message.reason}")
        if self.console.is_terminal:
            self.live.update(self._table())

    def _boot(self, message: BootDone) -> None:
        record = message.record
        took = record.ended - record.started
        self.boot_began[record.board] = time.monotonic()  # the next one's
        if record.status != "failed":
            self.done[record.board] += 1
            self.seconds[record.board].append(took)
        good = sum(trial.status == "ok" for trial in record.trials)
        text = f"{record.board}  boot {record.index + 1}/{self.total}  {record.variant}: "
        if record.status == "ok":
            left = self._left(record.board)
            text += (
                f"{good} of {len(record.trials)} trials ok in {format_duration(took)}{left and ', ' + left}"
            )
            kinds = dict.fromkeys(str(event["kind"]) for event in record.events)
            if reported := [kind for kind in kinds if kind not in DRIVEN]:
                text += f"; the kernel reported {', '.join(reported)}"
            text += "".join(f"; {event['line']}" for event in record.events if event["kind"] in DRIVEN)
        else:
            text += f"{record.status.upper()} after {format_duration(took)}: {record.reason} (log: {record.log_path})"
        self._print(text)
