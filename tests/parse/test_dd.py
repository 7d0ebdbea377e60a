"""dd and time: other builds than the corpus holds, damaged lines, progress, and the real tools of this machine."""

from __future__ import annotations

import subprocess

import pytest

from farm.parse.dd import block_size_of, parse_dd
from farm.parse.text import parse_any
from farm.parse.timing import parse_time

MIB = 1024**2


def only(text: str, block_size: int | None = None) -> tuple[int | None, float | None, str | None]:
    (sample,) = parse_dd(text, block_size).samples
    assert sample.bw_bytes == pytest.approx(sample.bytes / sample.seconds)  # type: ignore[operator]
    return sample.bytes, sample.seconds, sample.rw


def codes(text: str, block_size: int | None = None) -> list[str]:
    result = parse_dd(text, block_size)
    assert not result.samples
    return [problem.code for problem in result.problems]


@pytest.mark.parametrize(
    ("line", "size", "seconds"),
    [
        ("1 byte copied, 0.5 s, 0.0 kB/s", 1, 0.5),
        ("1 byte (1 B) copied, 0.5 s, 2 B/s", 1, 0.5),
        ("1048576 bytes (1.0 MB, 1.0 MiB) copied, 1.0512e-02 s, 99.7 MB/s", 1048576, 0.010512),
        ("67108864 bytes (67 MB, 64 MiB) copied, 0,114825 s, 584 MB/s", 67108864, 0.114825),
        ("67108864 Bytes (67 MB, 64 MiB) kopiert, 0,114825 s, 584 MB/s", 67108864, 0.114825),
        ("102400 octets (102 kB, 100 KiB) copiés, 0,164092 s, 624 kB/s", 102400, 0.164092),
        ("16 octets copiés, 0,05 s, 320 B/s", 16, 0.05),
        ("1782579200 バイト (1.8 GB) コピーされました、 333.563 秒、 5.3 MB/秒", 1782579200, 333.563),
        ("1073741824字节(1.1 GB)已复制，4.5 秒，239 MB/秒", 1073741824, 4.5),
        ("1073741824字节（1.1 GB，1.0 GiB）已复制，4.5 s，239 MB/s", 1073741824, 4.5),
        ("10485760 bytes (10 MB, 10 MiB) copiados, 0,5 s, 21,0 MB/s", 10485760, 0.5),
        ("10485760 byte (10 MB, 10 MiB) copiati, 0,5 s, 21,0 MB/s", 10485760, 0.5),
        ("1073741824 bytes (1.0GB) copied, 5.421000 seconds, 188.9MB/s", 1073741824, 5.421),
        ("1048576000 bytes (0.9 G) copied, 3.912249 s, 256 M/s", 1048576000, 3.912249),
        ("8192 bytes (8.0 K) copied, 0.100 s, 80 K/s", 8192, 0.1),
        ("104857600 bytes transferred in 0.500 secs (209715200 bytes/sec)", 104857600, 0.5),
        ("104857600 bytes transferred in 0.500000 seconds", 104857600, 0.5),
        ("512 bytes (512 B) copied, 0.0832209 s, 6.2 kB/s", 512, 0.0832209),
    ],
)
def test_lines(line: str, size: int, seconds: float) -> None:
    assert only(f"1+0 records in\n1+0 records out\n{line}\n")[:2] == (size, seconds)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("0 bytes (0 B) copied, 0.001 s, 0 B/s", "dd-zero-bytes"),
        ("1048576 bytes (1.0 MB) copied, 0 s, Infinity B/s", "dd-zero-seconds"),
        ("1048576 bytes (1.0 M) copied, 0.000 s, 0.0 M/s", "dd-zero-seconds"),
        # digits lost or changed on the serial line
        ("521564 bytes (2.1 G) copied, 37.124446 s, 59 M/s", "dd-inconsistent"),
        ("2296521564 bytes (2.1 G) copied, 7.124446 s, 59 M/s", "dd-inconsistent"),
        ("2296521564 bytes (2.1 G) copied, 371.24446 s, 59 M/s", "dd-inconsistent"),
        ("1021592274 bytes transferred in 48.752682 secs (2124985 bytes/sec)", "dd-inconsistent"),
    ],
)
def test_lines_without_a_measurement(line: str, code: str) -> None:
    assert code in codes(f"1+0 records in\n1+0 records out\n{line}\n")


