"""Real servers on loopback, and records with numbers that were typed by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.influx.config import InfluxConfig
from farm.influx.local import LocalInflux, wait_for
from farm.ports import free_port
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord

T0 = 1_767_400_000.0
"""2026-01-03 00:26:40 UTC"""
TOKEN = "s3cr3t-Token-9f8e7d"


@pytest.fixture
def influxd(tmp_path: Path) -> Iterator[LocalInflux]:
    """An InfluxDB 1.6.7 of this test's own. Where it is not installed the test fails, as it should."""
    with LocalInflux(tmp_path / "influxd") as server:
        yield server


class Victoria:
    """VictoriaMetrics, which takes the /api/v2/write of influxdb-client. It keeps numbers only."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert shutil.which("victoria-metrics"), "apt-get install victoria-metrics"
        self.directory.mkdir(exist_ok=True)
        log = self.directory / "log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [
                    "victoria-metrics",
                    f"-storageDataPath={self.directory}/data",
                    f"-httpListenAddr=127.0.0.1:{self.port}",
                    "-retentionPeriod=100y",
                    "-dedup.minScrapeInterval=1ms",  # its way to let a point that comes twice count once
                    "-memory.allowedBytes=128MB",
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        wait_for("victoria-metrics", f"{self.url}/health", self.process, log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def config(self, **changes: Any) -> InfluxConfig:
        return InfluxConfig(**({"url": self.url, "bucket": "farm", "org": "lab"} | changes))

    def export(self, match: str) -> list[dict[str, Any]]:
        """Every series that matches, with its values and times in milliseconds."""
        with urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=30):
            pass
        asked = urllib.parse.urlencode({"match[]": match})
        with urllib.request.urlopen(f"{self.url}/api/v1/export?{asked}", timeout=30) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[Victoria]:
    server = Victoria(tmp_path / "victoria")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def run() -> RunRecord:
    return RunRecord(
        id="20260103-002640-nightly",
        campaign="nightly",
        campaign_text="name: nightly\n",
        seed=2**62 + 1,
        started=T0,
        host="lab1",
        version="0.1.0",
        settings={
            "baseline": "ra128",
            "socs": {"evb-a": "RK3568"},
            "branch": "linux-next",
            "commits": {"ra1024": "0c3f9d1"},
        },
    )


FIO = (
    "fio --name=randrw-4k --filename=/dev/mmcblk0p1 --rw=randrw --rwmixread=50 --bs=4096 --size=64M --direct=1"
    " --ioengine=libaio --iodepth=32 --numjobs=4 --group_reporting --output-format=json"
)
DD = "(now() { n=; }; now; s0=$s; u0=$u; dd if=/dev/mmcblk0p1 of=/dev/null bs=1M count=32; rc=$?; now; exit $rc)"


def trials(scale: float = 1.0) -> tuple[TrialRecord, ...]:
    """A dd trial twice, a mixed fio trial, and a void one."""
    return (
        TrialRecord(
            "dd-read",
            0,
            "ok",
            "",
            DD,
            T0 + 20,
            0.75,
            (
                SampleRecord("read", "bw_bytes", 61_900_000.5 * scale),
                SampleRecord("read", "seconds", 0.5420625),
            ),
        ),
        TrialRecord(
            "dd-read",
            1,
            "ok",
            "",
            DD,
            T0 + 21,
            0.75,
            (
                SampleRecord("read", "bw_bytes", 62_000_000.25 * scale),
                SampleRecord("read", "seconds", 0.5411875),
            ),
        ),
        TrialRecord(
            "randrw-4k",
            0,
            "ok",
            "",
            FIO,
            T0 + 22,
            5.5,
            (
                SampleRecord("read", "bw_bytes", 11_000_000.0 * scale),
                SampleRecord("read", "lat_p99.9_ns", 1_843_200.0),
                SampleRecord("write", "bw_bytes", 10_900_000.0 * scale),
                SampleRecord("write", "iops", 2661.125),
            ),
        ),
        TrialRecord("randrw-4k", 1, "void", "fio saw no I/O on mmcblk0", FIO, T0 + 28, 0.25),
    )


@pytest.fixture
def make_boot(run: RunRecord) -> Callable[..., BootRecord]:
    def make(index: int = 0, **changes: Any) -> BootRecord:
        filled: dict[str, Any] = {
            "run_id": run.id,
            "board": "evb-a",
            "index": index,
            "block": index // 4,
            "variant": "ra128" if index % 2 == 0 else "ra1024",
            "attempt": 0,
            "status": "ok",
            "reason": "",
            "started": T0 + 10 + 100 * index,
            "ended": T0 + 40.5 + 100 * index,
            "facts": {
                "banner": "Linux version 6.12.9-arm64 (debian-kernel@lists.debian.org) #1 SMP",
                "card.name": "DG4016",
                "card.manfid": "0x000045",
                "read_ahead_kb": 128,
                "temperature_c": 41.5,
                "mmc_lines": ["mmc0: new HS200 MMC card at address 0001"],
            },
            "flash": {"method": "uboot-write", "verified": True, "timings": {"boot": 4.25}},
            "events": (
                {"kind": "crc", "line": "mmc0: data crc error"},
                {"kind": "crc", "line": "mmc0: data crc error"},
            ),
            "trials": tuple(
                TrialRecord(
                    one.workload,
                    one.rep,
                    one.status,
                    one.reason,
                    one.command,
                    one.started + 100 * index,
                    one.seconds,
                    one.samples,
                )
                for one in trials(1.0 + index / 64)
            ),
        }
        return BootRecord(**(filled | changes))

    return make
