"""Packages of any Debian suite and architecture from the host's own mirror, without touching the host's apt."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from farm.errors import BoardError

_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_RELEASES = ("bookworm", "trixie", "forky", "stable", "oldstable", "testing", "sid", "unstable")
_URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+)")
_MAIN_LISTED = re.compile(r"'(?P<base>[^']+?)/*/dists/(?P<release>[^'/]+)/main/binary-[^']*'")
_DEPENDS_LINE = re.compile(r"^ +Depends: (\S+)$", re.MULTILINE)

# The host's own hooks must not run for an archive that is not the host's; its proxies stay in force.
_CONFIG = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::Architectures;
#clear APT::Default-Release;
APT::Architecture "{arch}";
APT::Architectures {{ "{arch}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::State "{root}";
Dir::State::lists "{root}/lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}";
Dir::Cache::archives "{root}/archives";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"""


@dataclass(frozen=True)
class Package:
    """One package file: `name`, `version`, and its `size` in bytes."""

    name: str
    version: str
    size: int


def mirror() -> str:
    """The base address of the Debian archive that the host's apt is set up to use. Raises BoardError if none is."""
    return mirror_in(_run(["apt-get", "update", "--print-uris"], {}))


def mirror_in(listed: str) -> str:
    """The Debian archive's base address among what `apt-get update --print-uris` lists."""
    found = {(site["base"], site["release"]) for site in _MAIN_LISTED.finditer(listed)}
    # Others name their suites after Debian's releases too; Debian's own mirrors have "debian" in their path.
    ranked = sorted(
        ("debian" not in base.split("/")[3:], _RELEASES.index(release), base)
        for base, release in found
        if release in _RELEASES
    )
    if not ranked:
        raise BoardError(
            "this machine's apt knows no Debian archive with the component main, of which virtual boards are made"
        )
    return ranked[0][2]


class Archive:
    """One suite of the mirror for one architecture, with package lists below `root`."""

    def __init__(self, root: Path, suite: str, arch: str) -> None:
        self._root, self._suite, self._arch = root, suite, arch
        keyring = next((ring for ring in _KEYRINGS if ring.exists()), None)
        if keyring is None:
            raise BoardError(
                "debian-archive-keyring is missing on this machine; install the package of that name"
            )
        for name in ("lists/partial", "archives/partial"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "sources.list").write_text(f"deb [signed-by={keyring}] {mirror()} {suite} main\n")
        (root / "apt.conf").write_text(_CONFIG.format(root=root, arch=arch))
        self._environment = {"APT_CONFIG": str(root / "apt.conf")}

    def update(self) -> None:
        """Fetch the package lists. Raises BoardError when the mirror is out of reach or its signature is unknown."""
        try:
            _run(["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"], self._environment)
        except BoardError as error:
            if "NO_PUBKEY" in str(error) or "Missing key" in str(error):
                raise BoardError(
                    f"this machine's debian-archive-keyring does not know {self._suite} yet; "
                    "update it with: apt-get install debian-archive-keyring"
                ) from error
            raise

    def depends(self, name: str) -> tuple[str, ...]:
        """The packages that a package names as its own dependencies."""
        listed = _run(["apt-cache", "depends", "--important", name], self._environment)
        return tuple(found[1] for found in _DEPENDS_LINE.finditer(listed))

    def names(self, prefix: str) -> tuple[str, ...]:
        """All packages of the archive whose names begin so."""
        return tuple(_run(["apt-cache", "pkgnames", prefix], self._environment).split())

    def find(self, names: Iterable[str]) -> list[Package]:
        """These packages in the archive's present versions, by name. Raises BoardError for one that is not there."""
        listed = _run(["apt-get", "-qq", "download", "--print-uris", *names], self._environment)
        packages = []
        for found in map(_URI_LINE.match, listed.splitlines()):
            if found:
                name, version, _ = unquote(found["file"]).rsplit("_", 2)
                packages.append(Package(name, version, int(found["size"])))
        return sorted(packages, key=lambda package: package.name)

    def download(self, packages: Iterable[Package], target: Path) -> list[Path]:
        """Fetch the package files into the directory `target` (apt checks their hashes); returns them by name."""
        target.mkdir()
        words = [f"{package.name}={package.version}" for package in packages]
        _run(["apt-get", "-qq", "download", *words], self._environment, cwd=target)
        return sorted(target.glob("*.deb"))


def members(package: Path) -> Iterator[tuple[tarfile.TarInfo, io.BufferedIOBase | None]]:
    """The files of a package in their order, names without leading `./`; contents must be read before the next."""
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as unpacker:
        assert unpacker.stdout is not None
        with tarfile.open(fileobj=unpacker.stdout, mode="r|") as archive:
            for member in archive:
                member.name = member.name.removeprefix("./")
                content = archive.extractfile(member) if member.isreg() else None
                yield member, content  # type: ignore[misc]
        unpacker.stdout.read()
    if unpacker.returncode:
        raise BoardError(f"{package.name} is damaged; its download will be repeated the next time")


def _run(argv: list[str], environment: dict[str, str], cwd: Path | None = None) -> str:
    """Output of an apt command. Raises BoardError with apt's own first complaint."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=cwd,
            env={**os.environ, **environment, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
    except FileNotFoundError as error:
        raise BoardError(
            f"{argv[0]} is missing: virtual boards are made of Debian packages, on Debian"
        ) from error
    if done.returncode:
        lines = [
            line for line in (done.stderr + done.stdout).splitlines() if line.startswith(("E:", "W:", "Err:"))
        ]
        reason = lines[0].split(":", 1)[1].strip() if lines else f"exit status {done.returncode}"
        raise BoardError(f"{' '.join(argv[:1])} failed: {reason}")
    return done.stdout