@pytest.mark.parametrize(
    "printk",
    ["[   37.369462] mmc0: running CQE recovery\n", "mmc0: Timeout waiting for hardware interrupt.\n"],
)
def test_printk_in_the_middle_of_the_line(printk: str) -> None:
    text = f"2048000+0 records in\n2048000+0 records out\n1048576000 bytes (0.9 G) copied, 3.91{printk}2249 s, 256 M/s\n"
    assert codes(text) == ["dd-bytes-unknown"]
    before = f"2048000+0 records in\n{printk}2048000+0 records out\n{printk}1048576000 bytes (0.9 G) copied, 3.912249 s, 256 M/s\n"
    assert only(before)[:2] == (1048576000, 3.912249)


def test_records_and_block_size_and_time() -> None:
    text = "64+0 records in\n64+0 records out\nreal 0.50\nuser 0.00\nsys 0.00\n"
    assert only(text, MIB) == (64 * MIB, 0.5, None)
    assert codes(text) == ["dd-bytes-unknown"]
    assert codes("64+0 records in\n64+0 records out\n", MIB) == ["dd-no-time"]
    assert codes("64+0 records in\n64+0 records out\nreal\t0m 0.00s\nuser\t0m 0.00s\n", MIB) == [
        "dd-zero-seconds"
    ]
    assert codes("64+1 records in\n64+1 records out\nreal\t0m 1.00s\nuser\t0m 0.00s\n", MIB) == [
        "dd-bytes-unknown"
    ]
    assert codes("0+0 records in\n0+0 records out\nreal\t0m 1.00s\nuser\t0m 0.00s\n", MIB) == [
        "dd-zero-bytes"
    ]
    assert codes("64+0 records in\n", MIB) == ["dd-incomplete"]


def test_the_command_that_is_shown_says_block_size_and_direction() -> None:
    text = "~ # time dd bs=128k if=/dev/mmcblk0 of=/dev/null count=8\n8+0 records in\n8+0 records out\nreal\t0m 0.25s\nuser\t0m 0.00s\n"
    assert only(text, 512) == (MIB, 0.25, "read")
    wrapped = text.replace(" of=", "\nof=")
    assert only(wrapped) == (MIB, 0.25, "read")
    assert only(text.replace("if=/dev/mmcblk0 of=/dev/null", "if=/dev/zero of=/data/x")) == (
        MIB,
        0.25,
        "write",
    )
    other = text.replace("8+0 records in", "~ # ./script\n8+0 records in")
    assert codes(other) == ["dd-bytes-unknown"], "what another command printed has no known block size"


def test_bytes_must_fit_the_records_of_the_command() -> None:
    text = "# dd if=a of=/dev/null bs=1M\n64+0 records in\n64+0 records out\n{} bytes (67 MB, 64 MiB) copied, 1 s, 67 MB/s\n"
    assert only(text.format(67108864))[0] == 67108864
    assert codes(text.format(67108865)) == ["dd-inconsistent"]


@pytest.mark.parametrize(
    ("operands", "size"),
    [("", 512), ("bs=4k", 4096), ("bs=1M", MIB), ("bs=1MB", 1_000_000), ("bs=2x512", 1024), ("bs=8KiB", 8192), ("obs=3w", 6),
     ("bs=1MiB", MIB), ("bs=8b", 4096), ("bs=$BS", None), ("bs=0", None), ("bs=4q", None)],
)  # fmt: skip
def test_block_sizes(operands: str, size: int | None) -> None:
    assert block_size_of(dict([operands.split("=")]) if operands else {}) == size


