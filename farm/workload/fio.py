"""Workload -> fio's command line. Options are those of fio's HOWTO, in the order in which people write them."""

from __future__ import annotations

import shlex

from farm.quantity import short_size
from farm.workload.command import Command, prepare, prepare_timeout
from farm.workload.model import FioWorkload


def command(w: FioWorkload, target_path: str) -> Command:
    """The trial of `w` on the device or file `target_path` of the board."""
    argv = arguments(w, target_path)
    return Command(argv, prepare(w, target_path), shlex.join(argv), w.timeout_s, prepare_timeout(w))


def arguments(w: FioWorkload, target_path: str) -> tuple[str, ...]:
    """fio's argument vector: one job, one JSON document on stdout (fio 2.2 and later)."""
    # fio splits file names at colons, which by-path names of controllers have
    filename = target_path.replace(":", "\\:")
    argv = ["fio", f"--name={w.name}", f"--filename={filename}", f"--rw={w.rw}"]
    if w.rw == "randrw":
        argv.append(f"--rwmixread={w.rwmixread}")
    argv += [f"--bs={short_size(w.bs)}", f"--size={short_size(w.size)}"]
    if w.offset_increment:
        argv.append(f"--offset_increment={short_size(w.offset_increment)}")
    argv += [
        f"--direct={int(w.direct)}",
        f"--ioengine={w.ioengine}",
        f"--iodepth={w.iodepth}",
        f"--numjobs={w.numjobs}",
    ]
    if w.thread:
        argv.append("--thread")
    if w.runtime_s is not None:
        argv.append(f"--runtime={_time(w.runtime_s)}")
    if w.time_based:
        argv.append("--time_based")
    if w.ramp_s:
        argv.append(f"--ramp_time={_time(w.ramp_s)}")
    if w.end_fsync:
        argv.append("--end_fsync=1")
    if not w.writes:
        argv.append("--readonly")
    if w.target == "raw" or not w.writes or w.conditioning.prefill:
        # else fio would make a file of that name, in /dev if need be, and measure memory
        argv.append("--allow_file_create=0")
    return (*argv, "--group_reporting", "--output-format=json")


def _time(seconds: float) -> str:
    # fio takes whole numbers with a unit only
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{max(1, round(seconds * 1000))}ms"
