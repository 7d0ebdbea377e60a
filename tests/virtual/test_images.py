"""Guest images: formats against their specifications, recipes on packages made here, the cache, the way errors are told."""

import ctypes
import gzip
import io
import lzma
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from farm.campaign import load_campaign
from farm.cpio import Cpio
from farm.errors import BoardError
from farm.fleet import boards
from farm.runner.planning import images_of
from farm.virtual import apt, images, recipes
from farm.virtual.elf import Elf, module_depends
from farm.virtual.kernel import KernelRecipe
from farm.virtual.machine import VirtualBoard
from farm.virtual.stub import stub_library, sysv_hash
from farm.virtual.userland import UserlandRecipe


def unpack(path: Path) -> dict[str, tuple[int, bytes]]:
    """A reader of newc archives of our own: name -> (mode, content), concatenated archives and padding included."""
    stream = io.BytesIO(gzip.GzipFile(fileobj=io.BytesIO(path.read_bytes())).read())
    found = {}
    while True:
        head = stream.read(110)
        assert head[:6] == b"070701"
        fields = [int(head[6 + 8 * number : 14 + 8 * number], 16) for number in range(13)]
        name = stream.read(fields[11])[:-1].decode()
        stream.seek(-stream.tell() % 4, 1)
        content = stream.read(fields[6])
        stream.seek(-stream.tell() % 4, 1)
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], content)


def test_an_archive_is_newc_with_its_directories(tmp_path: Path) -> None:
    archive = Cpio()
    archive.file("usr/bin/tool", b"12345", 0o755)
    archive.symlink("usr/bin/alias", "tool")
    archive.device("dev/console", 5, 1)
    archive.write(tmp_path / "a.cpio.gz")
    found = unpack(tmp_path / "a.cpio.gz")
    assert found == {
        "usr": (0o040755, b""),
        "usr/bin": (0o040755, b""),
        "usr/bin/tool": (0o100755, b"12345"),
        "usr/bin/alias": (0o120777, b"tool"),
        "dev": (0o040755, b""),
        "dev/console": (0o020600, b""),
    }
    with gzip.open(tmp_path / "a.cpio.gz") as stream:
        plain = stream.read()
    # buffer-format.rst: rdevmajor and rdevminor are the 10th and 11th number
    at = plain.index(b"dev/console") - 110
    assert plain[at + 6 + 8 * 9 : at + 6 + 8 * 11] == b"0000000500000001"
    assert (tmp_path / "a.cpio.gz").stat().st_size % 4 == 0


def test_hashes_are_those_of_the_abi() -> None:
    # elf(5)'s function, worked out by hand: one byte is itself; "ab" = 0x61 * 16 + 0x62; "GLIBC_2.0" is well known
    assert sysv_hash(b"a") == 0x61
    assert sysv_hash(b"ab") == 0x672
    assert sysv_hash(b"GLIBC_2.0") == 0x0D696910
    assert sysv_hash(b"GLIBC_2.2.5") == 0x09691A75


def test_the_runtime_linker_takes_a_stub(tmp_path: Path) -> None:
    """The host's own linker loads it and finds the symbols, with and without versions."""
    own = Elf(Path("/proc/self/exe").read_bytes())
    library = tmp_path / "libstub.so.1"
    symbols = {"stub_plain": "", "stub_new": "STUB_2.0", "stub_old": "STUB_1.0"}
    library.write_bytes(stub_library("libstub.so.1", symbols, machine=own.machine, flags=own.flags))
    loaded = ctypes.CDLL(str(library))
    for name in symbols:
        assert getattr(loaded, name)
    with pytest.raises(AttributeError):
        _ = loaded.stub_absent
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype, dlvsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    assert dlvsym(loaded._handle, b"stub_new", b"STUB_2.0")
    assert dlvsym(loaded._handle, b"stub_old", b"STUB_1.0")
    assert not dlvsym(loaded._handle, b"stub_new", b"STUB_1.0")


def test_calling_a_stub_is_a_crash_and_no_silent_success(tmp_path: Path) -> None:
    own = Elf(Path("/proc/self/exe").read_bytes())
    library = tmp_path / "libstub.so.1"
    library.write_bytes(stub_library("libstub.so.1", {"stub": ""}, machine=own.machine, flags=own.flags))
    call = f"import ctypes; ctypes.CDLL({str(library)!r}).stub()"
    assert subprocess.run([sys.executable, "-c", call], check=False).returncode == -signal.SIGSEGV