def test_an_error_forbids_the_value() -> None:
    text = "dd: error reading '/dev/mmcblk0': Input/output error\n10+0 records in\n10+0 records out\n10485760 bytes (10 MB, 10 MiB) copied, 1 s, 10.5 MB/s\n"
    assert codes(text) == ["dd-error"]
    busybox = "dd: can't open '/dev/x': No such file or directory\n"
    assert codes(busybox) == ["dd-error"]
    after = "# dd if=/dev/zero of=/x\n1+0 records in\n1+0 records out\n512 bytes copied, 0.5 s, 1.0 kB/s\n# dd if=/nope\ndd: failed to open '/nope': No such file\n"
    result = parse_dd(after)
    assert len(result.samples) == 1
    assert [problem.code for problem in result.problems] == ["dd-error"]


def test_progress_is_no_result() -> None:
    text = (
        "\r1048576000 bytes (1.0 GB, 1000 MiB) copied, 1 s, 1.0 GB/s\r2097152000 bytes (2.1 GB, 2.0 GiB) copied, 2 s, 1.0 GB/s"
        "\n3000+0 records in\n3000+0 records out\n3145728000 bytes (3.1 GB, 2.9 GiB) copied, 3.1 s, 1.0 GB/s\n"
    )
    result = parse_dd(text)
    assert [(sample.bytes, sample.seconds) for sample in result.samples] == [(3145728000, 3.1)]


TIMES = [
    ("real\t0m8.659s\nuser\t0m0.001s\nsys\t0m1.920s\n", 8.659),
    ("real\t0m 39.78s\nuser\t0m 0.00s\nsys\t0m 0.00s\n", 39.78),
    ("real\t1h 2m 03s\nuser\t0m 0.00s\nsys\t0m 0.00s\n", 3723.0),
    ("real 12.50\nuser 0.00\nsys 0.10\n", 12.5),
    ("real\t0.404\nuser\t0.712\nsys\t0.000\n", 0.404),
    ("    1m02.50s real     0m00.00s user     0m00.00s system\n", 62.5),
    ("0.00user 0.10system 0:06.01elapsed 1%CPU (0avgtext+0avgdata 908maxresident)k\n", 6.01),
    ("0.00user 0.10system 1:00:06elapsed 1%CPU\n", 3606.0),
    ("dd  0.00s user 0.01s system 50% cpu 6.010 total\n", 6.01),
    ("real\t0m8,659s\nuser\t0m0,001s\n", 8.659),
]


@pytest.mark.parametrize(("text", "seconds"), TIMES)
def test_time_forms(text: str, seconds: float) -> None:
    (sample,) = parse_time(text).samples
    assert sample.seconds == pytest.approx(seconds)
    assert only("8+0 records in\n8+0 records out\n" + text, 512)[:2] == (4096, pytest.approx(seconds))


def test_plain_words_are_no_time() -> None:
    for text in (
        "it took real 3 days\n",
        "the real 5.0 user space\n" * 0,
        "time into account\n",
        "total 48\n",
        "real fast\n",
    ):
        assert not parse_time(text).samples
    assert not parse_any("real\t0m 0.00s\nuser\t0m 0.00s\nsys\t0m 0.00s\n").samples


SHELLS = [["bash", "-c"], ["busybox", "sh", "-c"], ["dash", "-c"], ["mksh", "-c"]]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("dd", ["dd", "busybox dd", "dd status=noxfer"])
@pytest.mark.parametrize("time", ["time", "time -p"])
def test_real_shells_and_dd(shell: list[str], dd: str, time: str) -> None:
    """Real dd and real shells; where dd prints no bytes and no time, both come from records and the shell."""
    line = f"{time} sh -c 'sleep 0.3; {dd} if=/dev/zero of=/dev/null bs=64k count=16'"
    run = subprocess.run([*shell, line], capture_output=True, text=True, timeout=30, check=True)
    (sample,) = parse_dd(run.stdout + run.stderr, 65536).samples
    assert sample.bytes == 1048576
    assert sample.seconds is not None
    if "copied" not in run.stderr:  # busybox sh takes its own dd, which prints records only
        assert 0.25 <= sample.seconds < 25
    else:
        assert sample.seconds < 0.25
        assert isinstance(sample.extra["real_s"], float)
        assert 0.25 <= sample.extra["real_s"] < 25


