"""The exporter beside a run: nothing that a server does holds the run up, nothing that was committed is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.influx.config import InfluxConfig
from farm.influx.exporter import Exporter
from farm.influx.local import LocalInflux
from farm.influx.push import push
from farm.ports import free_port
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord
from tests.influx.conftest import T0, TOKEN

MakeBoot = Callable[..., BootRecord]


def count(influxd: LocalInflux, field: str = "bw_bytes", measurement: str = "trial") -> int:
    series = influxd.query(f"SELECT count({field}) FROM {measurement}")
    return int(series[0]["values"][0][1]) if series else 0


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False


@contextmanager
def silent_server() -> Iterator[InfluxConfig]:
    """Takes connections and never answers, as a server behind a broken firewall does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield InfluxConfig(
            url=f"http://127.0.0.1:{listener.getsockname()[1]}", bucket="farm", timeout=600_000, token=TOKEN
        )


def test_boots_arrive_while_the_run_goes_on(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    store.begin_run(run)
    exporter = Exporter.start(store.path, influxd.config())
    try:
        for index in range(3):
            store.commit_boot(make_boot(index))
            exporter.nudge()
            assert wait_until(lambda want=4 * (index + 1): count(influxd) == want)
        store.finish_run(run.id, "done", ended=T0 + 500)
        exporter.nudge()
    finally:
        report = exporter.stop(20)
    assert (report.sent, report.rows, report.waiting, report.problem) == (19, 4, 0, "")
    assert count(influxd, "boots_ok", "run") == 1
    assert store.outbox.tally() == (0, 0)


@pytest.mark.parametrize("what", ["dead", "silent"])
def test_no_server_costs_the_run_nothing(
    store: Store, run: RunRecord, make_boot: MakeBoot, what: str
) -> None:
    store.begin_run(run)
    with silent_server() as silent:
        dead = InfluxConfig(url=f"http://127.0.0.1:{free_port()}", bucket="farm", token=TOKEN)
        exporter = Exporter.start(store.path, dead if what == "dead" else silent)
        try:
            store.commit_boot(make_boot(0))
            exporter.nudge()
            time.sleep(2.5)  # until it is up and stuck
            slowest = 0.0
            for index in range(1, 40):
                began = time.monotonic()
                store.commit_boot(make_boot(index))
                for _ in range(1000):  # far more than a pipe holds
                    exporter.nudge()
                slowest = max(slowest, time.monotonic() - began)
            assert slowest < 1.0
        finally:
            began = time.monotonic()
            report = exporter.stop(2.0)
    assert time.monotonic() - began < 4.0
    assert report.sent == 0
    assert report.problem
    assert store.outbox.tally() == (40, 0)


def test_a_server_that_comes_late_gets_everything(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    influxd.kill()
    store.begin_run(run)
    exporter = Exporter.start(store.path, influxd.config())
    try:
        for index in range(2):
            store.commit_boot(make_boot(index))
            exporter.nudge()
        time.sleep(1.5)
        influxd.start()
        assert wait_until(lambda: count(influxd) == 8)
    finally:
        report = exporter.stop(20)
    assert (report.sent, report.problem) == (12, "")


def test_a_killed_exporter_takes_nothing_with_it(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    store.begin_run(run)
    exporter = Exporter.start(store.path, influxd.config())
    os.kill(exporter.pid, signal.SIGKILL)
    for index in range(3):
        store.commit_boot(make_boot(index))
        exporter.nudge()
    report = exporter.stop(5)
    assert report.problem == "the exporter died"
    assert push(store, influxd.config()).sent == 18
    assert count(influxd) == 12


def test_a_wrong_bucket_is_told_at_the_end_and_keeps_the_points(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    store.begin_run(run)
    exporter = Exporter.start(store.path, influxd.config(bucket="nope"))
    store.commit_boot(make_boot(0))
    exporter.nudge()
    report = exporter.stop(20)
    assert report.problem.startswith(f"the server at {influxd.url} does not have nope: database not found")
    assert store.outbox.tally() == (1, 0)


CONTROLLER = """
import os, signal, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from farm.influx.config import InfluxConfig
from farm.influx.exporter import Exporter
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

def main():
    store = Store.open({db!r}, create=True)
    exporter = Exporter.start(Path({db!r}), InfluxConfig(url={url!r}, bucket="farm", token={token!r}))
    store.begin_run(RunRecord("r1", "nightly", "", 1, 1.7e9))
    print(exporter.pid, flush=True)
    for index in range(3):
        trial = TrialRecord("w", 0, "ok", "", "dd", 1.7e9 + index, 1.0, (SampleRecord("read", "bw_bytes", 5.5e6 + index),))
        store.commit_boot(BootRecord("r1", "a", index, 0, "v", 0, "ok", "", 1.7e9 + index, 1.7e9 + index + 1, trials=(trial,)))
    os.kill(os.getpid(), signal.SIGKILL)  # committed, nothing nudged

if __name__ == "__main__":
    main()
"""


def test_a_run_killed_between_commit_and_send_is_sent_by_the_next_push(
    tmp_path: Path, db_path: Path, influxd: LocalInflux
) -> None:
    influxd.kill()  # so that the run's own exporter cannot have sent it
    script = tmp_path / "controller.py"
    root = str(Path(__file__).parents[2])
    script.write_text(CONTROLLER.format(root=root, db=str(db_path), url=influxd.url, token=TOKEN))
    db_path.parent.mkdir()
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert TOKEN not in ended.stdout + ended.stderr
    pid = int(ended.stdout)
    assert wait_until(lambda: not running(pid)), "an exporter whose run was killed has to end by itself"
    influxd.start()
    with Store.open(db_path) as store:
        assert store.outbox.tally() == (3, 0)
        assert push(store, influxd.config()).sent == 6
    (series,) = influxd.query("SELECT bw_bytes FROM trial")
    assert [value for _, value in series["values"]] == [5_500_000.0, 5_500_001.0, 5_500_002.0]


PUSHER = """
import os, signal, sys
sys.path.insert(0, {root!r})
from farm.influx.config import InfluxConfig
from farm.influx.push import push
from farm.store.db import Store

with Store.open({db!r}) as store:
    store.outbox.mark_sent = lambda ids: os.kill(os.getpid(), signal.SIGKILL)
    push(store, InfluxConfig(url={url!r}, bucket="farm"))
"""


def test_a_push_killed_after_the_server_took_it_sends_again_and_nothing_is_there_twice(
    store: Store, run: RunRecord, make_boot: MakeBoot, influxd: LocalInflux
) -> None:
    store.begin_run(run)
    for index in range(3):
        store.commit_boot(make_boot(index))
    root = str(Path(__file__).parents[2])
    script = PUSHER.format(root=root, db=str(store.path), url=influxd.url)
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (count(influxd), store.outbox.tally()) == (12, (3, 0))
    before = influxd.query("SELECT * FROM trial")
    assert push(store, influxd.config()).sent == 18
    assert influxd.query("SELECT * FROM trial") == before


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