def test_the_hosts_libraries_are_read_as_the_hosts_linker_reads_them() -> None:
    """libm of the running process: it needs libc.so.6 and has cos, which is bound to a version of nothing else."""
    ctypes.CDLL("libm.so.6")
    maps = Path("/proc/self/maps").read_text()
    path = next(line.split()[-1] for line in maps.splitlines() if line.endswith("libm.so.6"))
    libm = Elf(Path(path).read_bytes())
    assert "libc.so.6" in libm.needed()
    symbols = {symbol.name: symbol for symbol in libm.symbols()}
    assert symbols["cos"].defined
    assert not symbols["cos"].library
    wanted = [symbol for symbol in libm.symbols() if not symbol.defined and symbol.library == "libc.so.6"]
    assert wanted
    assert all(symbol.version.startswith("GLIBC_") for symbol in wanted)
    assert libm.machine == {"x86_64": 62, "aarch64": 183, "riscv64": 243}[platform.machine()]


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(BoardError, match="not a 64-bit little-endian ELF"):
        Elf(b"#!/bin/sh\n")


def test_modules_say_what_they_depend_on() -> None:
    section = b"\x7fELF...\0license=GPL\0depends=sdhci,cqhci\0name=sdhci_pci\0"
    assert module_depends(section) == ("sdhci", "cqhci")
    assert module_depends(b"...\0depends=\0name=sdhci\0") == ()
    assert module_depends(b"no module") == ()


def package(root: Path, name: str, files: dict[str, bytes | str]) -> Path:
    """A Debian package with these files; a text value is the target of a symbolic link."""
    tree = root / f"tree-{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: test\n"
    )
    for inside, content in files.items():
        path = tree / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.symlink_to(content)
    target = root / f"{name}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, target],
        check=True,
        capture_output=True,
    )
    return target


IMAGE = bytes(56) + b"ARM\x64" + bytes(100)


def module(*depends: str) -> bytes:
    return b"\x7fELF\0depends=" + ",".join(depends).encode() + b"\0"


def test_a_kernel_set_has_the_image_and_modules_in_loading_order(tmp_path: Path) -> None:
    top = "usr/lib/modules/6.99-test/kernel"
    deb = package(
        tmp_path,
        "linux-image-6.99",
        {
            "boot/vmlinuz-6.99-test": IMAGE,
            f"{top}/drivers/mmc/host/sdhci-pci.ko.xz": lzma.compress(module("sdhci", "cqhci")),
            f"{top}/drivers/mmc/host/sdhci.ko.xz": lzma.compress(module()),
            f"{top}/drivers/mmc/host/cqhci.ko": module("sdhci"),
            f"{top}/sound/unwanted.ko": module(),
        },
    )
    recipe = KernelRecipe("test", "arm64", "trixie", "linux-image-arm64", modules=("sdhci_pci", "built_in"))
    facts = recipe.make([deb], tmp_path)
    order = ["sdhci.ko", "cqhci.ko", "sdhci-pci.ko"]
    assert facts == {"release": "6.99-test", "modules": [f"kernel/drivers/mmc/host/{name}" for name in order]}
    assert (tmp_path / "Image").read_bytes() == IMAGE
    found = unpack(tmp_path / "modules.cpio.gz")
    top = "lib/modules/6.99-test"
    assert found[f"{top}/boot"][1].decode().split() == facts["modules"]
    assert found[f"{top}/kernel/drivers/mmc/host/sdhci-pci.ko"][1] == module("sdhci", "cqhci")
    assert not any("unwanted" in name for name in found)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"boot/vmlinuz-6.99": b"MZ" + bytes(200)}, "no plain Image"),
        ({"usr/share/doc/x": b""}, "holds no kernel"),
    ],
)
def test_a_package_without_a_bootable_kernel_is_refused(tmp_path: Path, files: dict, complaint: str) -> None:
    deb = package(tmp_path, "linux-image-6.99", files)
    with pytest.raises(BoardError, match=complaint):
        KernelRecipe("test", "arm64", "trixie", "linux-image-arm64").make([deb], tmp_path)


class Suite:
    """An archive's packages by name; the newest kernel is what the metapackage depends on."""

    def __init__(self, *names: str) -> None:
        self.there = names

    def depends(self, name: str) -> tuple[str, ...]:
        return (self.there[-1], "initramfs-tools")

    def names(self, prefix: str) -> tuple[str, ...]:
        return self.there

    def find(self, names: list[str]) -> list[apt.Package]:
        return [apt.Package(name, "1", 1) for name in names]


def test_the_previous_kernel_is_the_next_older_one_of_the_same_flavour() -> None:
    new = KernelRecipe("test", "riscv64", "trixie", "linux-image-riscv64")
    old = replace(new, previous=True)
    suite = Suite(
        "linux-image-6.12.99+deb13-riscv64",
        "linux-image-6.12.107+deb13-riscv64",
        "linux-image-6.12.107+deb13-riscv64-dbg",
        "linux-image-6.12.110+deb13-rt-riscv64",
        "linux-image-riscv64",
        "linux-image-6.12.118+deb13-riscv64",
        "linux-image-6.12.117+deb13-riscv64",
    )
    assert [one.name for one in new.choose(suite)] == ["linux-image-6.12.117+deb13-riscv64"]
    assert [one.name for one in old.choose(suite)] == ["linux-image-6.12.107+deb13-riscv64"]
    with pytest.raises(BoardError, match="trixie has only one kernel for riscv64 now"):
        old.choose(Suite("linux-image-6.12.117+deb13-riscv64"))


