"""The image sets of the virtual lab: two kernels and two userlands for arm64, two kernels and one for riscv64."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from farm.virtual.kernel import KernelRecipe
from farm.virtual.machine import VirtualBoard
from farm.virtual.userland import UserlandRecipe

Recipe = KernelRecipe | UserlandRecipe

# fio is linked with all of these; a storage board uses the first line.
_FIO_LIBRARIES = ("libc6", "libaio1t64", "libnuma1", "zlib1g", "libgcc-s1")
_FIO_STUBS = (
    *("librados.so.2", "librbd.so.1", "libgfapi.so.0", "libnfs.so.14", "libnbd.so.0"),
    *("libibverbs.so.1", "librdmacm.so.1", "libpmem.so.1"),
)
_MEASURING = (("usr/bin/fio", "usr/bin/fio"), ("usr/bin/mmc", "usr/bin/mmc"))
_OPENED = ("libgcc_s.so.1",)  # by glibc, when a thread ends

_COREUTILS = (
    *(
        "base64",
        "basename",
        "cat",
        "chmod",
        "cp",
        "cut",
        "date",
        "dd",
        "df",
        "dirname",
        "echo",
        "env",
        "expr",
    ),
    *("false", "head", "id", "ln", "ls", "md5sum", "mkdir", "mkfifo", "mknod", "mktemp", "mv", "nproc", "od"),
    *(
        "printf",
        "pwd",
        "readlink",
        "realpath",
        "rm",
        "rmdir",
        "seq",
        "sha256sum",
        "sleep",
        "sort",
        "stat",
        "stty",
    ),
    *(
        "sync",
        "tail",
        "tee",
        "test",
        "timeout",
        "touch",
        "tr",
        "true",
        "truncate",
        "tty",
        "uname",
        "uniq",
        "wc",
    ),
)

# What Debian's toybox 0.8.9 answers to (`toybox` prints it); no dd, gzip, stty, tr, awk or expr among them.
_TOYBOX = """
    base32 base64 basename blkdiscard blkid blockdev bunzip2 bzcat cat chgrp chmod chown chroot cksum clear cmp comm
    count cp cpio crc32 cut date devmem df dirname dmesg du echo egrep env factor fallocate false fgrep file find flock
    free fsfreeze fstype fsync getconf grep groups halt head hexedit hostname id ifconfig insmod install ionice iorenice
    iotop kill killall ln losetup ls lsattr lsmod lspci lsusb makedevs md5sum mkdir mkfifo mknod mktemp modinfo mount
    mountpoint mv nc netstat nice nl nohup nproc nsenter od partprobe paste patch pgrep pidof ping pkill pmap poweroff
    printenv printf prlimit ps pwd pwdx readelf readlink realpath reboot renice reset rev rm rmdir rmmod rtcwake sed seq
    setsid sha1sum sha256sum sha512sum shred sleep sort split stat strings switch_root sync sysctl tac tail tar taskset
    tee test time timeout top touch true truncate tty ulimit umount uname uniq unlink unshare uptime usleep uudecode
    uuencode vmstat w watch wc wget which who whoami xargs xxd yes zcat
