"""fio outputs that the corpus does not hold: other versions, several documents, real runs on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from farm.parse.fio import parse_fio
from farm.parse.text import parse_any

MIB = 1024**2
CORPUS = Path(__file__).parents[1] / "corpus"


def body(name: str) -> str:
    return (CORPUS / name).read_text().split("# ---- sample follows ----\n", 1)[1]


def codes(text: str) -> set[str]:
    return {problem.code for problem in parse_fio(text).problems}


def document(**changes: Any) -> dict[str, Any]:
    """A small document as fio 3.36 prints it: one read job of 64 MiB in 2.000 s."""
    side = {"io_bytes": 64 * MIB, "io_kbytes": 65536, "bw_bytes": 32 * MIB, "bw": 32768, "iops": 512.0, "runtime": 2000,
            "total_ios": 1024, "short_ios": 0, "drop_ios": 0,
            "clat_ns": {"min": 1000, "max": 9000, "mean": 2000.0, "stddev": 10.0, "N": 1024,
                        "percentile": {"50.000000": 1900, "99.900000": 8000}}}  # fmt: skip
    idle = {"io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}
    job = {"jobname": "a", "groupid": 0, "error": 0, "elapsed": 3, "job options": {"rw": "read", "bs": "64k"},
           "read": side, "write": dict(idle), "trim": dict(idle)}  # fmt: skip
    top = {"fio version": "fio-3.36", "timestamp": 1700000000, "timestamp_ms": 1700000000500, "jobs": [job],
           "disk_util": [{"name": "mmcblk0", "read_ios": 1024, "write_ios": 0, "read_sectors": 131072}]}  # fmt: skip
    for key, value in changes.items():
        target = side if key in side else job if key in job else top
        target[key] = value
    return top


def test_small_document_is_a_sample() -> None:
    (sample,) = parse_fio(json.dumps(document())).samples
    assert (sample.rw, sample.bytes, sample.seconds, sample.bw_bytes, sample.iops) == (
        "read",
        64 * MIB,
        2.0,
        32 * MIB,
        512,
    )
    assert sample.lat_ns == {"min": 1000, "max": 9000, "mean": 2000, "stddev": 10, "p50": 1900, "p99.9": 8000}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"total_ios": 0, "io_bytes": 0, "bw_bytes": 0, "bw": 0}, "fio-no-io"),
        ({"total_ios": 0}, "fio-no-io"),
        ({"io_bytes": 0}, "fio-no-io"),
        ({"error": 5}, "fio-error"),
        ({"error": "no"}, "fio-error"),
        ({"runtime": 3}, "fio-too-short"),
        ({"runtime": None}, "fio-incomplete"),
        ({"runtime": "2000"}, "fio-incomplete"),
        ({"io_bytes": -5}, "fio-incomplete"),
        ({"bw_bytes": 0, "bw": 0}, "fio-incomplete"),
        ({"bw_bytes": 3 * MIB}, "fio-inconsistent"),
        ({"disk_util": [{"name": "mmcblk0", "read_ios": 0, "write_ios": 9}]}, "fio-no-device-io"),
        ({"jobs": []}, "fio-json-broken"),
        ({"jobs": "none"}, "fio-json-broken"),
    ],
)
def test_no_measurement(changes: dict[str, Any], code: str) -> None:
    text = json.dumps(document(**changes))
    assert not parse_fio(text).samples
    assert code in codes(text)


def test_nan_is_no_number() -> None:
    text = json.dumps(document()).replace("512.0", "NaN")
    assert not parse_fio(text).samples
    assert codes(text) == {"fio-json-broken"}


def test_disk_util_of_another_device_is_enough_and_none_is_allowed() -> None:
    disks = [
        {"name": "dm-0", "read_ios": 0, "write_ios": 0},
        {"name": "mmcblk0", "read_ios": 5, "write_ios": 0},
    ]
    assert len(parse_fio(json.dumps(document(disk_util=disks))).samples) == 1
    assert len(parse_fio(json.dumps(document(disk_util=[]))).samples) == 1


def test_a_job_that_did_nothing_spoils_the_sum() -> None:
    top = document()
    dead = json.loads(json.dumps(top["jobs"][0]))
    dead["read"].update(io_bytes=0, bw_bytes=0, bw=0, iops=0.0, total_ios=0, runtime=0)
    top["jobs"].append(dead)
    assert not parse_fio(json.dumps(top)).samples
    assert codes(json.dumps(top)) == {"fio-job-without-io"}


def test_groups_that_ran_one_after_another_stay_apart() -> None:
    top = document()
    second = json.loads(json.dumps(top["jobs"][0])) | {"groupid": 1, "jobname": "b"}
    top["jobs"].append(second)
    assert [sample.job for sample in parse_fio(json.dumps(top)).samples] == ["a", "b"]


def test_error_lines_before_a_good_looking_document_forbid_it() -> None:
    line = "fio: pid=4896, err=5/file:ioengines.c:351, func=td_io_queue, error=Input/output error\n"
    text = line + json.dumps(document())
    assert not parse_fio(text).samples
    assert "fio-error" in codes(text)
    assert not parse_fio(json.dumps(document()) + "\n" + line).samples


def test_two_runs_give_two_samples_and_an_interim_report_none() -> None:
    first, later = document(), document(timestamp=1700000010, timestamp_ms=1700000010500)
    assert len(parse_fio(json.dumps(first) + "\n" + json.dumps(later)).samples) == 2
    grown = document(
        timestamp=1700000002,
        timestamp_ms=1700000002500,
        elapsed=5,
        runtime=4000,
        io_bytes=128 * MIB,
        total_ios=2048,
    )
    result = parse_fio(json.dumps(first) + "\n" + json.dumps(grown))
    assert [sample.bytes for sample in result.samples] == [128 * MIB]
    assert [problem.code for problem in result.problems] == ["fio-interim"]
    # A command between the two says that fio was started anew, whatever the clocks say.
    text = json.dumps(first) + "\n# fio --name=a --rw=read\n" + json.dumps(grown)
    assert len(parse_fio(text).samples) == 2


def test_a_cut_last_report_makes_the_one_before_interim() -> None:
    first = json.dumps(document(), indent=2)
    last = json.dumps(document(timestamp=1700000002, timestamp_ms=1700000002500, elapsed=5), indent=2)
    result = parse_fio(first + "\n" + last[: len(last) * 2 // 3])
    assert not result.samples
    assert [problem.code for problem in result.problems] == ["fio-interim", "fio-json-broken"]


def test_old_microseconds_and_kib() -> None:
    text = """{ "fio version" : "fio-2.1.11", "jobs" : [ { "jobname" : "w", "groupid" : 0, "error" : 0,
      "read" : { "io_bytes" : 0, "bw" : 0, "iops" : 0.00, "runtime" : 0, "total_ios" : 0 },
      "write" : { "io_bytes" : 102400, "bw" : 10240, "iops" : 2560.00, "runtime" : 10000,
        "clat" : { "min" : 100, "max" : 9000, "mean" : 390.50, "stddev" : 12.00,
                   "percentile" : { "50.000000" : 380, "99.000000" : 700, "0.00" : 0 } } } } ] }"""
    (sample,) = parse_fio(text).samples
    assert (sample.rw, sample.bytes, sample.bw_bytes) == ("write", 100 * MIB, 10 * MIB)
    assert sample.lat_ns == {
        "min": 100_000,
        "max": 9_000_000,
        "mean": 390_500,
        "stddev": 12_000,
        "p50": 380_000,
        "p99": 700_000,
    }


HUMAN = """randwrite: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
...
fio-3.36
Starting 4 processes
randwrite: (groupid=0, jobs=1): err= 0: pid=10: Mon Nov 30 19:03:47 2026
  write: IOPS=2560, BW=10.0MiB/s (10.5MB/s)(100MiB/10000msec); 0 zone resets
    clat (usec): min=100, max=1500.5k, avg=390.50, stdev=12.00
