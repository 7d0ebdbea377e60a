"""A twin is its real board with other addresses: the keys in which their env files may differ, and nothing else may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from farm.fleet import env
from farm.fleet.env import Fastboot

ENVS = Path(__file__).parents[2] / "envs"
TWINS = {
    "virt-rk3568": "rk3568-evb",
    "virt-mt8395": "mt8395-genio-1200-evk",
    "virt-th1520": "th1520-licheepi4a",
}

# Resources of one purpose: which of them it is may differ, what they have in common (such as a line's speed) may not.
PURPOSES = {
    "NetworkPowerPort": "power",
    "PDUDaemonPort": "power",
    "HIDRelay": "power",
    "RawSerialPort": "serial",
    "USBSerialPort": "serial",
    "AndroidNetFastboot": "fastboot",
    "AndroidUSBFastboot": "fastboot",
}

# Why each may differ is said once, here.
EVERY_TWIN = {
    # where things are plugged in
    "targets.main.resources.power.*",
    "targets.main.resources.serial.kind",
    "targets.main.resources.serial.port",
    "targets.main.resources.serial.match.*",
    "targets.remote.resources.RemotePlace.name",
    # services of a real userland are still at work when the prompt comes
    "targets.*.drivers.ShellDriver.post_login_settle_time",
    # QEMU's card and host controller
    "farm.disk.*",
    "farm.scratch.raw.*",
    "farm.scratch.files.partition",
    "farm.scratch.files.start",
    "farm.scratch.files.size",
    "farm.scratch.files.filesystem",
    "farm.write_rate",
    # Debian's kernels need modules from the initrd; QEMU hands over its device tree
    "images.*",
    "farm.golden.*",
    "farm.modules",
    # another memory map, and another UART
    "farm.flash.load.*",
    "farm.args",
    # how long things take
    "farm.boot_seconds",
    "farm.off_seconds",
    # that it is virtual, and shares the host's CPUs
    "farm.soc",
    "farm.synthetic",
    "farm.measure_alone",
    "farm.at_once",
    "farm.virtual.*",
}
FASTBOOT = {
    # the lab's stand-in on the boards' network; Debian's U-Boot has no command that starts it, and reads by virtio
    "targets.*.resources.fastboot.*",
    "farm.flash.enter",
    "farm.flash.read",
    "farm.flash.partitions.dtb",
    # the real board's power switch needs a driver of its own
    "targets.*.drivers.NetworkPowerDriver",
}
ONE_TWIN = {
    "virt-rk3568": {
        "targets.*.resources.TFTPProvider.*",
        "targets.*.drivers.ShellDriver.prompt",
        "farm.flash.interface",
        "farm.flash.slots.*",
    },
    "virt-mt8395": {*FASTBOOT, "targets.*.drivers.PDUDaemonDriver"},
    "virt-th1520": {
        *FASTBOOT,
        "targets.*.drivers.HIDRelayDriver",
        "targets.*.drivers.DigitalOutputPowerDriver.delay",
        "targets.*.drivers.UBootDriver.prompt",  # the vendor's U-Boot has one of its own
        "farm.flash.partitions.initrd",
    },
}


class _Loader(yaml.SafeLoader):
    """YAML as labgrid reads it, its templates as plain text."""


_Loader.add_constructor("!template", lambda loader, node: loader.construct_scalar(node))


def flat(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf with its path; labgrid's lists of one-key mappings count as mappings."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and len(one) == 1 for one in value):
        value = {name: content for one in value for name, content in one.items()}
        if at.endswith(".resources"):
            value = {
                PURPOSES.get(name, name): {**content, "kind": name} if name in PURPOSES else content
                for name, content in value.items()
            }
    if isinstance(value, dict) and value:
        for name, content in value.items():
            yield from flat(content, f"{at}.{name}" if at else str(name))
    else:
        yield at, value


def differences(twin: str, real: str) -> set[str]:
    """The paths in which two env files differ."""
    one, other = (dict(flat(yaml.load(text, _Loader))) for text in (twin, real))
    nothing = object()
    return {path for path in {*one, *other} if one.get(path, nothing) != other.get(path, nothing)}


def may_differ(name: str) -> set[str]:
    return EVERY_TWIN | ONE_TWIN[name]


def forbidden(name: str, twin: str, real: str) -> list[str]:
    """The differences that are not on the list."""
    return sorted(
        path
        for path in differences(twin, real)
        if not any(fnmatchcase(path, pattern) for pattern in may_differ(name))
    )


def text(name: str) -> str:
    return (ENVS / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_differs_from_its_board_only_where_it_may(name: str) -> None:
    assert forbidden(name, text(name), text(TWINS[name])) == []


@pytest.mark.parametrize("name", TWINS)
def test_the_list_names_nothing_that_does_not_differ(name: str) -> None:
    found = differences(text(name), text(TWINS[name]))
    assert [
        pattern for pattern in ONE_TWIN[name] if not any(fnmatchcase(path, pattern) for path in found)
    ] == []
    everywhere = {path for twin, real in TWINS.items() for path in differences(text(twin), text(real))}
    assert [
        pattern for pattern in EVERY_TWIN if not any(fnmatchcase(path, pattern) for path in everywhere)
    ] == []


@pytest.mark.parametrize(
    ("name", "was", "becomes", "complaint"),
    [
        ("virt-rk3568", "method: uboot-write", "method: netboot", "farm.flash.method"),
        ("virt-rk3568", "speed: 1500000", "speed: 115200", "targets.main.resources.serial.speed"),
        ("virt-rk3568", "board: rk3568", "board: rk3588", "farm.tags.board"),
        ("virt-rk3568", "device: 0\n", "device: 1\n", "farm.flash.device"),
        ("virt-mt8395", "'console:/ # '", "'# '", "targets.main.drivers.ShellDriver.prompt"),
        ("virt-mt8395", "{kernel: kernel, initrd", "{kernel: boot, initrd", "farm.flash.partitions.kernel"),
        ("virt-mt8395", "sparse_size: 16M", "sparse_size: 8M", "targets.main.drivers.AndroidFastbootDriver"),
        ("virt-mt8395", "  golden:", "  quarantine_after: 9\n  golden:", "farm.quarantine_after"),
        ("virt-th1520", "arch: riscv64}", "arch: arm64}", "farm.tags.arch"),
        ("virt-th1520", "      - AndroidFastbootDriver: {}\n", "", "targets.main.drivers.AndroidFastboot"),
        ("virt-th1520", "mount: /mnt/scratch", "mount: /mnt", "farm.scratch.files.mount"),
        ("virt-th1520", "- farm.board", "- labgrid", "imports"),
    ],
)
def test_any_other_difference_is_found(name: str, was: str, becomes: str, complaint: str) -> None:
    mutated = text(name).replace(was, becomes, 1)
    assert mutated != text(name), "the text to be replaced is not there any more"
    assert any(path.startswith(complaint) for path in forbidden(name, mutated, text(TWINS[name])))


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_says_what_is_made_up_and_what_it_shares(name: str) -> None:
    twin, real = env.load(name, VARIABLES), env.load(TWINS[name], VARIABLES)
    assert twin.farm.synthetic
    assert twin.farm.measure_alone == "host-cpu", "all three have the same host"
    assert twin.place == name
    assert real.farm.synthetic is None
    assert real.farm.virtual is None


VARIABLES = {
    "LG_VIRTUAL_PDU": "http://127.0.0.1:9",
    "LG_VIRTUAL_NET": "127.1.2",
    "LG_VIRTUAL_DIR": "/nowhere",
    "LG_VIRTUAL_IMAGES": "/nowhere",
}


@pytest.mark.parametrize("name", ["virt-mt8395", "virt-th1520"])
def test_the_stand_ins_partitions_are_those_that_uboot_reads(name: str) -> None:
    board = env.load(name, VARIABLES)
    flash, virtual = board.farm.flash, board.farm.virtual
    assert isinstance(flash, Fastboot)
    assert virtual and virtual.fastboot
    reads = [re.fullmatch(r"virtio read (\w+) (\w+) (\w+)", text) for text in flash.read]
    found = {int(one[1], 16): (int(one[2], 16) * 512, int(one[3], 16) * 512) for one in reads if one}
    partitions = virtual.fastboot.partitions
    assert found == {
        getattr(flash.load, part): (partitions[label].start, partitions[label].size)
        for part, label in flash.partitions.items()
    }
    assert f'"$LG_VIRTUAL_NET.{virtual.fastboot.address}"' in text(name)
