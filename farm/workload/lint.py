"""What is doubtful about a workload before it runs: by name, in a sentence, with a remedy. Nothing here refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farm.quantity import short_size
from farm.units import format_size
from farm.workload.model import SYNC_ENGINES, DdWorkload, FioWorkload, Workload


@dataclass(frozen=True)
class Lint:
    """One finding: `code` is kebab-case and stable."""

    code: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}; {self.remedy}"


def known(facts: Mapping[str, object]) -> dict[str, Any]:
    """What `lint` wants to know of a board, from the facts of a boot."""
    governor = facts.get("governor")
    return {
        "memory_bytes": _whole(facts.get("memory_bytes")),
        "cache_bytes": _whole(facts.get("ext_csd.cache_bytes")),
        "governor": governor if isinstance(governor, str) else None,
    }


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def lint(
    w: Workload,
    *,
    memory_bytes: int | None = None,
    cache_bytes: int | None = None,
    governor: str | None = None,
) -> tuple[Lint, ...]:
    """Findings for one workload. What is known of the board sharpens them: its memory, the card's write cache
    (EXT_CSD CACHE_SIZE), both in bytes, and the CPU frequency governor in force.
    """
    found = [*(_fio(w) if isinstance(w, FioWorkload) else _dd(w)), *_conditioning(w)]
    if w.buffered and not w.writes:
        again = isinstance(w, FioWorkload) and w.time_based
        if memory_bytes is not None and w.size < memory_bytes and (again or not w.conditioning.drop_caches):
            found.append(
                Lint(
                    "size-below-memory",
                    f"a buffered read of {format_size(w.size)} fits the board's memory of "
                    f"{format_size(memory_bytes)} and may never reach the card",
                    "raise size, write direct: true, or read once after dropping caches",
                )
            )
    if cache_bytes is not None and 0 < w.size <= cache_bytes:
        found.append(
            Lint(
                "size-below-cache",
                f"size {format_size(w.size)} fits the card's cache of {format_size(cache_bytes)}",
                "raise size well above the cache",
            )
        )
    if governor is not None and governor not in ("performance", "userspace", "powersave", "none"):
        found.append(
            Lint(
                "governor-not-fixed",
                f"the CPU frequency governor is {governor}, so the clock moves with the load",
                "set it with the knob /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor: performance",
            )
        )
    return tuple(found)


def _fio(w: FioWorkload) -> list[Lint]:
    found = []
    if w.iodepth > 1 and w.ioengine in SYNC_ENGINES:
        found.append(
            Lint(
                "depth-without-async-engine",
                f"iodepth {w.iodepth} has no effect with {w.ioengine}, which is synchronous (fio's default is psync): "
                "each job has one request in flight",
                "write ioengine: libaio or io_uring, or iodepth: 1",
            )
        )
    elif w.iodepth > 1 and w.ioengine == "libaio" and not w.direct:
        found.append(
            Lint(
                "depth-without-direct",
                f"libaio is synchronous for buffered I/O, so iodepth {w.iodepth} has no effect",
                "write direct: true or ioengine: io_uring",
            )
        )
    if w.numjobs > 1 and w.offset_increment < w.size:
        found.append(
            Lint(
                "jobs-share-range",
                f"{w.numjobs} jobs work on the same range of one file and can hit what another job has just moved",
                f"write offset_increment: {short_size(w.size)}",
            )
        )
    if w.ramp_s == 0:
        found.append(
            Lint(
                "no-ramp",
                "the start of the run, with cold queues and a card that wakes up, counts",
                "write ramp: 1s" if w.runtime_s is not None else "write runtime: 5s and ramp: 1s",
            )
        )
    if w.buffered and w.rw in ("write", "randwrite", "randrw") and not w.end_fsync:
        found.append(_no_fsync("end_fsync: true"))
    return found


def _dd(w: DdWorkload) -> list[Lint]:
    found = []
    if w.bs == 512:
        found.append(
            Lint(
                "dd-512-byte-blocks",
                "dd with its default of 512-byte blocks measures system calls as much as the card",
                "write bs: 1M",
            )
        )
    if w.buffered and w.writes and not w.fsync:
        found.append(_no_fsync("fsync: true"))
    return found


def _no_fsync(remedy: str) -> Lint:
    return Lint(
        "buffered-write-without-fsync",
        "a buffered write ends when the data is in memory, not on the card",
        f"write {remedy} or direct: true",
    )


def _conditioning(w: Workload) -> list[Lint]:
    state, found = w.conditioning, []
    if w.buffered and not w.writes and not state.drop_caches:
        found.append(
            Lint(
                "caches-not-dropped",
                "a buffered read without dropping caches is answered from memory as far as it was read before",
                "write drop_caches: true",
            )
        )
    trims = isinstance(w, FioWorkload) and w.rw in ("trim", "randtrim")
    if w.writes and not trims and not state.prefill:
        found.append(
            Lint(
                "write-without-prefill",
                "a write to a part of the card that was never written, or was trimmed, is faster than one that replaces",
                "write prefill: true",
            )
        )
    if state.discard and not state.prefill and not w.writes:
        found.append(
            Lint(
                "read-after-discard",
                "a card answers reads of discarded blocks without touching flash",
                "write prefill: true, or leave discard out",
            )
        )
    return found