randwrite: (groupid=0, jobs=1): err= 0: pid=11: Mon Nov 30 19:03:47 2026
  write: IOPS=5120, BW=20.0MiB/s (21.0MB/s)(200MiB/10000msec); 0 zone resets
    clat (msec): min=1, max=2, avg= 1.50, stdev= 0.10
"""
SUMMARY = """
Run status group 0 (all jobs):
  WRITE: bw=30.0MiB/s (31.5MB/s), 10.0MiB/s-20.0MiB/s (10.5MB/s-21.0MB/s), io=300MiB (315MB), run=10000-10000msec
"""


def test_jobs_of_a_human_report_are_added_up() -> None:
    (sample,) = parse_fio(HUMAN + SUMMARY).samples
    assert (sample.rw, sample.bytes, sample.seconds) == ("write", 300 * MIB, 10.0)
    assert sample.bw_bytes == pytest.approx(30 * MIB, rel=1e-3)
    assert sample.iops == 7680
    assert (sample.lat_ns["min"], sample.lat_ns["max"]) == (100_000, 1_500_500_000)


def test_a_human_report_that_lost_jobs_is_no_sum() -> None:
    assert not parse_fio(HUMAN).samples
    assert codes(HUMAN) == {"fio-incomplete"}


def test_a_damaged_block_gives_way_to_the_group_line() -> None:
    result = parse_fio(HUMAN.replace("(200MiB/10000msec)", "(200[   37.3] mmc0: x\nMiB/10000msec)") + SUMMARY)
    assert [sample.bytes for sample in result.samples] == [300 * MIB]
    assert result.samples[0].lat_ns == {}
    assert "fio-damaged" in {problem.code for problem in result.problems}


def test_contradicting_numbers_are_refused() -> None:
    lone = SUMMARY.replace("bw=30.0MiB/s (31.5MB/s)", "bw=80.0MiB/s (31.5MB/s)")
    assert not parse_fio(lone).samples
    assert "fio-incomplete" in codes(lone)


def test_error_in_a_human_report() -> None:
    text = """e: (groupid=0, jobs=1): err=28 (file:io_u.c:1876, func=io_u error, error=No space left on device): pid=1: Mon
  write: IOPS=100, BW=400KiB/s (410kB/s)(4096KiB/10240msec); 0 zone resets
