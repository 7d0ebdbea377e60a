"""The watch on the console: a dying board is noticed by its own words, and by nothing else."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.board.console import BoardDied, Watch


def died(*chunks: bytes, restart_expected: bool = True) -> BoardDied | None:
    watch = Watch()
    watch.expect_restart = restart_expected
    for chunk in chunks:
        watch.feed(chunk)
    if not watch.dying:
        return None
    watch._fatal_at -= 10
    with pytest.raises(BoardDied) as caught:
        watch.check()
    watch.check()  # told once
    return caught.value


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"[   12.3] Kernel panic - not syncing: sysrq triggered crash", "kernel panic"),
        (b"[   12.3] Internal error: Oops: 0000000096000045 [#1] SMP", "kernel oops"),
        (b"Unable to handle kernel NULL pointer dereference at virtual address 0", "kernel oops"),
        (b"[   12.3] kernel BUG at drivers/mmc/core/core.c:123!", "kernel oops"),
        (b"[   60.1] rcu: INFO: rcu_preempt self-detected stall on CPU", "RCU stall"),
        (b"[   60.1] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "RCU stall"),
        (b"[  242.9] INFO: task mmcqd/0:123 blocked for more than 120 seconds.", "hung task"),
        (b"[   28.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [fio:99]", "lockup"),
        (b"[   28.0] watchdog: Watchdog detected hard LOCKUP on cpu 0", "lockup"),
        (b"[  242.9] INFO: task sync:99 blocked in I/O wait for more than 120 seconds.", "hung task"),
    ],
)
def test_kernel_messages_of_death(line: bytes, kind: str) -> None:
    found = died(line + b"\r\n")
    assert found is not None
    assert (found.kind, found.exit_code) == (kind, 3)


def test_a_death_split_over_reads_is_seen() -> None:
    found = died(b"[ 1.0] Kernel pa", b"nic - not syn", b"cing: Attempted to kill init!\n")
    assert found is not None
    assert found.kind == "kernel panic"


@pytest.mark.parametrize(
    "text",
    [
        b"panic=10 on the command line\n",
        b"[    0.0] rcu: Hierarchical RCU implementation.\n",
        b"[    2.2] sdhci-pci: watchdog timer started\n",
        b"[    1.2] mtk-wdt 10007000.watchdog: Watchdog enabled (timeout=31 sec, nowayout=0)\n",
        b"[    1.2] imx2-wdt 30280000.watchdog: timeout 60 sec (nowayout=0)\n",
        b"[    1.2] s3c2410-wdt 10060000.watchdog: watchdog inactive, reset disabled, irq disabled\n",
        b"[    0.1] NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.\n",
        b"Reset cause: watchdog reset\n",  # a bootloader, before the shell was up
        b"[    1.9] softdog: initialized\n",
        b"mmc0: error -110 whilst initialising SD card\n",
        b"\xff\xfe\x00\x1b[31m\n",
    ],
)
def test_ordinary_lines_are_no_death(text: bytes) -> None:
    assert died(text) is None


def test_a_restart_counts_only_when_the_shell_was_up() -> None:
    line = b"U-Boot 2023.01+dfsg-2 (Jan 01 2023 - 00:00:00 +0000)\r\n"
    assert died(line) is None
    found = died(line, restart_expected=False)
    assert found is not None
    assert found.kind == "unexpected restart"


def test_a_restart_by_the_watchdog_is_called_so() -> None:
    found = died(
        b"U-Boot 2023.01+dfsg-2 (Jan 01 2023 - 00:00:00 +0000)\r\n",
        b"DRAM:  2 GiB\r\nReset Status: Watchdog\r\n",
        restart_expected=False,
    )
    assert found is not None
    assert (found.kind, found.line) == ("watchdog reset", "Reset Status: Watchdog")


def test_mmc_errors_are_kept_with_the_lines_before_the_first_and_kill_nobody() -> None:
    watch = Watch()
    watch.expect_restart = False
    for number in range(200):
        watch.feed(b"[    1.0] line %d\r\n" % number)
    for _ in range(3):
        watch.feed(b"[    3.1] mmc0: Timeout waiting for hardware cmd interrupt.\r\n")
    watch.feed(b"[    3.2] mmc0: new high speed SDHC card at address 4567\r\n")
    watch.feed(b"[    3.3] I/O error, dev mmcblk0, sector 2048 op 0x0:(READ)\r\n")
    assert not watch.dying
    assert {kind: one.count for kind, one in watch.troubles.items()} == {"timeout": 3, "io-error": 1}
    first = watch.troubles["timeout"]
    assert first.line == "[    3.1] mmc0: Timeout waiting for hardware cmd interrupt."
    assert len(first.tail) == 100
    assert first.tail[:2] == ("[    1.0] line 101", "[    1.0] line 102")
    assert first.tail[-1] == first.line
    watch.log_to(None)
    assert watch.troubles == {}


def test_the_trace_behind_a_panic_is_kept_and_the_error_comes_within_five_seconds() -> None:
    watch = Watch()
    watch.feed(b"Kernel panic - not syncing: x\n")
    watch.check()  # not at once
    watch.feed(b"Call trace:\n dump_backtrace+0x0/0x1a0\n")
    began = time.monotonic()
    while time.monotonic() - began < 5:
        try:
            watch.check()
        except BoardDied as problem:
            assert problem.tail[-1] == " dump_backtrace+0x0/0x1a0"
            return
        time.sleep(0.05)
    pytest.fail("not noticed within five seconds")


def test_the_log_keeps_every_byte_and_the_tail_no_control_characters(tmp_path: Path) -> None:
    watch = Watch()
    watch.log_to(tmp_path / "deep" / "boot.log")
    data = b"\x1b[31mred\x1b[0m\x00\x07 text\r\n\xff\n"
    watch.feed(data)
    watch.log_to(None)
    assert (tmp_path / "deep" / "boot.log").read_bytes() == data
    assert list(watch.tail) == ["red text", "�"]


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_are_bounded_and_raise_nothing(chunks: list[bytes]) -> None:
    watch = Watch()
    for chunk in chunks:
        watch.feed(chunk)
    assert watch.bytes_read == sum(map(len, chunks))
    assert len(watch.tail) <= 100


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    watch = Watch()
    for _ in range(100):
        watch.feed(b"x" * 65536)
    assert len(watch._partial) <= 2 * 65536
