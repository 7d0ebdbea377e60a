"""What goes to the board's shell for one trial: lines that condition card and memory, then the line that is measured."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from farm.workload.model import CRAWL, Workload

MIB = 1024 * 1024
# Random, not zero: a controller or file system may hold zeros as unmapped, compressed or deduplicated, and reading
# them back would never touch flash.
_SOURCE = "/dev/urandom"


@dataclass(frozen=True)
class Command:
    """One trial for a POSIX shell (busybox ash, mksh, dash, bash).

    `argv` is the tool's own command line, to be shown and recorded. `prepare` are lines to run before, in order; a
    line that fails means that the trial cannot be measured. `run` is one line whose exit code is the tool's.
    Deadlines are in seconds; `prepare_timeout_s` covers all of `prepare`.
    """

    argv: tuple[str, ...]
    prepare: tuple[str, ...]
    run: str
    timeout_s: float
    prepare_timeout_s: float


def prepare(w: Workload, target: str) -> tuple[str, ...]:
    """Shell lines that bring the target and the page cache into the state that the workload asks for.

    What happens once a boot (`prefill`) is remembered below /dev, the one directory that lies in memory and is
    writable on every board (Android has no /tmp, and elsewhere /tmp may survive a boot).
    """
    state = w.conditioning
    lines = []
    if w.target == "raw":
        # a device that has gone must not be replaced by a file in /dev, which would measure memory
        device = shlex.quote(target)
        lines.append(
            f"[ -b {device} ] || {{ echo {shlex.quote(target + ' is no block device')} >&2; false; }}"
        )
        if state.discard and state.prefill:
            lines.append(
                _once(target, w.needed_bytes, f"{_discard(target)}; {_fill_device(target, w.needed_bytes)}")
            )
        elif state.discard:
            lines.append(f"rm -f {_stamp(target)}; {_discard(target)}")
        elif state.prefill:
            lines.append(_once(target, w.needed_bytes, _fill_device(target, w.needed_bytes)))
    elif not w.writes or state.prefill:
        lines.append(_whole_file(target, w.needed_bytes))
    else:
        # each trial allocates anew, or the second one would overwrite in place and be another measurement
        lines.append(f"rm -f {shlex.quote(target)}")
    if state.drop_caches:
        lines.append("sync && echo 3 >/proc/sys/vm/drop_caches")
    if state.idle_s:
        lines.append(f"sleep {state.idle_s:g}")
    return tuple(lines)


def prepare_timeout(w: Workload) -> float:
    """Seconds after which `prepare` counts as hanging."""
    fills = w.conditioning.prefill or (w.target == "file" and not w.writes)
    return 120 + w.conditioning.idle_s + (w.needed_bytes / CRAWL if fills else 0)


def _stamp(target: str) -> str:
    return shlex.quote("/dev/farm-filled" + target.replace("/", "-"))


def _once(target: str, size: int, action: str) -> str:
    # counted in MiB, because mksh calculates in 32 bits
    mib = -(-size // MIB)
    stamp = _stamp(target)
    return (
        f'n=$(cat {stamp} 2>/dev/null); [ "${{n:-0}}" -ge {mib} ] || {{ {action} && echo {mib} >{stamp}; }}'
    )


def _discard(target: str) -> str:
    # stdin is closed because blkdiscard asks people, and people only, whether it may destroy a signature
    device = shlex.quote(target)
    return (
        f"blkdiscard {device} </dev/null || "
        "echo 'note: not discarded (blkdiscard is missing or the device cannot discard)' >&2"
    )


def _fill_device(target: str, size: int) -> str:
    whole, rest = divmod(size, MIB)
    device = shlex.quote(f"of={target}")
    parts = []
    if whole:
        parts.append(f"dd if={_SOURCE} {device} bs=1M count={whole} conv=fsync")
    if rest:
        sector = whole * MIB // 512
        parts.append(f"dd if={_SOURCE} {device} bs=512 seek={sector} count={rest // 512} conv=fsync")
    return " && ".join(parts)


def _whole_file(target: str, size: int) -> str:
    """Make the file unless it has the size: `ls -ln` is everywhere, `stat` is not (OpenWrt leaves it out)."""
    file = shlex.quote(target)
    whole, rest = divmod(size, MIB)
    parts = [f"dd if={_SOURCE} bs=1M count={whole} >{file}"]
    if rest:
        parts.append(f"dd if={_SOURCE} bs={rest} count=1 >>{file}")
    return f'(set -- $(ls -lnL {file} 2>/dev/null); [ "$5" = {size} ] || {{ {" && ".join(parts)} && sync; }})'
