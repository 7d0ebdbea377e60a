"""EXT_CSD, ios, kernel lines, banners and tables beyond the corpus."""

from __future__ import annotations

import pytest

from farm.parse.dmesg import event_of, parse_dmesg
from farm.parse.extcsd import parse_extcsd
from farm.parse.ios import parse_ios
from farm.parse.kernel import parse_banner
from farm.parse.table import parse_table
from farm.parse.text import parse_any


def raw_register() -> bytearray:
    """An EXT_CSD of a 5.1 card; offsets typed from JESD84-B51 table 146."""
    data = bytearray(512)
    data[192] = 8  # EXT_CSD_REV
    data[212:216] = (0x00, 0x80, 0xE9, 0x00)  # SEC_COUNT 0x00e98000
    data[249:253] = (0x00, 0x02, 0x00, 0x00)  # CACHE_SIZE 512 kilobit
    data[267:270] = (1, 2, 3)  # PRE_EOL_INFO, life time A, life time B
    data[307], data[308] = 0x1F, 0x01  # CMDQ_DEPTH (minus one), CMDQ_SUPPORT
    data[15], data[33] = 1, 1  # CMDQ_MODE_EN, CACHE_CTRL
    data[185], data[196] = 3, 0x57  # HS_TIMING, DEVICE_TYPE
    data[254:262] = b"\x05\0\0\0\0\0\0\0"
    return data


@pytest.mark.parametrize("width", [1024, 64])
@pytest.mark.parametrize("upper", [False, True])
def test_raw_ext_csd(width: int, upper: bool) -> None:
    digits = raw_register().hex()
    digits = digits.upper() if upper else digits
    dump = "\n".join(digits[at : at + width] for at in range(0, 1024, width))
    ext_csd = parse_extcsd(f"# cat /sys/kernel/debug/mmc0/mmc0:0001/ext_csd\n{dump}\n# \n")
    assert ext_csd is not None
    assert (ext_csd.source, ext_csd.revision, ext_csd.mmc_version) == ("raw", "1.8", "5.1")
    assert (ext_csd.pre_eol, ext_csd.life_time_a, ext_csd.life_time_b) == (1, 2, 3)
    assert (ext_csd.sectors, ext_csd.size_bytes) == (0xE98000, 0xE98000 * 512)
    assert (ext_csd.cache_bytes, ext_csd.cache_on) == (64 * 1024, True)
    assert (ext_csd.cmdq_support, ext_csd.cmdq_depth, ext_csd.cmdq_enabled) == (True, 32, True)
    assert (ext_csd.hs_timing, ext_csd.card_type, ext_csd.firmware) == (3, 0x57, "05")


def test_cut_raw_ext_csd_is_none() -> None:
    assert parse_extcsd(raw_register().hex()[:1000]) is None
    assert parse_extcsd(raw_register().hex() + "00") is None
    assert parse_extcsd("deadbeef" * 10) is None


def test_newer_mmc_utils() -> None:
    text = """  Extended CSD rev 1.8 (MMC 5.1)
Card Supported Command sets [S_CMD_SET: 0x01]
Cache Size [CACHE_SIZE] is 8192 KiB
Control to turn the Cache ON/OFF [CACHE_CTRL]: 0x01
eMMC Firmware Version: 3AB6
eMMC Life Time Estimation A [EXT_CSD_DEVICE_LIFE_TIME_EST_TYP_A]: 0x01
eMMC Life Time Estimation B
[EXT_CSD_DEVICE_LIFE_TIME_EST_TYP_B]: 0x0b
eMMC Pre EOL information [EXT_CSD_PRE_EOL_INFO]: 0x01
Command Queue Support [CMDQ_SUPPORT]: 0x01
Command Queue Depth [CMDQ_DEPTH]: 16
Command Enabled [CMDQ_MODE_EN]: 0x00
"""
    ext_csd = parse_extcsd(text)
    assert ext_csd is not None
    assert (ext_csd.life_time_a, ext_csd.life_time_b, ext_csd.pre_eol) == (1, 11, 1)
    assert (ext_csd.cache_bytes, ext_csd.cache_on, ext_csd.firmware) == (8192 * 1024, True, "3AB6")
    assert (ext_csd.cmdq_support, ext_csd.cmdq_depth, ext_csd.cmdq_enabled) == (True, 16, False)


