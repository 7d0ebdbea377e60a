"""Guest kernels and userlands made of Debian packages, once, and cached by content.

Each image set is a directory of the cache, `images/ARCH/NAME`, which points to `images/ARCH/NAME-KEY`; KEY is a hash
of the recipe and of the versions of the packages used. A kernel set holds `Image` and `modules.cpio.gz`, a userland
set `initrd.cpio.gz`; an initrd for U-Boot is a userland followed by the kernel's modules. Every set has a
`manifest.json` that says what it was made of; the time of its directory is that of its last use.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from farm import paths
from farm.errors import BoardError
from farm.lock import taken
from farm.virtual import apt
from farm.virtual.machine import VirtualBoard
from farm.virtual.recipes import Recipe, needed_by
from farm.virtual.userland import INIT, UserlandRecipe, guest_file

Say = Callable[[str], None]

MANIFEST = "manifest.json"
_DAY_S = 86_400.0
_UNUSED_S = 30 * _DAY_S
"""Seconds after which a set that no board was started with is removed."""


def directory() -> Path:
    """Where the image sets are, by the names `arm64/debian-6.12` and so on."""
    return paths.cache() / "images"


def missing(recipes: Iterable[Recipe]) -> list[Recipe]:
    """The recipes whose image set is not in the cache, or was made by another version of the recipe."""
    return [recipe for recipe in recipes if not _is_made(recipe)]


def ensure(recipes: Iterable[Recipe] | None = None, *, say: Say = lambda line: None) -> Path:
    """Build what is missing of these image sets and return `directory()`; by default those of a default board.

    For boards of other kinds pass `recipes.needed_by(boards)`.

    `say` gets lines of progress, and nothing when there is nothing to build. Two callers at once build once. Raises
    BoardError in one sentence when the mirror is out of reach, a package tool is missing or the disk is full.
    """
    wanted = list(needed_by([VirtualBoard()]) if recipes is None else recipes)
    try:
        if missing(wanted):
            with _lock(say):
                if left := missing(wanted):  # another process may have built them meanwhile
                    _build_all(left, say)
                    prune(say)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else f"{error.strerror}: {error.filename or ''}".rstrip(": ")
        raise BoardError(f"guest images cannot be written below {directory()}: {reason}") from error
    for recipe in wanted:
        with suppress(OSError):  # a cache that belongs to somebody else may be read-only
            os.utime(_link(recipe))
    return directory()


def prune(say: Say = lambda line: None) -> None:
    """Remove image sets that were not used for 30 days, and what others have replaced for a day.

    A day, because a board may be booting from what was just replaced. The caller holds the lock of the cache.
    """
    now = time.time()
    for path in directory().glob("*/*"):
        if path.is_symlink() or not path.is_dir():
            continue
        link = path.with_name(path.name.rpartition("-")[0])
        current = link.is_symlink() and link.readlink().name == path.name
        if now - path.stat().st_mtime > (_UNUSED_S if current else _DAY_S):
            say(
                f"removing {path.parent.name}/{path.name}: {'not used for 30 days' if current else 'replaced'}"
            )
            if current:
                link.unlink()
            shutil.rmtree(path)


def _build_all(recipes: list[Recipe], say: Say) -> None:
    began = time.monotonic()
    say(
        f"building {len(recipes)} guest image sets from Debian packages; this takes about a minute the first time"
    )

    def timed(line: str) -> None:
        say(f"[{time.monotonic() - began:5.1f} s] {line}")

    sources = {(recipe.suite, recipe.arch) for recipe in recipes}
    with tempfile.TemporaryDirectory(prefix=".build-", dir=directory()) as name, ThreadPoolExecutor() as pool:
        scratch = Path(name)
        timed("fetching package lists")
        archives = {source: apt.Archive(scratch / "-".join(source), *source) for source in sources}
        for update in [pool.submit(archive.update) for archive in archives.values()]:
            update.result()
        jobs = [
            pool.submit(build, recipe, archives[recipe.suite, recipe.arch], scratch, timed)
            for recipe in recipes
        ]
        for job in jobs:
            job.result()


def build(recipe: Recipe, archive: apt.Archive, scratch: Path, say: Say) -> None:
    """Make one image set of the archive's packages and put it into the cache."""
    label = f"{recipe.arch}/{recipe.name}"
    made = scratch / f"{recipe.arch}-{recipe.name}"
    made.mkdir()
    packages = recipe.choose(archive)
    say(f"{label}: fetching {len(packages)} packages, {sum(p.size for p in packages) / 1e6:.0f} MB")
    files = archive.download(packages, made.with_name(f"{made.name}-packages"))
    say(f"{label}: unpacking")
    facts = recipe.make(files, made)
    manifest = {
        "recipe": _recipe_digest(recipe),
        "suite": recipe.suite,
        "packages": {package.name: package.version for package in packages},
        "files": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(made.iterdir())
        },
        **facts,
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    _publish(recipe, made, manifest)
    sizes = ", ".join(
        f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(_link(recipe).iterdir())
    )
    say(f"{label}: done: {sizes}")


def _recipe_digest(recipe: Recipe) -> str:
    text = json.dumps(asdict(recipe), sort_keys=True)
    if isinstance(recipe, UserlandRecipe):
        text += guest_file(INIT).decode()
    return hashlib.sha256(text.encode()).hexdigest()


def _link(recipe: Recipe) -> Path:
    return directory() / recipe.arch / recipe.name


def _is_made(recipe: Recipe) -> bool:
    try:
        manifest = json.loads((_link(recipe) / MANIFEST).read_text())
        return bool(manifest["recipe"] == _recipe_digest(recipe))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _publish(recipe: Recipe, made: Path, manifest: dict[str, object]) -> None:
    """Move a finished set to its place and point its name to it, each in one step."""
    key = hashlib.sha256(json.dumps([manifest["recipe"], manifest["packages"]], sort_keys=True).encode())
    link = _link(recipe)
    link.parent.mkdir(exist_ok=True)
    home = link.with_name(f"{link.name}-{key.hexdigest()[:12]}")
    if home.exists():
        shutil.rmtree(home)
    made.rename(home)
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(home.name)
    fresh.replace(link)


@contextmanager
def _lock(say: Say) -> Iterator[None]:
    directory().mkdir(parents=True, exist_ok=True)
    handle = os.open(directory() / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not taken(handle):
            say("another process is building guest images; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
