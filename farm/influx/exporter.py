"""Sends points while a run goes on, in a process of its own, so that no server can hold up the run.

The run never talks to a server: it commits a boot, and writes one byte to a pipe that never blocks. Whatever the
exporter does or dies of, the outbox keeps what was not sent, for the next one or for `farm push`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from farm.errors import FarmError
from farm.influx.config import InfluxConfig
from farm.influx.push import Patience, PushReport, push
from farm.store.db import Store

_LOOK_S = 30.0
"""Seconds after which the outbox is looked at without a nudge, for rows that others put there."""
_STOP = b"s"
_NUDGE = b"n"


class Exporter:
    """The exporter of one run, as the controller holds it. No method raises because of a server or waits for one,
    but `stop`, which waits as long as it is told."""

    def __init__(self, process: SpawnProcess, words: Connection, report: Connection) -> None:
        self._process, self._words, self._report = process, words, report

    @classmethod
    def start(cls, db_path: Path, config: InfluxConfig) -> Exporter:
        """Start sending what waits in the database at `db_path`, which has to exist."""
        context = multiprocessing.get_context("spawn")
        heard, words = context.Pipe(duplex=False)
        report, told = context.Pipe(duplex=False)
        args = (heard, told, str(db_path), config)
        process = context.Process(target=_main, args=args, name="farm-influx", daemon=True)
        process.start()
        heard.close()
        told.close()
        # a pipe takes so few bytes whole or not at all (PIPE_BUF), so that full never means torn
        os.set_blocking(words.fileno(), False)
        return cls(process, words, report)

    @property
    def pid(self) -> int:
        """The exporter's process."""
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def nudge(self) -> None:
        """Say that something new waits. Never blocks and never fails: a full pipe has nudges enough."""
        self._write(_NUDGE)

    def stop(self, deadline_s: float = 5.0) -> PushReport:
        """Let the exporter send what waits, for at most `deadline_s` seconds, and end it; what it did in all.

        `waiting` is -1 where it had to be ended by force, or had ended by itself.
        """
        end = time.monotonic() + deadline_s
        self._write(_STOP)
        report = PushReport(waiting=-1, problem=f"the server did not take the rest within {deadline_s:g} s")
        try:
            if self._report.poll(max(0.0, end - time.monotonic())):
                report = self._report.recv()
                self._process.join(max(0.1, end - time.monotonic()))
        except (EOFError, OSError):
            report.problem = "the exporter died"
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._words.close()
        self._report.close()
        return report

    def _write(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # full, or nobody there any more
            self._words.send_bytes(word)


def _main(words: Connection, told: Connection, db_path: str, config: InfluxConfig) -> None:
    # Ctrl-C goes to the whole process group; the run decides when the last boot is out
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    total = PushReport()
    failures, stopping = 0, False
    backoff = Patience()
    while True:
        report = _once(db_path, config)
        total.sent += report.sent
        total.rows += report.rows
        total.words += report.words
        total.waiting, total.problem = report.waiting, report.problem
        if stopping:
            break
        failures = failures + 1 if report.problem else 0
        heard = _listen(words, backoff.delay(failures) if failures else _LOOK_S, only_stop=bool(failures))
        if heard == "gone":
            return
        stopping = heard == "stop"
    with contextlib.suppress(OSError):
        told.send(total)


def _once(db_path: str, config: InfluxConfig) -> PushReport:
    """One push; everything that can go wrong is a problem to try again after, a wrong token too: it may be set
    right while the run goes on."""
    try:
        with Store.open(db_path) as store:
            return push(store, config, patience=Patience(tries=1))
    except FarmError as problem:
        return PushReport(waiting=-1, problem=str(problem))


def _listen(words: Connection, seconds: float, *, only_stop: bool) -> str:
    """Wait for a word of the run, or `seconds`. A nudge does not shorten a back-off, a stop does."""
    end = time.monotonic() + seconds
    word = ""
    try:
        while not word or words.poll(0):
            if not words.poll(max(0.0, end - time.monotonic())):
                return word
            if words.recv_bytes(16) == _STOP:
                return "stop"
            word = "" if only_stop else "nudge"
    except (EOFError, OSError):
        return "gone"
    return word
