"""The banner inside kernel images of several formats, real and made."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from farm.board.kernel_image import banner
from farm.errors import UserError

BANNER = (
    "Linux version 6.12.41+deb13-arm64 (debian-kernel@lists.debian.org) (aarch64-linux-gnu-gcc-14 (Debian 14.2.0-19) "
    "14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP Debian 6.12.41-1 (2025-08-12)"
)
# beside the banner every kernel holds printk formats that start alike, and since 6.1 a weak banner without a number
WEAK = BANNER.replace("#1 SMP", "# SMP").encode() + b"\n\0"
FORMAT = b"%s version %s (debian) %s\n\0Linux version %s (x)\n\0" + WEAK


def image(text: str = BANNER) -> bytes:
    return b"MZ" + b"\0" * 54 + b"ARM\x64" + b"\0" * 4096 + FORMAT + text.encode() + b"\n\0" + b"\xff" * 4096


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        gzip.compress,
        lzma.compress,
        bz2.compress,
        lambda data: b"ANDROID!" + b"\0" * 2040 + gzip.compress(data) + b"\0" * 512,
        lambda data: b"MZ\0\0zimg" + b"\0" * 500 + gzip.compress(data) + b"trailing",
        lambda data: b"\x1f\x8b\x08 a false magic" + b"\0" * 64 + lzma.compress(data),
    ],
    ids=["Image", "gzip", "xz", "bzip2", "android", "zboot", "false magic first"],
)
def test_banner_is_found_in_each_format(tmp_path: Path, pack) -> None:
    file = tmp_path / "kernel"
    file.write_bytes(pack(image()))
    assert banner(file) == BANNER


def test_two_kernels_in_one_image_prove_nothing(tmp_path: Path) -> None:
    file = tmp_path / "fit"
    file.write_bytes(image() + image(BANNER.replace("6.12.41", "6.12.42")))
    with pytest.raises(UserError, match="holds 2 kernels"):
        banner(file)


@pytest.mark.parametrize(
    "data", [b"", b"#!/bin/sh\n", b"\x1f\x8b\x08", b"Linux version 6.1 but no end", b"\0" * 100_000]
)
def test_what_is_no_kernel_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "thing.img"
    file.write_bytes(data)
    with pytest.raises(UserError, match=r"thing\.img: is not a kernel image"):
        banner(file)


def test_missing_kernel_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.img: cannot be read \(No such file or directory\)"):
        banner(tmp_path / "nothing.img")
