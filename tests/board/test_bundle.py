"""Bundles: parts, checksums, modules behind the initrd as a second cpio."""

import gzip
import io
import subprocess
import tarfile
import zlib
from pathlib import Path

import pytest

from farm.board import bundle
from farm.errors import UserError
from tests.board.test_kernel_image import BANNER, image


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "Image").write_bytes(image())
    (tmp_path / "initrd").write_bytes(gzip.compress(b"userland"))
    with tarfile.open(tmp_path / "modules.tar.xz", "w:xz") as tar:
        for name, data in (
            ("lib/modules/6.12/mmc.ko", b"code"),
            ("../escape", b"no"),
            ("/etc/abs", b"relative"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return {name: tmp_path / name for name in ("Image", "initrd", "modules.tar.xz")}


def make(files: dict[str, Path], tmp_path: Path, **changes) -> bundle.Bundle:
    given = {
        "kernel": files["Image"],
        "initrd": files["initrd"],
        "dtb": None,
        "modules": files["modules.tar.xz"],
        "args": "console=ttyAMA0",
        "work": tmp_path / "work",
    }
    return bundle.make(**{**given, **changes})


def test_parts_carry_size_and_crc_of_the_file(files, tmp_path) -> None:
    made = make(files, tmp_path, modules=None)
    kernel = made.part("kernel")
    assert kernel is not None
    assert (kernel.size, kernel.crc32) == (len(image()), zlib.crc32(image()))
    assert made.banner == BANNER
    assert made.part("dtb") is None


def test_modules_tarball_becomes_a_second_cpio_that_cpio_reads(files, tmp_path) -> None:
    made = make(files, tmp_path)
    initrd = made.part("initrd")
    assert initrd is not None
    data = initrd.path.read_bytes()
    first = files["initrd"].read_bytes()
    assert data.startswith(first)
    second = gzip.decompress(data[len(first) + -len(first) % 4 :])
    busybox = ["busybox", "cpio", "-t"]
    listed = subprocess.run(busybox, input=second, capture_output=True, check=True).stdout.decode().split()
    assert listed == ["lib/modules/6.12/mmc.ko", "etc/abs"]


def test_digest_changes_with_every_input_and_with_nothing_else(files, tmp_path) -> None:
    digest = make(files, tmp_path).digest
    assert make(files, tmp_path).digest == digest
    assert make(files, tmp_path / "elsewhere").digest == digest
    assert make(files, tmp_path, args="console=ttyS0").digest != digest
    assert make(files, tmp_path, modules=None).digest != digest
    files["initrd"].write_bytes(gzip.compress(b"another"))
    assert make(files, tmp_path).digest != digest


def test_modules_without_initrd_are_refused(files, tmp_path) -> None:
    with pytest.raises(UserError, match="but there is no initrd"):
        make(files, tmp_path, initrd=None)


def test_modules_that_are_no_tarball_are_refused(files, tmp_path) -> None:
    files["modules.tar.xz"].write_bytes(b"not a tarball")
    with pytest.raises(UserError, match=r"modules\.tar\.xz: is not a tarball of modules"):
        make(files, tmp_path)


def test_an_empty_dtb_is_refused(files, tmp_path) -> None:
    (tmp_path / "board.dtb").write_bytes(b"")
    with pytest.raises(UserError, match=r"board\.dtb: is empty; give the dtb to flash"):
        make(files, tmp_path, dtb=tmp_path / "board.dtb")
