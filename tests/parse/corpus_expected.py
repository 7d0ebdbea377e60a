"""What each corpus file says, typed from reading it; units as printed there. No value was taken from the parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from farm.parse.measurement import Measurement

KIB, MIB, GIB = 1024, 1024**2, 1024**3
KB, MB = 1000, 1_000_000
US, MS = 1000, 1_000_000


@dataclass(frozen=True)
class S:
    """One expected sample; what is None is not looked at, `near` is the tolerance of bw_bytes, as printed."""

    tool: str
    rw: str | None
    bytes: float | None = None
    seconds: float | None = None
    bw: float | None = None
    near: float = 1e-9
    job: str | None = None
    iops: float | None = None
    lat: dict[str, float] = field(default_factory=dict)
    bytes_near: float = 0.0


@dataclass(frozen=True)
class Case:
    """Samples in order, problem codes (all of them), and facts (those that are named)."""

    samples: tuple[S, ...] = ()
    problems: frozenset[str] = frozenset()
    facts: dict[str, Any] = field(default_factory=dict)


def case(*samples: S, problems: str = "", **facts: Any) -> Case:
    return Case(samples, frozenset(problems.split()), facts)


def dd(size: int, seconds: float, rw: str | None = None) -> S:
    return S("dd", rw, size, seconds, size / seconds)


def fio(rw: str, job: str | None, size: float, ms: float, bw: float, near: float, **more: Any) -> S:
    return S("fio", rw, size, ms / 1000, bw, near, job, **more)


def ios(clock: int, actual: int | None, width: int, timing: str, voltage: str) -> Case:
    keys = {
        "clock_hz": clock,
        "actual_clock_hz": actual,
        "width_bits": width,
        "timing": timing,
        "voltage": voltage,
    }
    return case(problems="no-measurement", ios=keys)


def speeds(job: str, rw: str, unit: float, *values: float) -> tuple[S, ...]:
    return tuple(S("table", rw, bw=value * unit, job=job) for value in values)


def clock(job: str, *minutes_seconds: tuple[int, float]) -> tuple[S, ...]:
    return tuple(S("table", None, seconds=m * 60 + s, job=job) for m, s in minutes_seconds)


NON, PAC = "1. Non-packed request / ", "2. Packed request / "
FIX, DYN = "1.Fixed hsq_depth / ", "2.Dynamic hsq_depth / "
DYN8 = "2.Dynamic hsq_depth(mrq->data->blksz * mrq->data->blocks == 8192 or 16384) / "
RR, RW, SR, SW = "Random read", "Random write", "Sequential read", "Sequential write"

CASES: dict[str, Case] = {
    "dd-bsd-macos-bytes-per-sec.txt": case(
        dd(1021592274, 480.752682), dd(3053371392, 2151.132182), dd(10485760, 0.028418)
    ),
    "dd-busybox-1.35-ash-time.txt": case(problems="dd-bytes-unknown no-measurement"),
    "dd-busybox-1.35-debian-norate.txt": case(problems="dd-bytes-unknown no-measurement"),
    "dd-busybox-openwrt-no-rate-line-time.txt": case(
        dd(2097152 * 512, 6.01, "read"), dd(GIB, 5.86, "read"), read_ahead_kb=[128, 1024]
    ),
    "dd-busybox-seconds-nospace.txt": case(
        dd(8388608, 21.460091, "read"), dd(8388608, 15.988695, "read"), dd(8388608, 21.521918, "read")
    ),
    "dd-coreutils-9.1-1M.txt": case(dd(67108864, 0.114825)),
    "dd-coreutils-9.1-input-error.txt": case(problems="dd-error no-measurement"),
    "dd-coreutils-9.1-noxfer.txt": case(problems="dd-bytes-unknown no-measurement"),
    "dd-coreutils-9.1-partial-record.txt": case(dd(67108864, 0.00789465), problems="dd-short"),
    "dd-coreutils-9.1-time-bash.txt": case(dd(67108864, 0.00462625), problems="dd-short"),
    "dd-coreutils-9.1-zero-bytes.txt": case(problems="dd-zero-bytes no-measurement"),
    "dd-coreutils-dual-unit.txt": case(dd(100 * MIB, 5.70235, "write"), dd(100 * MIB, 0.20267, "read")),
    "dd-coreutils-old-and-new-in-one-mail.txt": case(
        dd(7781351936, 134.714), dd(7781351936, 189.02), dd(15762194432, 422.967), dd(15762194432, 9232.65)
    ),
    "dd-coreutils-small-noparen.txt": case(dd(512, 0.000832209, "read"), problems="dd-short"),
    "dd-toybox-android-after-1024k.txt": case(dd(2296521564, 28.956049, "read"), read_ahead_kb=[1024]),
    "dd-toybox-android-before-128k.txt": case(dd(2296521564, 37.124446, "read"), read_ahead_kb=[128]),
    "dd-toybox-git2026-default-bs.txt": case(dd(64 * MIB, 0.148)),
    "dd-toybox-git2026-large.txt": case(dd(41943040000, 1.523)),
    "dd-toybox-git2026-noxfer.txt": case(problems="dd-bytes-unknown no-measurement"),
    "dd-toybox-git2026-tiny.txt": case(dd(1, 0.001), problems="dd-short"),
    "dd-toybox-rockchip-before-after.txt": case(dd(1048576000, 3.912249, "read"), dd(1048576000, 4.436271, "read")),
    "debugfs-ios-hs200.txt": ios(200_000_000, 200_000_000, 8, "mmc HS200", "1.80 V"),
    "debugfs-ios-hs400es.txt": ios(200_000_000, 200_000_000, 8, "mmc HS400 enhanced strobe", "1.80 V"),
    "debugfs-ios-var-0-legacy.txt": ios(400_000, 400_000, 1, "legacy", "3.30 V"),
    "debugfs-ios-var-1-mmc-high-speed-noactual.txt": ios(52_000_000, None, 8, "mmc high-speed", "3.30 V"),
    "debugfs-ios-var-1-mmc-high-speed.txt": ios(52_000_000, 50_000_000, 4, "mmc high-speed", "3.30 V"),
    "debugfs-ios-var-10-mmc-hs400-enhanced-strobe.txt": ios(
        198_000_000, 198_000_000, 8, "mmc HS400 enhanced strobe", "1.80 V"
    ),
    "debugfs-ios-var-2-sd-high-speed-noactual.txt": ios(50_000_000, None, 4, "sd high-speed", "3.30 V"),
    "debugfs-ios-var-2-sd-high-speed.txt": ios(50_000_000, 49_999_998, 4, "sd high-speed", "3.30 V"),
    "debugfs-ios-var-6-sd-uhs-sdr104-noactual.txt": ios(208_000_000, None, 4, "sd uhs SDR104", "1.80 V"),
    "debugfs-ios-var-6-sd-uhs-sdr104.txt": ios(150_000_000, 148_500_000, 4, "sd uhs SDR104", "1.80 V"),
    "debugfs-ios-var-9-mmc-hs200.txt": ios(100_000_000, 94_444_445, 8, "mmc HS200", "1.80 V"),
    "dmesg-mmc-error-and-state-lines.txt": case(
        problems="kernel-cqe-recovery kernel-cqe-timeout kernel-timeout kernel-io-error kernel-resume-error "
        "kernel-init-error kernel-crc kernel-transfer-error kernel-tuning-failed kernel-reset-stuck kernel-test-failed "
        "kernel-select-failed kernel-flush-error kernel-reset-error kernel-card-removed kernel-stray-interrupt "
        "kernel-recovery-failed kernel-busy no-measurement"
    ),
    "dmesg-mmc-hs400es-hbg4a2.txt": case(problems="no-measurement"),
    "dmesg-mmc-new-card-variants.txt": case(problems="no-measurement"),
    "fio-2.0.13-human-gtod-reduce-no-lat.txt": case(
        fio("write", "anhnt", 4096 * MIB, 26144, 160431 * KIB, 1e-4, iops=40107), fio_version="fio-2.0.13"
    ),
    "fio-2.2.10-json-io_bytes-is-KiB.txt": case(
        fio("read", "random-read", 7116 * KIB, 25788, 275 * KIB, 1e-9, iops=68.99), fio_version="fio-2.2.10"
    ),
    "fio-2.x-human-read-KBs.txt": case(
        fio(
            "read", "file1", 431739 * MIB, 900001, 491222 * KIB, 1e-5, iops=122805,
            lat={"min": 10 * US, "max": 90448 * US, "mean": 122.80 * US, "stddev": 56.19 * US,
                 "p50": 120 * US, "p99": 139 * US, "p99.9": 498 * US, "p99.99": 1480 * US},
        )
    ),
    "fio-2.x-runstatus-rw-groups.txt": case(
        fio("write", None, 3200 * MIB, 250214, 13095 * KIB, 1e-4),
        fio("read", None, 3200 * MIB, 113021, 28992 * KIB, 1e-4),
        fio("read", None, 1595.2 * MIB, 185077, 8825 * KIB, 2e-4, bytes_near=0.1 * MIB),
        fio("write", None, 1604.9 * MIB, 185079, 8879 * KIB, 2e-4, bytes_near=0.1 * MIB),
        fio("read", None, 1600.6 * MIB, 194803, 8413 * KIB, 2e-4, bytes_near=0.1 * MIB),
        fio("write", None, 1599.5 * MIB, 194825, 8406 * KIB, 2e-4, bytes_near=0.1 * MIB),
    ),
    "fio-3.12-json-error-lines-first.txt": case(problems="fio-message fio-json-broken no-measurement"),
    "fio-3.16-normal-sd-randread-randwrite-before.txt": case(
        fio("read", "mytest", 1024 * MIB, 12026, 89.3 * MB, 6e-4, iops=85.1,
            lat={"min": 11253 * US, "max": 34579 * US, "mean": 11735.57 * US, "p50": 11731 * US, "p99": 11863 * US,
                 "p99.9": 15664 * US}),
        fio("write", "mytest", 1024 * MIB, 26695, 40.2 * MB, 2e-3, iops=38.4,
            lat={"min": 18862 * US, "max": 94708 * US, "mean": 25990.34 * US, "p50": 23462 * US, "p99": 59507 * US,
                 "p99.9": 86508 * US}),
        fio_version="fio-3.16",
    ),
    "fio-3.33-error-bad-option.txt": case(problems="fio-message no-measurement"),
    "fio-3.33-json-error-enoent.txt": case(problems="fio-message fio-no-io no-measurement"),
    "fio-3.33-json-error-enospc-midrun.txt": case(problems="fio-message fio-error no-measurement"),
    "fio-3.33-json-group-reporting-4jobs.txt": case(
        fio("read", "g", 213168128, 1001, 212955172, 1e-9, iops=51991.008991,
            lat={"min": 16014, "max": 6949607, "mean": 76491.797168, "p50": 73216, "p99": 150528, "p99.9": 1122304})
    ),
    "fio-3.33-json-lat-percentiles-disabled.txt": case(
        fio("read", "nl", 634322944, 1001, 633689254, 1e-9, iops=9669.330669)
    ),
    "fio-3.33-json-mixed-randrw.txt": case(
        fio("read", "mx", 116793344, 1001, 116676667, 1e-9, iops=28485.514486, lat={"p99.9": 3555328}),
        fio("write", "mx", 50081792, 1001, 50031760, 1e-9, iops=12214.785215, lat={"p99.9": 4112384}),
    ),
    "fio-3.33-json-no-group-reporting-4jobs.txt": case(
        fio("read", "g", 49745920 + 48701440 + 50094080 + 49373184, 1001, 49696223 + 48652787 + 50044035 + 49323860, 1e-9,
            iops=12132.867133 + 11878.121878 + 12217.782218 + 12041.958042,
            lat={"min": 21867, "max": 4168981,
                 "mean": (82026.123261 * 12145 + 83763.349958 * 11890 + 81435.854702 * 12230 + 82641.464493 * 12054)
                 / (12145 + 11890 + 12230 + 12054)})
    ),
    "fio-3.33-json-note-before-brace-qd-capped.txt": case(
        fio("read", "rr", 64442368, 1001, 64377990, 1e-9, iops=15717.282717,
            lat={"min": 30425, "p50": 50432, "p99": 119296, "p99.9": 3981312}),
        problems="iodepth-capped", iodepth_capped=True,
    ),
    "fio-3.33-json-read-libaio-qd8.txt": case(
        fio("read", "sr", 2087976960, 1001, 2085891068, 1e-9, iops=15914.085914,
            lat={"min": 69573, "max": 4840029, "mean": 489753.0742, "stddev": 270781.358019, "p50": 436224,
                 "p99": 1843200, "p99.9": 4227072})
    ),
    "fio-3.33-json-too-short-zero-samples.txt": case(problems="fio-too-short no-measurement"),
    "fio-3.33-json-truncated-serial.txt": case(problems="fio-json-broken no-measurement"),
    "fio-3.33-jsonplus-bins-randwrite.txt": case(
        fio("write", "rw", 275447808, 1001, 275172635, 1e-9, iops=16795.204795,
            lat={"min": 831, "max": 5468352, "mean": 106367.689686, "p50": 74240, "p99": 610304, "p99.9": 4554752})
    ),
    "fio-3.33-normal-psync-cap-note.txt": case(
        fio("read", "nn", 134 * MIB, 1001, 140 * MB, 4e-3, iops=34.2e3, bytes_near=0.5 * MIB,
            lat={"min": 20 * US, "max": 820 * US, "mean": 58.09 * US, "stddev": 20.34 * US, "p50": 59 * US, "p99": 112 * US}),
        problems="iodepth-capped", iodepth_capped=True, fio_version="fio-3.33",
    ),
    "fio-3.33-terse-v3.txt": case(
        fio("read", "ms", 66752 * KIB, 1001, 66685 * KIB, 1e-9, iops=16671,
            lat={"min": 39 * US, "max": 5057 * US, "mean": 59453.938, "p50": 51 * US, "p99": 112 * US, "p99.9": 3424 * US}),
        fio_version="fio-3.33",
    ),
    "fio-3.34-normal-noCQE-iodepth-capped.txt": case(
        fio("read", "iops-test-job", 4096 * MIB, 19652, 219 * MB, 3e-3, iops=208,
            lat={"min": 3882 * US, "max": 11557 * US, "mean": 4778.37 * US, "p50": 4752 * US, "p99": 5473 * US,
                 "p99.99": 11600 * US}),
        problems="iodepth-capped", iodepth_capped=True, fio_version="fio-3.34",
    ),
    "fio-3.x-human-mmcblk0-sd-write-ft-d3000.txt": case(fio("write", None, 1600 * MIB, 190364, 8607 * KIB, 1e-4)),
    "fio-3.x-runstatus-commitmsg-rk3588-cqe.txt": case(
        fio("read", None, 4096 * MIB, 19607, 219 * MB, 2.5e-3), fio("read", None, 4096 * MIB, 19062, 225 * MB, 2.5e-3)
    ),
    "fio-3.x-summary-only-8k16k-before-after.txt": case(
        fio("read", "mytest", 1024 * MIB, 62019, 17.3 * MB, 3e-3), fio("read", "mytest", 1024 * MIB, 44034, 24.4 * MB, 3e-3),
        fio("write", "mytest", 100 * MIB, 25220, 4158 * KB, 3e-4), fio("write", "mytest", 100 * MIB, 14221, 7373 * KB, 3e-4),
        fio("read", "mytest", 1024 * MIB, 82397, 13.0 * MB, 4e-3), fio("read", "mytest", 1024 * MIB, 51076, 21.0 * MB, 3e-3),
        fio("write", "mytest", 100 * MIB, 24292, 4317 * KB, 3e-4), fio("write", "mytest", 100 * MIB, 15756, 6655 * KB, 3e-4),
        fio("read", "mytest", 1024 * MIB, 12026, 89.3 * MB, 6e-4, lat={"mean": 11735.57 * US, "p99.9": 15664 * US}),
        fio("write", "mytest", 1024 * MIB, 26695, 40.2 * MB, 2e-3, lat={"mean": 25990.34 * US, "p99.9": 86508 * US}),
        fio("read", "mytest", 1024 * MIB, 11828, 90.8 * MB, 6e-4, lat={"mean": 11543.12 * US, "p99.9": 21627 * US}),
        fio("write", "mytest", 1024 * MIB, 26059, 41.2 * MB, 2e-3, lat={"min": 16 * MS, "mean": 25.37 * MS, "p99.9": 114 * MS}),
    ),
    "mmc-utils-extcsd-rev1_7-1.txt": case(
        problems="no-measurement",
        ext_csd={"revision": "1.7", "mmc_version": "5.0", "cache_bytes": 128 * KIB, "sectors": 0xEB8000, "hs_timing": 1,
                 "card_type": 0x57, "life_time_a": None, "pre_eol": None},
    ),
    "perf-table-fua-vs-cache-5duts-typos.txt": case(
        *clock("DUT1 / Cache, no FUA", (13, 4.49), (13, 13.82), (13, 30.59)),
        *clock("DUT1 / FUA", (13, 30.32), (13, 36.26), (13, 10.86), (13, 32.52), (13, 48.59)),
        *clock("DUT2 / FUA", (8, 11.24), (7, 47.73), (7, 48.00), (7, 48.18), (7, 47.38)),
        *clock("DUT2 / Cache, no FUA", (8, 10.30), (7, 48.97), (7, 48.47), (7, 47.93), (7, 44.18)),
        *clock("DUT3 / Cache, no FUA", (7, 2.82), (6, 58.94), (7, 3.20), (7, 0.27), (7, 0.88)),
        *clock("DUT3 / FUA", (7, 5.43), (7, 3.44), (7, 4.82), (7, 3.26), (7, 4.74)),
        *clock("DUT4 / FUA", (7, 23.92), (7, 20.15), (7, 20.52), (7, 19.10), (7, 20.71)),
        *clock("DUT4 / Cache, no FUA", (7, 20.23), (7, 20.48), (7, 19.94), (7, 18.90), (7, 19.88)),
        *clock("Cache, no FUA", (7, 19.36), (7, 2.11), (7, 1.53), (7, 1.35), (7, 0.37)),
        *clock("Cache, no FUA CQE", (7, 17.55), (7, 0.73), (6, 59.25), (6, 58.44), (6, 58.60)),
        *clock("FUA", (7, 15.10), (6, 58.99), (6, 58.94), (6, 59.17)),
        *clock("FUA CQE", (7, 11.03), (6, 58.04), (6, 56.89), (6, 56.43)),
        problems="table-bad-time",
    ),
    "perf-table-hsq-dynamic-depth-v4.txt": case(
        *speeds(FIX + SW, "write", MB, 168, 164, 165), *speeds(FIX + SR, "read", MB, 326, 326, 326),
        *speeds(FIX + RW, "write", MB, 82.6, 83, 83), *speeds(FIX + RR, "read", MB, 48.2, 48.3, 47.6),
        *speeds(DYN + SW, "write", MB, 167, 166, 166), *speeds(DYN + SR, "read", MB, 327, 326, 326),
        *speeds(DYN + RW, "write", MB, 86.1, 86.2, 87.7), *speeds(DYN + RR, "read", MB, 48.1, 48, 48),
        *speeds(FIX + RW + "(bs=8K)", "write", MB, 116, 114, 115), *speeds(FIX + RR + "(bs=8K)", "read", MB, 83, 83, 82.5),
        *speeds(FIX + RW + "(bs=16K)", "write", MB, 141, 142, 141),
        *speeds(FIX + RR + "(bs=16K)", "read", MB, 132, 132, 132),
        *speeds(DYN8 + RW + "(bs=8K)", "write", MB, 115, 115, 115),
        *speeds(DYN8 + RR + "(bs=8K)", "read", MB, 82.7, 82.9, 82.8),
        *speeds(DYN8 + RW + "(bs=16K)", "write", MB, 143, 141, 141),
        *speeds(DYN8 + RR + "(bs=16K)", "read", MB, 132, 132, 132),
    ),
    "perf-table-packed-requests-rfc-v2.txt": case(
        *speeds(NON + SR, "read", MIB, 59.2, 60.4, 63.6, 60.3, 59.9),
        *speeds(NON + RR, "read", MIB, 31.3, 31.4, 31.5, 31.3, 31.3),
        *speeds(NON + SW, "write", MIB, 71, 71.8, 72.3, 72.2, 71),
        *speeds(NON + RW, "write", MIB, 68.9, 68.7, 68.8, 68.6, 68.8),
        *speeds(PAC + SR, "read", MIB, 230, 230, 229, 230, 229), *speeds(PAC + RR, "read", MIB, 181, 181, 181, 180, 181),
        *speeds(PAC + SW, "write", MIB, 175, 171, 171, 172, 171), *speeds(PAC + RW, "write", MIB, 169, 169, 171, 167, 170),
    ),
    "serial-labgrid-printk-between-marker-and-prompt.txt": case(problems="no-measurement"),
    "time-bash-blkdiscard.txt": case(
        S("time", "trim", seconds=8.659, job="blkdiscard /dev/mmcblk0"),
        S("time", "trim", seconds=1.176, job="blkdiscard /dev/mmcblk1"),
    ),
    "time-busybox-mkfs-erase.txt": case(
        S("time", "trim", 536870912, 0.34), S("time", "trim", 536870912, 39.78), S("time", "trim", None, 1.72)
    ),
}  # fmt: skip


def same(sample: Measurement, want: S) -> None:
    """Assert that a sample is the expected one, within what was printed."""
    assert (sample.tool, sample.rw) == (want.tool, want.rw)
    if want.job is not None:
        assert sample.job == want.job
    if want.bytes is None:
        assert sample.bytes is None
    else:
        assert sample.bytes == pytest.approx(want.bytes, rel=1e-12, abs=want.bytes_near)
    if want.seconds is None:
        assert sample.seconds is None
    else:
        assert sample.seconds == pytest.approx(want.seconds, rel=1e-9)
    if want.bw is not None:
        assert sample.bw_bytes == pytest.approx(want.bw, rel=want.near)
    if want.iops is not None:
        assert sample.iops == pytest.approx(want.iops, rel=3e-3)
    for key, value in want.lat.items():
        assert sample.lat_ns[key] == pytest.approx(value, rel=1e-7), key
    if not want.lat and want.tool != "fio":
        assert not sample.lat_ns