"""

BUSYBOX = UserlandRecipe(
    name="busybox",
    arch="arm64",
    suite="trixie",
    packages=("busybox-static", "fio", "mmc-utils", *_FIO_LIBRARIES),
    programs=(("usr/bin/busybox", "bin/busybox"), *_MEASURING),
    links=(("bin/sh", "busybox"),),
    opened=_OPENED,
    stubs=_FIO_STUBS,
)

# As on Android: mksh and toybox. Debian's toybox lacks gzip, dd and stty; dd is the one of GNU coreutils.
TOYBOX = UserlandRecipe(
    name="toybox",
    arch="arm64",
    suite="trixie",
    packages=("mksh", "toybox", "coreutils", "libcrypt1", "fio", "mmc-utils", *_FIO_LIBRARIES),
    programs=(
        ("usr/bin/toybox", "bin/toybox"),
        ("usr/bin/mksh", "bin/mksh"),
        ("usr/bin/dd", "bin/dd"),
        *_MEASURING,
    ),
    links=(("bin/sh", "mksh"), *((f"bin/{name}", "toybox") for name in _TOYBOX.split())),
    files=(("etc/hostname", "console\n"), ("etc/profile", "PS1='console:${PWD:-?} # '\n")),
    opened=_OPENED,
    stubs=_FIO_STUBS,
)

GNU_RISCV64 = UserlandRecipe(
    name="gnu",
    arch="riscv64",
    suite="trixie",
    packages=(
        *(
            "bash",
            "coreutils",
            "dash",
            "e2fsprogs",
            "grep",
            "gzip",
            "kmod",
            "mawk",
            "mount",
            "sed",
            "util-linux",
        ),
        *(
            "libacl1",
            "libattr1",
            "libblkid1",
            "libcap2",
            "libcom-err2",
            "libext2fs2t64",
            "libgmp10",
            "liblzma5",
            "libmount1",
        ),
        *("libpcre2-8-0", "libselinux1", "libsmartcols1", "libssl3t64", "libtinfo6", "libuuid1", "libzstd1"),
        *("fio", "mmc-utils", *_FIO_LIBRARIES),
    ),
    programs=(
        *((f"usr/bin/{name}", f"bin/{name}") for name in _COREUTILS),
        *(
            (f"usr/bin/{name}", f"bin/{name}")
            for name in ("bash", "dash", "grep", "gzip", "kmod", "mawk", "sed")
        ),
        *(
            (f"usr/bin/{name}", f"bin/{name}")
            for name in ("dmesg", "mount", "mountpoint", "setsid", "umount")
        ),
        *((f"usr/sbin/{name}", f"sbin/{name}") for name in ("blkdiscard", "blockdev", "mke2fs")),
        *_MEASURING,
    ),
    links=(
        *(("bin/sh", "bash"), ("bin/[", "test"), ("bin/awk", "mawk")),
        *(("sbin/insmod", "../bin/kmod"), ("sbin/lsmod", "../bin/kmod")),
        *(("sbin/mkfs.ext2", "mke2fs"), ("sbin/mkfs.ext4", "mke2fs")),
    ),
    files=(("etc/hostname", "lpi4a\n"), ("etc/profile", "PS1='\\u@\\h:\\w# '\n")),
    opened=_OPENED,
    stubs=_FIO_STUBS,
)

RECIPES: tuple[Recipe, ...] = (
    BUSYBOX,
    TOYBOX,
    KernelRecipe("debian-6.12", "arm64", "trixie", "linux-image-arm64"),
    KernelRecipe("debian-6.1", "arm64", "bookworm", "linux-image-arm64"),
    GNU_RISCV64,
    KernelRecipe("debian-6.12", "riscv64", "trixie", "linux-image-riscv64"),
    KernelRecipe("debian-6.12-previous", "riscv64", "trixie", "linux-image-riscv64", previous=True),
)


def needed_by(
    boards: Iterable[VirtualBoard], *, previous: bool = False, files: Collection[str] | None = None
) -> list[Recipe]:
    """What these boards boot: their userlands, and every kernel of their architectures.

    Of those that a suite may drop any day only with `previous`: no board is to be out of order without them. With
    `files`, paths below the images' directory, only kernels that one of these is from.
    """
    boards = list(boards)
    userlands = {(board.arch, board.userland) for board in boards}
    architectures = {board.arch for board in boards}
    return [
        recipe
        for recipe in RECIPES
        if (
            recipe.arch in architectures
            and (previous or not recipe.previous)
            and (files is None or any(f"/{recipe.arch}/{recipe.name}/" in file for file in files))
            if isinstance(recipe, KernelRecipe)
            else (recipe.arch, recipe.name) in userlands
        )
    ]
