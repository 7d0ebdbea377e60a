"""Facts of a boot from the probe's output; the disk's mounts come from device numbers, not from names."""

import contextlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.board.facts import parse_probe, probe_script
from farm.errors import BoardError

PROBE = """\
@@ disks
mmcblk1
@@ refused
queue/read_ahead_kb=banana
@@ clock
1764743130
@@ memory
MemTotal:        2030588 kB
@@ tools
fio
dd
@@ partitions
mmcblk1p1 1 2048 1048576
mmcblk1p2 2 1050624 524288
@@ devs
mmcblk1 179:8
mmcblk1p1 179:9
mmcblk1p2 179:10
@@ holders
mmcblk1p2
@@ mmclines
[    1.234567] mmc1: new HS200 MMC card at address 0001
@@ files
/proc/version:Linux version 6.1.0-37-arm64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP Debian 6.1.140-1
/proc/cmdline:console=ttyS2,1500000 root=/dev/mmcblk0p3
/proc/uptime:12.34 40.00
/proc/swaps:Filename				Type		Size		Used		Priority
/proc/swaps:/dev/mmcblk0p2                          partition	524284		0		-2
/proc/self/mountinfo:22 1 0:21 / / rw - overlay overlayfs:/overlay rw
/proc/self/mountinfo:23 22 179:9 / /rom ro,relatime - ext4 /dev/root ro
/proc/self/mountinfo:24 22 179:99 / /boot rw - vfat /dev/mmcblk0p1 rw
/proc/self/mountinfo:25 22 0:40 / /data rw - btrfs /dev/mmcblk1p2 rw
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:performance
/sys/class/thermal/thermal_zone0/temp:45000
/sys/class/thermal/thermal_zone1/temp:47500
/sys/block/mmcblk1/size:2097152
/sys/block/mmcblk1/ro:0
/sys/block/mmcblk1/queue/scheduler:none [mq-deadline] kyber
/sys/block/mmcblk1/queue/read_ahead_kb:1024
/sys/kernel/debug/mmc1/ios:clock:\t\t200000000 Hz
/sys/kernel/debug/mmc1/ios:actual clock:\t198000000 Hz
/sys/kernel/debug/mmc1/ios:vdd:\t\t18 (3.0 ~ 3.1 V)
/sys/kernel/debug/mmc1/ios:bus width:\t3 (8 bits)
/sys/kernel/debug/mmc1/ios:timing spec:\t9 (mmc HS200)
/sys/kernel/debug/mmc1/ios:signal voltage:\t1 (1.80 V)
cid:aa5859514d552120100000000000b300
date:02/2006
name:QEMU!
type:SD
@@ end
"""


def test_every_fact_with_its_unit() -> None:
    facts = parse_probe(PROBE.replace("\n", "\r\n"))
    values = facts.values
    assert values["banner"].startswith("Linux version 6.1.0-37-arm64 (debian-kernel")
    assert values["memory_bytes"] == 2030588 * 1024
    assert values["temperature_c"] == 47.5
    assert values["uptime_s"] == 12.34
    assert (values["scheduler"], values["read_ahead_kb"], values["governor"]) == (
        "mq-deadline",
        1024,
        "performance",
    )
    assert (values["ios.timing"], values["ios.width_bits"]) == ("mmc HS200", 8)
    assert (values["ios.clock_hz"], values["ios.actual_clock_hz"]) == (200_000_000, 198_000_000)
    assert values["card.cid"] == "aa5859514d552120100000000000b300"
    assert values["disk_bytes"] == 1 << 30
    assert facts.tools == {"fio", "dd"}
    assert facts.refused_knobs == ("queue/read_ahead_kb=banana was refused",)
    assert facts.mmc_lines == ("[    1.234567] mmc1: new HS200 MMC card at address 0001",)


def test_mounts_follow_device_numbers_whatever_the_source_is_called() -> None:
    disk = parse_probe(PROBE).disk
    assert disk.mounts == (("/dev/mmcblk1p1", "/rom"), ("/dev/mmcblk1p2", "/data"))
    assert [(p.node, p.number, p.start, p.size, p.held) for p in disk.partitions] == [
        ("/dev/mmcblk1p1", 1, 1 << 20, 512 << 20, False),
        ("/dev/mmcblk1p2", 2, 513 << 20, 256 << 20, True),
    ]


def test_facts_that_did_not_arrive_whole_are_an_error() -> None:
    with pytest.raises(BoardError, match="did not arrive whole"):
        parse_probe(PROBE.removesuffix("@@ end\n"))


def test_the_cards_date_of_manufacture_is_not_the_boards_clock() -> None:
    facts = parse_probe(PROBE)
    assert (facts.values["card.date"], facts.values["clock_s"]) == ("02/2006", 1764743130)


@given(st.text())
def test_hostile_text_raises_nothing_else(text: str) -> None:
    with contextlib.suppress(BoardError):
        parse_probe(text + "\n@@ version\nx\n@@ end\n")


@pytest.mark.parametrize(
    "shell", [["dash"], ["bash"], ["mksh"], ["busybox", "ash"]], ids=lambda argv: argv[-1]
)
def test_the_probe_runs_in_every_shell_and_writes_no_knob_without_a_disk(shell, tmp_path) -> None:
    script = probe_script(
        "no such controller; $(reboot)", {"queue/read_ahead_kb": "128", "/sys/none/x": "a'b"}
    )
    done = subprocess.run([*shell, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    facts = parse_probe(done.stdout)
    assert facts.disk.candidates == ()
    assert facts.refused_knobs == ()
    assert str(facts.values["banner"]).startswith("Linux version ")
    assert list(tmp_path.iterdir()) == []
