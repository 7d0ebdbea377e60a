"""Workload -> dd's command line, timed by the shell's own reading of the kernel's clock.

Many a dd prints no seconds (busybox on Debian and OpenWrt), `time` is a keyword in some shells, a program in others
and absent in a third kind, and its busybox form steps by 10 ms. /proc/timer_list has the kernel's monotonic clock in
nanoseconds (kernel/time/timer_list.c) and can be read without a process; /proc/uptime (10 ms) is the fallback. The
result is one line such as `real 0m0.512345s`, bash's form, behind what dd says; the command itself stands before it,
so that the raw output can be read without the campaign.
"""

from __future__ import annotations

import shlex

from farm.quantity import short_size
from farm.workload.command import Command, prepare, prepare_timeout
from farm.workload.model import DdWorkload

# Seconds and microseconds apart, because mksh calculates in 32 bits; 1$u keeps leading zeros from meaning octal.
_NOW = (
    "now() { n=; "
    '{ while read -r a b n _; do [ "$a $b" = "now at" ] && break; n=; done </proc/timer_list; } 2>/dev/null; '
    'if [ -n "$n" ]; then s=${n%?????????}; u=${n#"$s"}; u=${u%???}; '
    "else read -r n _ </proc/uptime; s=${n%.*}; u=${n#*.}0000; fi; }"
)
_REAL = (
    "s=$((s-s0)); u=$((1$u-1$u0)); [ $u -ge 0 ] || { s=$((s-1)); u=$((u+1000000)); }; "
    'u=$((1000000+u)); echo "real 0m$s.${u#1}s"'
)


def command(w: DdWorkload, target_path: str) -> Command:
    """The trial of `w` on the device or file `target_path` of the board."""
    argv = arguments(w, target_path)
    line = shlex.join(argv)
    if w.writes and w.target == "raw":
        line = f"[ -b {shlex.quote(target_path)} ] && {line}"
    run = f"({_NOW}; echo {shlex.quote('+ ' + shlex.join(argv))}; now; s0=$s; u0=$u; {line}; rc=$?; now; {_REAL}; exit $rc)"
    return Command(argv, prepare(w, target_path), run, w.timeout_s, prepare_timeout(w))


def arguments(w: DdWorkload, target_path: str) -> tuple[str, ...]:
    """dd's argument vector. Writes take zeros, because /dev/urandom is slower than a card."""
    source, sink = ("/dev/zero", target_path) if w.writes else (target_path, "/dev/null")
    argv = ["dd", f"if={source}", f"of={sink}", f"bs={short_size(w.bs)}"]
    if w.count is not None:
        argv.append(f"count={w.count}")
    if w.direct:
        argv.append("oflag=direct" if w.writes else "iflag=direct")
    conversions = ["fsync"] if w.fsync else []
    if w.writes and w.target == "file" and w.conditioning.prefill:
        conversions.append("notrunc")  # overwrite in place what the pre-fill laid out
    if conversions:
        argv.append(f"conv={','.join(conversions)}")
    return tuple(argv)
