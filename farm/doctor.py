"""What farm needs of this machine, what is missing, and how to get it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from farm import paths
from farm.units import format_size

_NEEDED_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `needed_for` says who misses it; `remedy` is empty where all is well."""

    name: str
    ok: bool
    found: str
    needed_for: str
    remedy: str = ""


def _program(name: str, package: str, needed_for: str) -> Finding:
    # what pip installs lies beside the interpreter, which need not be on PATH
    where = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Finding(
        name, where is not None, where or "missing", needed_for, "" if where else f"apt-get install {package}"
    )


def _file(path: str, package: str, needed_for: str) -> Finding:
    there = Path(path).exists()
    return Finding(
        path,
        there,
        "there" if there else "missing",
        needed_for,
        "" if there else f"apt-get install {package}",
    )


def _writable(name: str, path: Path) -> Finding:
    near = path
    while not near.exists() and near != near.parent:
        near = near.parent
    if not os.access(near, os.W_OK):
        return Finding(
            name, False, f"{path} cannot be written", "everything", f"make {near} writable or set {name}"
        )
    free = shutil.disk_usage(near).free
    ok = free >= _NEEDED_BYTES
    remedy = "" if ok else f"free some space: {format_size(_NEEDED_BYTES)} are needed"
    return Finding(name, ok, f"{path}, {format_size(free)} free", "everything", remedy)


def _python() -> Finding:
    have = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, have, "everything", "" if ok else "install Python 3.11 or newer")


def _sqlite() -> Finding:
    ok = sqlite3.sqlite_version_info >= (3, 35)
    return Finding(
        "sqlite", ok, sqlite3.sqlite_version, "everything", "" if ok else "install SQLite 3.35 or newer"
    )


def look() -> list[Finding]:
    """Look at this machine; nothing is changed."""
    virtual, real = "virtual lab", "real boards"
    return [
        _python(),
        _sqlite(),
        _writable("FARM_HOME", paths.home()),
        _writable("FARM_CACHE", paths.cache()),
        _program("qemu-system-aarch64", "qemu-system-arm", virtual),
        _program(
            "qemu-system-riscv64", "qemu-system-misc (Debian 12) or qemu-system-riscv (13)", "virt-th1520"
        ),
        _file("/usr/lib/u-boot/qemu_arm64/u-boot.bin", "u-boot-qemu", virtual),
        _file("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring", virtual),
        _program("apt-get", "apt", virtual),
        _file("/usr/sbin/ser2net", "ser2net", "the virtual lab behind a coordinator"),
        _program("fastboot", "fastboot", "boards flashed by fastboot"),
        _program("rkdeveloptool", "rkdeveloptool", "boards flashed by rockusb"),
        _program("ssh", "openssh-client", "boards with a network service"),
        _program("labgrid-client", "python3-venv, then make demo", real),
    ]