def test_a_userland_has_programs_their_libraries_and_init(tmp_path: Path) -> None:
    """The host's python as the program: its libraries are found behind symbolic links, all of them or a complaint."""
    program = Path("/proc/self/exe").read_bytes()
    libraries = {}
    waiting = list(Elf(program).needed())
    listed = subprocess.run(
        ["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": "/sbin:/usr/sbin"}, check=True
    )
    where = {line.split()[0]: line.split()[-1] for line in listed.stdout.splitlines() if "=>" in line}
    while waiting:
        name = waiting.pop()
        if name not in libraries:
            libraries[name] = Path(where[name]).read_bytes()
            waiting += Elf(libraries[name]).needed()
    files: dict[str, bytes | str] = {"usr/bin/python": program}
    for name, content in libraries.items():
        files[f"usr/lib/here/{name}.real"] = content
        files[f"usr/lib/here/{name}"] = f"{name}.real"
    recipe = UserlandRecipe("test", "arm64", "trixie", ("python",), (("usr/bin/python", "bin/python"),))
    facts = recipe.make([package(tmp_path, "python", files)], tmp_path)
    found = unpack(tmp_path / "initrd.cpio.gz")
    assert facts["libraries"] == sorted(libraries)
    assert found["bin/python"][1] == program
    assert all(found[f"lib/{name}"][1] == content for name, content in libraries.items())
    assert found["init"][0] == 0o100755
    assert found["init"][1].startswith(b"#!")
    assert found["dev/console"][0] == 0o020600

    del files["usr/lib/here/libc.so.6.real"]
    with pytest.raises(BoardError, match=r"no package of trixie holds the library libc\.so\.6"):
        recipe.make([package(tmp_path / "again", "python", files)], tmp_path)
    with pytest.raises(BoardError, match="do not hold usr/bin/absent"):
        replace(recipe, programs=(("usr/bin/absent", "bin/absent"),)).make(
            [tmp_path / "python.deb"], tmp_path
        )


LISTED = """\
'https://vendor.example/apt/dists/bookworm/main/binary-amd64/Packages.xz' vendor 0
'http://mirror.example/debian-security/dists/bookworm-security/main/binary-amd64/Packages.xz' x 0
'http://mirror.example/debian/dists/bookworm/InRelease' x 0
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' x 0
'http://mirror.example/debian/dists/bookworm-updates/main/binary-amd64/Packages.xz' x 0
"""


def test_the_mirror_is_debians_and_not_a_vendors() -> None:
    assert apt.mirror_in(LISTED) == "http://mirror.example/debian"
    assert (
        apt.mirror_in("'file:/srv/archive/dists/sid/main/binary-arm64/Packages' x 0") == "file:/srv/archive"
    )
    assert (
        apt.mirror_in(
            "'http://old.example/archive/debian/20250520T000000Z//dists/trixie/main/binary-amd64/Packages.xz' x 0"
        )
        == "http://old.example/archive/debian/20250520T000000Z"
    )
    with pytest.raises(BoardError, match="knows no Debian archive"):
        apt.mirror_in(LISTED.splitlines()[1])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(apt, "mirror", lambda: "http://127.0.0.1:9/debian")
    return tmp_path / "cache"


