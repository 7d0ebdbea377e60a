"""What `farm push` says and ends with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from farm.errors import StoreError, UserError
from farm.influx.command import push_command, report_data, report_lines
from farm.influx.line import line, pack
from farm.influx.local import LocalInflux
from farm.influx.push import Patience, PushReport
from farm.ports import free_port
from farm.store.db import Store
from tests.influx.conftest import TOKEN


def write_config(home: Path, url: str) -> None:
    (home / "influx.ini").write_text(f"[influx2]\nurl={url}\nbucket=farm\ntoken={TOKEN}\n")


def test_a_push_and_a_second_one(store: Store, influxd: LocalInflux, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFLUXDB_V2_URL", raising=False)
    write_config(store.path.parent, influxd.url)
    store.outbox.put("board", pack([line("board", {"board": "a"}, {"ok": 1}, 1000)]))
    report, code = push_command(store.path)
    assert (report_lines(report), code) == (["sent 1 points of 1 boots, runs and findings"], 0)
    report, code = push_command(store.path)
    assert (report_lines(report), code) == (["nothing waits to be sent"], 0)
    assert push_command(store.path, everything=True)[0].sent == 1
    assert report_data(report) == {"sent": 0, "rows": 0, "waiting": 0, "refused": {}, "problem": ""}


def test_a_server_that_is_not_there_ends_with_3(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("INFLUXDB_V2_URL", raising=False)
    url = f"http://127.0.0.1:{free_port()}"
    write_config(store.path.parent, url)
    store.outbox.put("board", pack([line("board", {"board": "a"}, {"ok": 1}, 1000)]))
    said: list[str] = []
    report, code = push_command(store.path, say=said.append, patience=Patience(tries=3, first_s=0.01))
    assert code == 3
    assert report_lines(report)[-1] == (
        f"1 boots, runs and findings wait: no answer from {url}: Connection refused; `farm push` sends them later"
    )
    assert said == [f"no answer from {url}: Connection refused; trying again in 0 s"] * 2
    assert TOKEN not in f"{said}{report_lines(report)}{capfd.readouterr()}"


def test_no_configuration_and_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INFLUXDB_V2_URL", "FARM_INFLUX_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="no InfluxDB server is configured; set INFLUXDB_V2_URL"):
        push_command(tmp_path / "farm.db")
    write_config(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(StoreError, match="there is no results database"):
        push_command(tmp_path / "farm.db")


def test_a_servers_words_are_not_obeyed_by_the_terminal() -> None:
    report = PushReport(sent=1, rows=2, words=Counter({f"bad \x1b[2J {n}": n + 1 for n in range(12)}))
    lines = report_lines(report)
    assert lines[1] == "the server refused 78 points, which are set aside and stay in the database:"
    assert lines[2] == "  12 x bad ?[2J 11"
    assert lines[-1] == "  and 2 other reasons"
    assert "\x1b" not in "".join(lines)
