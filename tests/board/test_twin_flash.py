"""Twins are flashed by their family's method, fastboot, with one kernel and then another, and each proves itself.

virt-rk3568 and `uboot-write` are tested so in tests/runner/test_run.py, by a whole campaign.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from farm.board import bundle as bundles
from farm.board.strategy import FarmStrategy
from farm.fleet import env
from farm.runner.checkup import open_strategy
from farm.virtual import images, lab
from farm.virtual.recipes import needed_by

pytestmark = pytest.mark.lab

MIB = 1 << 20
TWINS = ("virt-mt8395", "virt-th1520")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_HOME", str(home))
        for name in ("PDU", "NET", "DIR", "IMAGES"):
            patch.setenv(f"LG_VIRTUAL_{name}", "none-yet")
        virtual = {name: env.load(name).farm.virtual for name in TWINS}
        images.ensure(needed_by(virtual.values(), previous=True))
        made = lab.up(virtual, home)
        for name, value in made.environment().items():
            patch.setenv(name, value)
        yield made
        lab.down(home)


@pytest.mark.parametrize(
    ("name", "arch", "before", "after", "ramdisk"),
    [
        ("virt-mt8395", "arm64", "6.1", "6.12", "toybox"),
        ("virt-th1520", "riscv64", "6.12-previous", "6.12", "gnu"),
    ],
)
def test_another_kernel_is_flashed_and_proves_itself(
    up: lab.Lab, name: str, arch: str, before: str, after: str, ramdisk: str
) -> None:
    board = env.load(name)
    strategy = open_strategy(board)
    flash = up.directory / name / "flash.img"
    banners = []
    for version in (before, after):
        kernel = up.images / arch / f"debian-{version}"
        release = json.loads((kernel / "manifest.json").read_text())["release"]
        strategy.bundle = bundles.make(
            kernel=board.image(f"kernel-{version}"),
            initrd=board.image("initrd"),
            dtb=None,
            modules=board.image(f"modules-{version}"),
            args=board.farm.args,
            work=up.directory,
        )
        try:
            strategy.transition("shell")
            banners.append(banner(strategy))
            report = strategy.report
        finally:
            strategy.recover()
        assert banners[-1].startswith(f"Linux version {release} (debian-kernel@lists.debian.org)")
        assert report.method == "fastboot"
        # in the flash at 1 MiB is the kernel, at 65 MiB its ramdisk: read without any code of farm
        image = (kernel / "Image").read_bytes()
        userland = (up.images / arch / ramdisk / "initrd.cpio.gz").read_bytes()
        with flash.open("rb") as device:
            assert os.pread(device.fileno(), len(image), 1 * MIB) == image
            assert os.pread(device.fileno(), len(userland), 65 * MIB) == userland
        size = report.written
        assert size % 4096 == 0
        assert size >= len(image) + len(userland)
    assert banners[0] != banners[1]


def banner(strategy: FarmStrategy) -> str:
    lines, _, status = strategy.shell.run("cat /proc/version")
    assert status == 0
    return str(lines[0])
