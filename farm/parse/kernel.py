"""The kernel's own account of itself: the version banner and the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from farm.parse.measurement import Findings

# Format: linux_banner in init/version.c: "Linux version RELEASE (BUILDER) (COMPILER) VERSION"
_BANNER = re.compile(r"Linux version (?P<release>\S{1,128}) (?P<rest>\([^\n]{1,600})")
_BUILD = re.compile(r"#\d{1,9}[ -][^\n]{0,200}")
_ARGUMENTS = re.compile(r"Kernel command line: ([^\n]{0,4096})")


@dataclass(frozen=True)
class Banner:
    """`/proc/version` or the first line of the boot log: the whole line from `Linux version` on, and its
    parts.
    """

    text: str
    release: str
    build: str | None = None


def parse_banner(text: str) -> Banner | None:
    """The last kernel banner in a cleaned text, or None. Never raises."""
    banners = list(_BANNER.finditer(text))
    if not banners:
        return None
    last = banners[-1]
    build = _BUILD.search(last["rest"])
    return Banner(last[0].rstrip(), last["release"], build[0].rstrip() if build else None)


def scan(text: str) -> Findings:
    """`kernel`, `kernel_release` and `cmdline` as facts of a cleaned text."""
    found = Findings()
    if banner := parse_banner(text):
        found.facts["kernel"] = banner.text
        found.facts["kernel_release"] = banner.release
    if arguments := _ARGUMENTS.search(text):
        found.facts["cmdline"] = arguments[1].strip()
    return found
