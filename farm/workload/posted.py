"""Command lines as people post them -> workloads, so that what was posted can be looked at like what was planned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from farm.workload.lint import Lint, lint
from farm.workload.model import DdWorkload, FioWorkload

# A size that no lint can stumble over, where a job without one works on all of its file.
_UNSAID_SIZE = "64G"
_FIO = re.compile(r"(?<![\w-])fio(?=\s{1,4}-{1,2}[a-z])")
_WORD = re.compile(r"\s{1,8}(-{1,2}[a-z][a-z_]{1,30})(?:=(\S{1,300})|(?=\s|$))")
_DD = re.compile(r"(?:^|[\s;&|(\"'`])dd((?:\s{1,3}[a-z]{2,6}=[^\s;&|()<>]{1,300})+)", re.MULTILINE)
_DROPPED = re.compile(r"drop_caches\b")
_KNOWN = ("rw", "bs", "size", "iodepth", "numjobs", "ioengine", "offset_increment", "rwmixread")


@dataclass(frozen=True)
class Posted:
    """One command line: its text on one line, and its options as written (`rw`, `bs`, `if` ...)."""

    tool: str
    text: str
    options: Mapping[str, str]
    dropped_caches: bool


def commands(text: str) -> Iterator[Posted]:
    """Every fio and dd command line of a cleaned text, in its order; wrapped ones are put together."""
    found: list[tuple[int, int, str, dict[str, str]]] = []
    for match in _FIO.finditer(text):
        options, at, words = {}, match.end(), ["fio"]
        while word := _WORD.match(text, at):
            options[word[1].lstrip("-")] = word[2] or ""
            words.append(word[0].strip())
            at = word.end()
        if options:
            found.append((match.start(), at, " ".join(words), options))
    for match in _DD.finditer(text):
        operands = dict(part.split("=", 1) for part in match[1].split())
        if "if" in operands or "of" in operands:
            found.append((match.start(), match.end(), "dd " + " ".join(match[1].split()), operands))
    before = 0
    for start, end, line, options in sorted(found, key=lambda one: one[0]):
        dropped = _DROPPED.search(text, before, start) is not None
        yield Posted(line.split(" ", 1)[0], line, options, dropped)
        before = end


def doubts_of(posted: Posted, *, bytes_moved: int | None = None) -> tuple[Lint, ...]:
    """The lint of a posted command; nothing where it cannot be read as a workload.

    `bytes_moved` is what dd said that it copied.
    """
    workload = _fio(posted.options) if posted.tool == "fio" else _dd(posted, bytes_moved)
    return () if workload is None else lint(workload)


def doubts_of_options(options: Mapping[str, str]) -> tuple[Lint, ...]:
    """The lint of what fio printed of a job itself, where no command was posted: engine and depth are all it tells."""
    workload = _fio({**options, "direct": "1"})
    found = () if workload is None else lint(workload)
    return tuple(one for one in found if one.code == "depth-without-async-engine")


def _fio(options: Mapping[str, str]) -> FioWorkload | None:
    data: dict[str, object] = {name: options[name] for name in _KNOWN if options.get(name)}
    for name in ("iodepth", "numjobs", "rwmixread"):
        if name in data:
            data[name] = int(str(data[name])) if str(data[name]).isdigit() else data[name]
    for name, key in (("runtime", "runtime"), ("ramp_time", "ramp")):
        if options.get(name):
            data[key] = options[name]
    data.setdefault("rw", options.get("readwrite", "read"))
    if "bs" not in data and options.get("blocksize"):
        data["bs"] = options["blocksize"]
    data.setdefault("size", _UNSAID_SIZE)
    data["direct"] = options.get("direct") == "1"
    data["thread"] = "thread" in options
    data["time_based"] = options.get("time_based", "0") != "0" and "runtime" in data
    target = "raw" if options.get("filename", "").startswith("/dev/") else "file"
    try:
        return FioWorkload.model_validate(
            {"tool": "fio", "name": "posted", "target": target, **data, "conditioning": {"drop_caches": True}}
        )
    except ValidationError:
        return None


def _dd(posted: Posted, bytes_moved: int | None) -> DdWorkload | None:
    options = posted.options
    flags = f"{options.get('iflag', '')},{options.get('oflag', '')}".split(",")
    rw = "write" if options.get("if") in ("/dev/zero", "/dev/urandom") else "read"
    data: dict[str, object] = {
        "rw": rw,
        "target": "raw"
        if str(options.get("if" if rw == "read" else "of", "")).startswith("/dev/")
        else "file",
        "bs": options.get("bs", "512"),
        "direct": "direct" in flags,
        "fsync": rw == "write" and "fsync" in options.get("conv", ""),
        "conditioning": {"drop_caches": posted.dropped_caches},
    }
    if options.get("count", "").isdigit():
        data["count"] = int(options["count"])
    elif bytes_moved is not None:
        data["size"] = bytes_moved
    try:
        return DdWorkload.model_validate({"tool": "dd", "name": "posted", **data})
    except ValidationError:
        return None
