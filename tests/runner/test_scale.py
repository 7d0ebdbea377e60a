"""The stand-in of `tests.bench.fleet_scale` and farm understand each other, so that the bench measures whole boots."""

import re
import sqlite3
from pathlib import Path

from tests.bench.fleet_scale import stand_in
from tests.lab import LabHome, environment, wait_for

CAMPAIGN = """\
name: three-standins
boots: 2
trials: 1
variants:
  only: {baseline: true, kernel: kernel-new, knobs: {queue/read_ahead_kb: 1024}, expect: {read_ahead_kb: 1024}}
workloads:
  - {tool: dd, rw: read, bs: 1M, size: 32M}
  - {tool: fio, rw: randread, bs: 4k, size: 64M, runtime: 5s}
boards:
"""


def _boots(home: LabHome) -> bool:
    try:
        return bool(home.rows("SELECT 1 FROM boot"))
    except sqlite3.OperationalError:
        return False


def test_every_result_of_three_standins_arrives_under_its_own_board(tmp_path: Path) -> None:
    home = LabHome(
        tmp_path / "home", environment(tmp_path / "home") | {"FARM_CACHE": str(tmp_path / "cache")}
    )
    with stand_in(tmp_path, 3, 1.5) as files:
        campaign = tmp_path / "campaign.yaml"
        campaign.write_text(CAMPAIGN + "".join(f"  - {file}\n" for file in files))
        farm = home.start("run", str(campaign), "--seed", "1")
        wait_for("a boot is stored", lambda: _boots(home), 60)
        loaded = Path(f"/proc/{farm.pid}/maps").read_text()
        said, _ = farm.communicate(timeout=120)
    assert farm.returncode == 0, said
    assert "stand-in for scale only" in said
    # what a controller need not have while it measures is in its workers or comes for the verdicts
    assert "sqlite3" in loaded
    assert not re.findall(r"numpy|scipy|grpc", loaded)
    boots = home.rows(
        "SELECT board, boot_index, status, json_extract(facts, '$.\"card.serial\"'), json_extract(facts, '$.banner') "
        "FROM boot ORDER BY board, boot_index"
    )
    banner = (
        "Linux version 6.12.117+deb13-new-arm64 (debian-kernel@lists.debian.org) (aarch64-linux-gnu-gcc-14 (Debian "
        "14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP Debian 6.12.117-1 (2026-11-12)"
    )
    assert boots == [
        (f"scale-standin-00{number}", boot, "ok", f"0x0000000{number}", banner)
        for number in (1, 2, 3)
        for boot in (0, 1)
    ]
    # the recording: 32 MiB in 2.105650 s by dd; 4108 requests of 4 KiB in 4996 ms by fio
    samples = home.rows(
        "SELECT workload, metric, count(*), min(value), max(value) FROM trial JOIN sample ON trial.id = sample.trial_id "
        "WHERE metric IN ('seconds', 'bytes') AND status = 'ok' GROUP BY workload, metric ORDER BY workload, metric"
    )
    assert samples == [
        ("dd-read-1M", "bytes", 6, 33554432, 33554432),
        ("dd-read-1M", "seconds", 6, 2.10565, 2.10565),
        ("randread-4k", "bytes", 6, 16826368, 16826368),
        ("randread-4k", "seconds", 6, 4.996, 4.996),
    ]
