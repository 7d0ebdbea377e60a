"""What `farm push` does and says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.complaint import printable
from farm.errors import UserError
from farm.influx.config import InfluxConfig, load_config
from farm.influx.push import PATIENCE, Patience, PushReport, push
from farm.store.db import Store

_SHOWN = 10


def push_command(
    db_path: Path,
    *,
    everything: bool = False,
    config_file: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
    patience: Patience = PATIENCE,
) -> tuple[PushReport, int]:
    """Send what waits in the database at `db_path` (or all of it), and the exit code: 0, or 3 if some still waits.

    Raises UserError where no server is configured or the configuration is wrong, StoreError as the store does.
    """
    config = configured(db_path.parent, config_file)
    with Store.open(db_path) as store:
        report = push(store, config, everything=everything, say=say, patience=patience)
    return report, 3 if report.problem else 0


def configured(home: Path, config_file: Path | None = None) -> InfluxConfig:
    """The configuration. Raises UserError where there is none, or it is wrong."""
    config = load_config(home, file=config_file)
    if config is None:
        raise UserError(
            "no InfluxDB server is configured; set INFLUXDB_V2_URL, INFLUXDB_V2_BUCKET, INFLUXDB_V2_TOKEN and"
            f" INFLUXDB_V2_ORG, or write them as url, bucket, token and org into {home / 'influx.ini'} below [influx2]"
        )
    return config


def report_lines(report: PushReport) -> list[str]:
    """The report in sentences, one a line, safe for a terminal."""
    lines = [f"sent {report.sent} points of {report.rows} boots, runs and findings"]
    if not report.rows and not report.problem:
        lines = ["nothing waits to be sent"]
    if report.refused:
        lines.append(
            f"the server refused {report.refused} points, which are set aside and stay in the database:"
        )
        for words, count in report.words.most_common(_SHOWN):
            lines.append(f"  {count} x {printable(words, 400)}")
        if len(report.words) > _SHOWN:
            lines.append(f"  and {len(report.words) - _SHOWN} other reasons")
    if report.problem:
        waiting = (
            f"{report.waiting} boots, runs and findings wait" if report.waiting >= 0 else "some still wait"
        )
        lines.append(f"{waiting}: {printable(report.problem, 400)}; `farm push` sends them later")
    return lines


def report_data(report: PushReport) -> dict[str, Any]:
    """The report as JSON for scripts."""
    return {
        "sent": report.sent,
        "rows": report.rows,
        "waiting": report.waiting,
        "refused": dict(report.words),
        "problem": report.problem,
    }
