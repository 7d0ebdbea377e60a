"""What a trial printed becomes samples or a reason, and never a number in doubt."""

import json

from pydantic import TypeAdapter

from farm.board.batch import JobResult
from farm.runner.judge import judge
from farm.workload.model import Workload

ADAPTER: TypeAdapter[Workload] = TypeAdapter(Workload)
FIO = ADAPTER.validate_python(
    {
        "tool": "fio",
        "name": "randread-4k",
        "rw": "randread",
        "bs": "4k",
        "size": "16M",
        "runtime": "1s",
        "timeout": 60,
        "floor": 0.5,
    }
)
DD = ADAPTER.validate_python(
    {"tool": "dd", "name": "dd-read-1M", "rw": "read", "bs": "1M", "size": "32M", "timeout": 60, "floor": 0.1}
)


def fio_json(**changes) -> bytes:
    """A fio 3.33 document of one randread job, typed down to what is needed: 1000 reads of 4 KiB in one second."""
    read = {
        "io_bytes": 4096000, "bw_bytes": 4096000, "bw": 4000, "iops": 1000.0, "runtime": 1000, "total_ios": 1000,
        "clat_ns": {"min": 500000, "max": 9000000, "mean": 950000.0, "stddev": 1.0, "N": 1000, "percentile": {"99.000000": 2000000}},
    } | changes  # fmt: skip
    job = {
        "jobname": "randread-4k",
        "groupid": 0,
        "error": 0,
        "job options": {"rw": "randread", "bs": "4k"},
        "read": read,
    }
    disk = [{"name": "mmcblk0", "read_ios": 1000, "write_ios": 0}]
    return json.dumps({"fio version": "fio-3.33", "jobs": [job], "disk_util": disk}).encode()


def result(out: bytes, **changes) -> JobResult:
    given = {"id": "0", "rc": 0, "started": 10.0, "seconds": 1.5, "raw": {"out": out}}
    return JobResult(**{**given, **changes})


def judged(workload, done: JobResult):
    return judge(workload, 0, done, "command", 1000.0, "mmcblk0")


def test_a_good_fio_trial_has_samples_in_base_units() -> None:
    trial = judged(FIO, result(fio_json())).trial
    samples = {(one.rw, one.metric): one.value for one in trial.samples}
    assert (trial.status, trial.reason) == ("ok", "")
    assert samples["read", "bw_bytes"] == 4096000
    assert samples["read", "iops"] == 1000
    assert samples["read", "seconds"] == 1.0
    assert samples["read", "lat_p99_ns"] == 2000000
    assert trial.raw == {"out": fio_json()}


def test_a_good_dd_trial_comes_from_bytes_and_seconds_not_from_a_printed_rate() -> None:
    out = b"+ dd if=/dev/mmcblk0p1 of=/dev/null bs=1M count=32\n32+0 records in\n32+0 records out\nreal 0m0.500000s\n"
    samples = {one.metric: one.value for one in judged(DD, result(out)).trial.samples}
    assert samples["bytes"] == 33554432
    assert samples["bw_bytes"] == 67108864


def test_what_is_no_measurement_has_a_reason_and_no_samples() -> None:
    cases = [
        (
            FIO,
            result(b"", skipped="a line before it failed with exit status 1"),
            "failed",
            "not run: a line before",
        ),
        (FIO, result(b"", rc=143, timed_out=True), "failed", "hung: no end within 60 s"),
        (
            FIO,
            result(b"fio: pid=0, err=2/file:filesetup.c:777, error=No such file\n", rc=1),
            "failed",
            "exit status 1: fio: pid=0",
        ),
        (FIO, result(fio_json()[:-40]), "void", "no measurement: "),
        (FIO, result(fio_json(total_ios=0, io_bytes=0, bw_bytes=0, iops=0)), "void", "no measurement: "),
        (
            FIO,
            result(fio_json(runtime=200, bw_bytes=20480000)),
            "void",
            "ran 0.200 s, shorter than its floor of 0.5 s",
        ),
        (DD, result(b"32+0 records in\n32+0 records out\n"), "void", "no measurement: "),
        (FIO, result(fio_json(), cut=frozenset({"out"})), "void", "it printed more than is kept"),
    ]
    for workload, done, status, reason in cases:
        trial = judged(workload, done).trial
        assert (trial.status, trial.samples) == (status, ()), trial
        assert trial.reason.startswith(reason), trial.reason


def test_no_io_on_the_device_is_void() -> None:
    document = json.loads(fio_json())
    document["disk_util"][0]["read_ios"] = 0
    trial = judged(FIO, result(json.dumps(document).encode())).trial
    assert trial.status == "void"
    assert trial.samples == ()


def test_kernel_errors_during_a_trial_become_events() -> None:
    kernel = b"[  422.976583] mmc0: running CQE recovery\n[    4.168317] mmc0: Command Queue Engine enabled\n"
    found = judged(FIO, result(fio_json(), raw={"out": fio_json(), "kernel": kernel}))
    assert [event["kind"] for event in found.events] == ["cqe-recovery"]
    assert found.trial.status == "ok"


def test_a_trial_through_which_the_kernel_came_in_trouble_is_no_number() -> None:
    line = b"[  242.9] INFO: task fio:99 blocked for more than 120 seconds.\n"
    found = judged(FIO, result(fio_json(), raw={"out": fio_json(), "kernel": line}))
    assert (found.trial.status, found.trial.samples) == ("void", ())
    assert found.trial.reason == (
        "hung task while it ran: [  242.9] INFO: task fio:99 blocked for more than 120 seconds."
    )
    assert [event["kind"] for event in found.events] == ["hung-task"]


def test_an_mmc_error_is_on_record_beside_the_number() -> None:
    line = b"[   12.9] mmc0: Timeout waiting for hardware interrupt.\n"
    found = judged(FIO, result(fio_json(), raw={"out": fio_json(), "kernel": line}))
    assert found.trial.status == "ok"
    assert [event["kind"] for event in found.events] == ["timeout"]