"""
    assert not parse_fio(text).samples
    assert codes(text) == {"fio-error"}


def test_bits_per_second_and_decimal_base() -> None:
    bits = "  READ: bw=80.0Mibit/s (83.9Mbit/s), 80.0Mibit/s-80.0Mibit/s (83.9Mbit/s-83.9Mbit/s), io=100MiB (105MB), run=10000-10000msec"
    (sample,) = parse_fio(bits).samples
    assert sample.bw_bytes == pytest.approx(10 * MIB, rel=1e-3)
    decimal = "  READ: bw=10.0MB/s (9766KiB/s), 10.0MB/s-10.0MB/s (9766KiB/s-9766KiB/s), io=100MB (95.4MiB), run=10000-10000msec"
    (sample,) = parse_fio(decimal).samples
    assert (sample.bytes, sample.bw_bytes) == (100_000_000, pytest.approx(10_000_000, rel=1e-3))


def test_terse_lines_with_lost_or_damaged_fields_are_refused() -> None:
    line = body("fio-3.33-terse-v3.txt").strip()
    fields = line.split(";")
    for damaged in (
        line[: len(line) // 2],
        ";".join(fields[:100]),
        ";".join([*fields[:6], "6x685", *fields[7:]]),
    ):
        assert not parse_fio(damaged).samples
        assert codes(damaged) == {"fio-terse-broken"}


def fio(tmp_path: Path, *options: str) -> str:
    """Run the real fio on a file of its own; its output, standard error included."""
    target = tmp_path / "f"
    words = [
        "fio",
        "--name=j",
        f"--filename={target}",
        "--size=8M",
        "--runtime=300ms",
        "--time_based",
        "--end_fsync=1",  # what only got as far as the page cache is refused, and rightly
        *options,
    ]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return run.stderr + run.stdout


def test_every_format_of_one_real_run_says_the_same(tmp_path: Path) -> None:
    text = fio(tmp_path, "--rw=randrw", "--bs=4k", "--numjobs=2", "--output-format=normal,json,terse")
    (read, write) = parse_fio(text).samples  # told once, though it is printed three times
    assert (read.rw, write.rw) == ("read", "write")
    start, end = text.index("{"), text.rindex("}") + 1
    truth = json.loads(text[start:end])
    bandwidth = sum(job["read"]["bw_bytes"] for job in truth["jobs"])
    assert read.bw_bytes == bandwidth
    terse = "\n".join(line for line in text.splitlines() if line.startswith("3;fio"))
    human = text[end:]
    for piece in (terse, human):
        samples = parse_fio(piece).samples
        assert [sample.rw for sample in samples] == ["read", "write"]
        assert samples[0].bw_bytes == pytest.approx(bandwidth, rel=0.01)


@pytest.mark.parametrize("version", ["2", "3", "4", "5"])
def test_real_terse_of_each_version(tmp_path: Path, version: str) -> None:
    samples = parse_fio(
        fio(tmp_path, "--rw=rw", "--bs=4k", "--minimal", f"--terse-version={version}")
    ).samples
    assert [sample.rw for sample in samples] == ["read", "write"]
    assert all(sample.seconds is not None and 0.2 < sample.seconds < 20 for sample in samples)


@pytest.mark.parametrize("form", ["json", "normal"])
def test_real_status_interval_gives_the_final_report_only(tmp_path: Path, form: str) -> None:
    options = [
        "--rw=read",
        "--bs=4k",
        "--rate_iops=200",
        "--status-interval=1",
        f"--output-format={form}",
        "--runtime=2500ms",
    ]
    result = parse_fio(fio(tmp_path, *options))
    (sample,) = result.samples
    assert sample.seconds is not None
    assert 2.3 < sample.seconds < 20
    assert "fio-interim" in {problem.code for problem in result.problems}


@pytest.mark.parametrize("form", ["json", "normal"])
def test_real_trim_mixed_and_latency_options(tmp_path: Path, form: str) -> None:
    words = [
        "fio",
        "--name=t",
        "--ioengine=null",
        "--rw=randtrim",
        "--bs=64k",
        "--size=1G",
        f"--output-format={form}",
    ]
    words += ["--runtime=300ms", "--time_based"]
    (sample,) = parse_fio(
        subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    ).samples
    assert sample.rw == "trim"
    mixed = parse_fio(
        fio(tmp_path, "--rw=randrw", "--bs=16k", "--unified_rw_reporting=1", f"--output-format={form}")
    )
    assert [sample.rw for sample in mixed.samples] == ["mixed"]
    both = parse_fio(
        fio(tmp_path, "--rw=randrw", "--bs=16k", "--unified_rw_reporting=both", f"--output-format={form}")
    )
    assert [sample.rw for sample in both.samples] == ["read", "write"]
    lat = parse_fio(
        fio(
            tmp_path,
            "--rw=write",
            "--bs=4k",
            "--clat_percentiles=0",
            "--lat_percentiles=1",
            f"--output-format={form}",
        )
    )
    assert lat.samples[0].lat_ns["p99"] >= lat.samples[0].lat_ns["p50"] > 0


def test_real_failures_are_told() -> None:
    words = [
        "fio",
        "--name=e",
        "--filename=/dev/full",
        "--rw=write",
        "--bs=4k",
        "--size=1M",
        "--output-format=json",
    ]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    result = parse_any(run.stderr + run.stdout)
    assert not result.samples
    assert {"fio-error", "fio-message", "no-measurement"} <= {problem.code for problem in result.problems}


JOB_HEAD = "job: (groupid=0, jobs=1): err= 0: pid=1: Fri Oct  6 05:21:27 2017\n"


@pytest.mark.parametrize(
    ("line", "size", "seconds", "iops"),
    [
        # 3.1 printed 11.99 as 11.0, and 18.95k as 18.0k; 1048576 I/Os of 4 KiB
        (
            "write: IOPS=3068, BW=11.0MiB/s (12.6MB/s)(4096MiB/341704msec)",
            4096 * MIB,
            341.704,
            1048576 / 341.704,
        ),
        (
            "write: IOPS=18.0k, BW=74.0MiB/s (77.6MB/s)(4096MiB/55327msec)",
            4096 * MIB,
            55.327,
            1048576 / 55.327,
        ),
        (
            "write: IOPS=10.0k, BW=39.1MiB/s (41.0MB/s)(4096MiB/104857msec)",
            4096 * MIB,
            104.857,
            1048576 / 104.857,
        ),
    ],
)
def test_a_dropped_carry_is_known_by_the_numbers_beside_it(
    line: str, size: int, seconds: float, iops: float
) -> None:
    text = f"{JOB_HEAD}  {line}\n     issued rwt: total=0,1048576,0, short=0,0,0, dropped=0,0,0\n"
    (sample,) = parse_fio(text).samples
    assert (sample.bytes, sample.seconds) == (size, seconds)
    assert sample.bw_bytes == pytest.approx(size / seconds, rel=0.003)
    assert sample.iops == pytest.approx(iops, rel=1e-6)
    assert not parse_fio(text).problems


def test_a_dropped_carry_of_the_bytes() -> None:
    # 22.96 MiB in 2 s are 11.48 MiB/s or 12.04 MB/s; 22.0 MiB would be 11.0 MiB/s
    text = f"{JOB_HEAD}  write: IOPS=2938, BW=11.5MiB/s (12.0MB/s)(22.0MiB/2000msec)\n"
    (sample,) = parse_fio(text).samples
    assert sample.bytes == pytest.approx(22.96 * MIB, rel=0.003)
    assert sample.bw_bytes == pytest.approx(12.04e6, rel=0.005)


def test_lines_of_results_that_a_mail_program_wrapped() -> None:
    flowed = (
        "Run status group 0 (all jobs):\n   WRITE: bw=1091MiB/s (1144MB/s), 1091MiB/s-1091MiB/s \n"
        "(1144MB/s-1144MB/s), io=128GiB (137GB), run=120009-120009msec\n"
    )
    tabbed = (
        "Run status group 0 (all jobs):\n    READ: bw=21.8MiB/s (22.9MB/s), 21.8MiB/s-21.8MiB/s (22.9MB/s-22.9MB/s),\n"
        "\tio=6473MiB (6787MB), run=297008-297008msec\n"
    )
    (write,) = parse_fio(flowed).samples
    assert (write.rw, write.bytes, write.seconds) == ("write", 128 * 1024 * MIB, 120.009)
    (read,) = parse_fio(tabbed).samples
    assert (read.rw, read.bytes, read.seconds) == ("read", 6473 * MIB, 297.008)


def test_a_job_that_failed_where_its_message_is_wrapped() -> None:
    text = (
        "t: (groupid=0, jobs=1): err=14 (file:io_u.c:1976, func=io_u\nerror, error=Bad address): pid=112524: Mon\n"
        "  write: IOPS=100, BW=400KiB/s (410kB/s)(8000KiB/20000msec); 0 zone resets\n"
    )
    assert not parse_fio(text).samples
    assert codes(text) == {"fio-error"}


def test_code_with_a_two_and_a_semicolon_is_no_terse_line() -> None:
    assert codes("       mioc->num_of_cmds = 2;\n") == {"fio-no-output"}
    assert codes("2;job;0;0;1024;100\n") == {"fio-terse-broken"}


def test_runs_that_were_printed_at_other_times_are_not_added_up() -> None:
    before = (
        "Before:\njob0: (groupid=0, jobs=1): err= 0: pid=20876: Thu Jan 27 15:33:45 2022\n"
        "  write: IOPS=157, BW=19.7MiB/s (20.6MB/s)(1180MiB/60001msec); 0 zone resets\n"
    )
    after = (
        "After:\njob0: (groupid=0, jobs=1): err= 0: pid=12813: Thu Jan 27 15:50:46 2022\n"
        "  write: IOPS=168, BW=21.0MiB/s (22.0MB/s)(1260MiB/60001msec); 0 zone resets\n"
    )
    first, second = parse_any(before + after).samples
    assert (first.bytes, second.bytes) == (1180 * MIB, 1260 * MIB)
    assert (first.extra["section"], second.extra["section"]) == ("Before:", "After:")
    # jobs of one run, printed within a second
    (both,) = parse_any(before + after.replace("15:50:46", "15:33:46").replace("After:\n", "")).samples
    assert (both.bytes, both.extra["jobs"]) == (2440 * MIB, 2)


def test_a_negative_error_number_forbids_a_result() -> None:
    text = (
        "t: (groupid=0, jobs=1): err=-17024 (file:io_u.c:1889, func=io_u\nerror, error=Unknown error -17024): pid=2451:\n"
        "  read: IOPS=20.2k, BW=158MiB/s (165MB/s)(230MiB/1461msec)\n"
    )
    assert not parse_fio(text).samples
    assert codes(text) == {"fio-error"}


def test_lines_of_results_that_grep_picked() -> None:
    text = (
        "# grep IOPS *.fio\ndefault.1.fio:      read: IOPS=1017, BW=3974KiB/s (4070kB/s)(233MiB/60002msec)\n"
        "patched.1.fio:      read: IOPS=1050, BW=4102KiB/s (4200kB/s)(240MiB/60002msec)\n"
    )
    first, second = parse_fio(text).samples
    assert (first.job, first.rw, first.bytes, first.seconds) == ("default.1.fio", "read", 233 * MIB, 60.002)
    assert (second.job, second.rw, second.bytes, second.seconds) == (
        "patched.1.fio",
        "read",
        240 * MIB,
        60.002,
    )
    assert not parse_fio(text).problems
    # one of several jobs whose head is lost is no sum
    lost = "Starting 2 processes\n  read: IOPS=1017, BW=3974KiB/s (4070kB/s)(233MiB/60002msec)\n"
    assert codes(lost) == {"fio-damaged"}
    assert not parse_fio(lost).samples


def test_latency_of_2_0_with_blanks_before_the_commas() -> None:
    text = (
        "a: (groupid=0, jobs=1): err= 0: pid=2241: Tue Mar  4 10:00:00 2014\n"
        "  read : io=1024.0MB, bw=21845KB/s, iops=21, runt= 48000msec\n"
        "    clat (msec): min=33 , max=88 , avg=45.61, stdev= 3.12\n"
    )
    (sample,) = parse_fio(text).samples
    assert (sample.bytes, sample.seconds, sample.iops) == (1024 * MIB, 48.0, 21)
    assert sample.bw_bytes == pytest.approx(21845 * 1024, rel=1e-4)
    assert sample.lat_ns == {
        "min": 33e6,
        "max": 88e6,
        "mean": pytest.approx(45.61e6),
        "stddev": pytest.approx(3.12e6),
    }


@pytest.mark.parametrize("version", ["2.0.8", "fio 2.0.7", "fio-2.0.10"])
def test_terse_lines_name_the_version_in_several_ways(version: str) -> None:
    line = body("fio-3.33-terse-v3.txt").strip()
    (sample,) = parse_fio(line.replace("fio-3.33", version)).samples
    assert sample.bytes == parse_fio(line).samples[0].bytes
    assert sample.extra["fio_version"] == version