def test_sizes_that_the_shell_works_out() -> None:
    text = (
        "# dd if=/dev/zero of=/dev/mmcblk0 count=$((2*1024*1024/4096)) bs=4k\n512+0 records in\n512+0 records out\n"
        "2097152 bytes (2.1 MB, 2.0 MiB) copied, 0.0539398 s, 38.9 MB/s\n"
    )
    assert only(text) == (2 * MIB, 0.0539398, "write")
    spaced = text.replace("count=$((2*1024*1024/4096))", "count=$((2 * 256))")
    assert only(spaced) == (2 * MIB, 0.0539398, "write")
    unknown = text.split("2097152")[0].replace("bs=4k", "bs=$((4 * 1024))") + "real 0.50\nuser 0.00\n"
    assert codes(unknown) == ["dd-bytes-unknown"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("        6.01 real         0.00 user         0.01 sys\n", [6.01]),
        ("0.004u 1.230s 0:21.35 5.7% 0+0k 0+0io 0pf+0w\n", [21.35]),
        ("0.004u 1.230s 1:02:03.50 5.7%\t0+0k 0+0io 0pf+0w\n", [3723.5]),
        ("\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:06.01\n", [66.01]),
        ("    0m06.01s real     0m00.00s user     0m00.01s system\n", [6.01]),
        ("real\t0m1.533s\nreal\t0m1.133s\nreal\t0m6.431s\n", [1.533, 1.133, 6.431]),
        ("real\t0m1.5s\nuser\t0m0.1s\nsys\t0m0.2s\nreal\t0m2.5s\nuser\t0m0.1s\nsys\t0m0.2s\n", [1.5, 2.5]),
    ],
)
def test_forms_of_time(text: str, seconds: list[float]) -> None:
    assert [sample.seconds for sample in parse_time(text).samples] == seconds


def test_equals_signs_beside_a_quoted_printable_mail() -> None:
    text = (
        "dd if=/dev/zero of=/mnt/a count=2621440 bs=4096\n2621440+0 records in\n2621440+0 records out\n"
        "10737418240 bytes (11 GB, 10 GiB) copied, 5.01608 s, 2.1 GB/s\n\nContent-Type: text/plain; charset=3Dutf-8=\n\n"
        "# dd if=3D/dev/mmcblk0 of=3D/dev/null bs=3D1M coun=\nt=3D64\n64+0 records in\n64+0 records out\n"
        "67108864 bytes (67 MB, 64 MiB) copied, 0.5 s, 134=\n MB/s\n"
    )
    first, second = parse_dd(text).samples
    assert (first.bytes, first.seconds, first.extra["bs"]) == (10737418240, 5.01608, 4096)
    assert (second.bytes, second.seconds, second.rw, second.extra["bs"]) == (64 * MIB, 0.5, "read", MIB)


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("Before(randread)", "Before(randread)"),
        ("With bfq, I get:", "With bfq, I get:"),
        ("with ESMTP id S229913AbjC2UrN (ORCPT", None),
        ("With this support, I sign-up for writing the testcases for the", None),
        ("with the test device size.", None),
    ],
)
def test_headings(line: str, section: str | None) -> None:
    text = f"{line}\n1048576 bytes (1.0 MB) copied, 0.5 s, 2.1 MB/s\n"
    (sample,) = parse_any(text).samples
    assert sample.extra.get("section") == section


def test_zsh_names_the_command_in_its_time() -> None:
    text = (
        "% time dd if=/dev/mmcblk0 of=/dev/null bs=1M count=64\n64+0 records in\n64+0 records out\n"
        "67108864 bytes (67 MB, 64 MiB) copied, 0.5 s, 134 MB/s\n"
        "dd if=/dev/mmcblk0 of=/dev/null bs=1M count=64  0.00s user 0.02s system 98% cpu 0.523 total\n"
    )
    (sample,) = parse_any(text).samples
    assert (sample.tool, sample.bytes, sample.seconds, sample.extra["real_s"]) == ("dd", 64 * MIB, 0.5, 0.523)