def test_an_archive_out_of_reach_is_one_sentence_and_leaves_nothing(cache: Path) -> None:
    with pytest.raises(BoardError, match=r"apt-get failed: .*127\.0\.0\.1:9") as caught:
        images.ensure()
    assert "\n" not in str(caught.value)
    assert [path.name for path in (cache / "images").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_is_one_sentence(cache: Path) -> None:
    cache.write_text("a file where a directory should be")
    with pytest.raises(BoardError, match="guest images cannot be written below"):
        images.ensure()


class Source:
    """Stands in for the mirror: packages made here."""

    def __init__(self, deb: Path) -> None:
        self.deb, self.downloads = deb, 0

    def depends(self, name: str) -> tuple[str, ...]:
        return ("linux-base", "linux-image-6.99-test")

    def find(self, names: list[str]) -> list[apt.Package]:
        return [apt.Package(name, "1", 1000) for name in names]

    def download(self, packages: list[apt.Package], target: Path) -> list[Path]:
        self.downloads += 1
        return [self.deb]


def test_a_set_is_built_once_and_again_when_its_recipe_changes(cache: Path, tmp_path: Path) -> None:
    source = Source(package(tmp_path, "linux-image-6.99", {"boot/vmlinuz-6.99-test": IMAGE}))
    recipe = KernelRecipe("test", "arm64", "trixie", "linux-image-arm64")
    assert images.missing([recipe]) == [recipe]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    images.directory().mkdir(parents=True)
    said: list[str] = []
    images.build(recipe, source, scratch, said.append)  # type: ignore[arg-type]
    assert images.missing([recipe]) == []
    assert images.ensure([recipe], say=said.append) == cache / "images"
    assert source.downloads == 1
    link = cache / "images/arm64/test"
    first = link.readlink()
    assert (link / "Image").read_bytes() == IMAGE
    assert [line.split(":")[0] for line in said] == ["arm64/test"] * 3

    changed = replace(recipe, format=recipe.format + 1)
    assert images.missing([changed]) == [changed]
    images.build(changed, source, scratch, said.append)  # type: ignore[arg-type]
    assert link.readlink() != first
    assert (cache / "images/arm64" / first / "Image").exists()  # somebody may still be reading it

    (link / "manifest.json").write_text("{")
    assert images.missing([changed]) == [changed]


def test_a_board_gets_its_userland_and_the_kernels_of_its_architecture() -> None:
    def names(*boards: VirtualBoard) -> list[str]:
        return sorted(f"{recipe.arch}/{recipe.name}" for recipe in recipes.needed_by(boards))

    kernels = ["arm64/debian-6.1", "arm64/debian-6.12"]
    assert names(VirtualBoard()) == ["arm64/busybox", *kernels]
    assert names(VirtualBoard(userland="toybox")) == [*kernels, "arm64/toybox"]
    assert names(VirtualBoard(arch="riscv64")) == ["riscv64/debian-6.12", "riscv64/gnu"]
    assert len(names(VirtualBoard(), VirtualBoard(arch="riscv64"), VirtualBoard())) == 5


def test_a_run_gets_no_kernel_that_it_does_not_boot() -> None:
    (board,) = boards.load(["virt-rk3568"], Path("nowhere"))
    demo = images_of(load_campaign(Path("envs/campaigns/readahead.yaml")), board)
    assert demo == {"kernel-6.12", "modules-6.12", "initrd"}
    both = images_of(load_campaign(Path("envs/campaigns/kernels.yaml")), board)
    for names, kernels in ((demo, ["debian-6.12"]), (both, ["debian-6.12", "debian-6.1"])):
        files = {board.images[name] for name in names}
        found = recipes.needed_by([VirtualBoard()], files=files)
        assert [recipe.name for recipe in found] == ["busybox", *kernels]


def test_what_was_replaced_or_not_used_for_long_is_removed_when_others_are_built(cache: Path) -> None:
    now, day = time.time(), 86_400.0
    ages = {
        "debian-6.1-aaaa": 29.9, "debian-6.12-bbbb": 30.1, "debian-6.12-cccc": 0.9, "gnu-dddd": 1.1, "gnu-eeee": 2.0,
    }  # fmt: skip
    sets = cache / "images" / "arm64"
    for name, days in ages.items():
        (sets / name).mkdir(parents=True)
        (sets / name / "manifest.json").write_text("{}")
        os.utime(sets / name, (now - days * day, now - days * day))
    for link in ("debian-6.1-aaaa", "debian-6.12-bbbb", "gnu-dddd"):
        (sets / link.rpartition("-")[0]).symlink_to(link)
    (cache / "images" / ".lock").touch()
    said: list[str] = []
    images.prune(said.append)
    assert sorted(path.name for path in sets.iterdir()) == [
        "debian-6.1", "debian-6.1-aaaa", "debian-6.12-cccc", "gnu", "gnu-dddd",
    ]  # fmt: skip
    assert sorted(said) == [
        "removing arm64/debian-6.12-bbbb: not used for 30 days",
        "removing arm64/gnu-eeee: replaced",
    ]


def test_a_set_that_is_used_stays(cache: Path, tmp_path: Path) -> None:
    source = Source(package(tmp_path, "linux-image-6.99", {"boot/vmlinuz-6.99-test": IMAGE}))
    recipe = KernelRecipe("test", "arm64", "trixie", "linux-image-arm64")
    (tmp_path / "scratch").mkdir()
    images.directory().mkdir(parents=True)
    images.build(recipe, source, tmp_path / "scratch", lambda line: None)  # type: ignore[arg-type]
    made = (cache / "images/arm64/test").resolve()
    os.utime(made, (0.0, 0.0))
    images.ensure([recipe])
    assert time.time() - made.stat().st_mtime < 60
    images.prune()
    assert images.missing([recipe]) == []