def test_last_of_several_ios_and_other_clocks() -> None:
    block = "clock:\t\t{} Hz\nvdd:\t\t0 (invalid)\nbus width:\t2 (4 bits)\ntiming spec:\t6 (sd uhs SDR104)\nsignal voltage:\t1 (1.80 V)\n"
    ios = parse_ios(block.format(400000) + block.format(208000000))
    assert ios is not None
    assert (ios.clock_hz, ios.actual_clock_hz, ios.width_bits, ios.timing) == (
        208000000,
        None,
        4,
        "sd uhs SDR104",
    )
    assert len(parse_any(block.format(1) + block.format(2)).facts["ios_all"]) == 2  # type: ignore[arg-type]
    assert parse_ios("clock: 12 Hz is what the crystal gives") is None
    assert parse_ios("") is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[    1.5] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100", "panic"),
        ("[    1.5] Internal error: Oops: 96000004 [#1] SMP", "oops"),
        ("[    1.5] Oops [#1]", "oops"),
        ("Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000", "oops"),
        ("[   60.1] rcu: INFO: rcu_sched self-detected stall on CPU", "rcu-stall"),
        ("[   60.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "rcu-stall"),
        ("[  242.6] INFO: task kworker/0:1H:45 blocked for more than 120 seconds.", "hung-task"),
        ("[   28.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [fio:123]", "lockup"),
        ("[   28.0] watchdog: watchdog0: watchdog did not stop!", "watchdog"),
        ("mmc1: Tuning failed, falling back to fixed sampling clock", "tuning-failed"),
        ("mmc0: new UHS-I speed SDR104 SDXC card at address aaaa", "new-card"),
        ("mmc0: Timeout waiting for hardware cmd interrupt.", "timeout"),
    ],
)
def test_single_lines(line: str, kind: str) -> None:
    event = event_of(line)
    assert event is not None
    assert event.kind == kind
    assert event.is_fatal == (kind in {"panic", "oops", "rcu-stall", "hung-task", "lockup", "watchdog"})


@pytest.mark.parametrize(
    "line",
    ["mmc0: Result: OK", "mwifiex_sdio mmc2:0001:1: PREP_CMD: card is removed", "# panic is what I felt", "a watchdog named Rex",
     "mtk-wdt 10007000.watchdog: Watchdog enabled (timeout=31 sec, nowayout=0)", "imx2-wdt 30280000.watchdog: timeout 60 sec (nowayout=0)",
     "s3c2410-wdt 10060000.watchdog: watchdog inactive, reset disabled, irq disabled",
     "mmc: sdhci-msm: Ensure SD card power isn't ON when card removed", "mmc0: SDHCI controller on fe310000.mmc using ADMA"],
)  # fmt: skip
def test_lines_that_are_no_event(line: str) -> None:
    assert event_of(line) is None


def test_flattened_and_journald_kernel_lines() -> None:
    flat = (
        "[    1.100000] mmc0: running CQE recovery [    1.200000] mmc0: cache flush error -110 " + "x" * 200
    )
    assert [(event.kind, event.seconds) for event in parse_dmesg(flat)] == [
        ("cqe-recovery", 1.1),
        ("flush-error", 1.2),
    ]
    (event,) = parse_dmesg("Nov 30 18:31:36 board kernel: mmc0: running CQE recovery\n")
    assert (event.kind, event.device) == ("cqe-recovery", "mmc0")


def test_banner_and_command_line() -> None:
    text = (
        "[    0.000000] Linux version 6.1.0-18-arm64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld"
        " (GNU Binutils for Debian) 2.40) #1 SMP Debian 6.1.76-1 (2024-02-01)\n"
        "[    0.000000] Kernel command line: console=ttyAMA0 root=/dev/vda\n"
    )
    banner = parse_banner(text)
    assert banner is not None
    assert (banner.release, banner.build) == ("6.1.0-18-arm64", "#1 SMP Debian 6.1.76-1 (2024-02-01)")
    assert parse_any(text).facts["cmdline"] == "console=ttyAMA0 root=/dev/vda"
    assert parse_banner("Linux is a kernel") is None


def test_table_without_unit_or_with_another_average() -> None:
    assert {problem.code for problem in parse_table("1) Random read:\nSpeed: 1 2 3\n").problems} == {
        "table-no-unit"
    }
    off = parse_table("1) Random read:\nSpeed: 10 20 30\nAverage speed: 25MB/s\n")
    assert [problem.code for problem in off.problems] == ["table-average-differs"]
    assert [sample.bw_bytes for sample in off.samples] == [10e6, 20e6, 30e6]


def test_a_clock_that_stands_alone_is_no_table() -> None:
    assert not parse_any("At\n12:34.56\nwe met.\n").samples


def test_bus_width_without_a_blank() -> None:
    ios = parse_ios(
        "clock:          200000000 Hz\nbus width:      3 (8bits)\ntiming spec:    9 (mmc HS200)\n"
    )
    assert ios is not None
    assert (ios.clock_hz, ios.width_bits, ios.timing) == (200000000, 8, "mmc HS200")


def test_kernel_lines_as_older_kernels_and_mails_have_them() -> None:
    padded = event_of("[   12.230808] mmcblk0: mmc0:59b4 USD   3.73 GiB")
    assert padded is not None
    assert (padded.kind, padded.detail["name"], padded.detail["size"]) == ("card", "USD", "3.73 GiB")
    plain = event_of("mmcblk1: mmc1:0001 DG4032 29.1 GiB")
    assert plain is not None
    assert (plain.detail["name"], plain.detail["size"]) == ("DG4032", "29.1 GiB")
    broken = event_of("> [5189290.191013] mmc1: new ultra high speed SDR104 SDXC card at address")
    assert broken is not None
    assert (broken.kind, broken.detail["speed"], broken.detail["type"]) == (
        "new-card",
        "ultra high speed SDR104",
        "SDXC",
    )
    status = event_of("[   22.907845] 000: mmcblk1: error -110 requesting status")
    assert status is not None
    assert (status.kind, status.device, status.detail["error"]) == ("transfer-error", "mmcblk1", "-110")
