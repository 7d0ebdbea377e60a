"""Kernel lines about MMC and about a kernel that is dying, as typed events. Formats: drivers/mmc, block/,
kernel/.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType

from farm.parse.clean import clean
from farm.parse.measurement import Findings

_STAMP = re.compile(r"\[\s{0,12}(\d{1,10}\.\d{1,9})\]")
_SPLIT = re.compile(r"(?<=\S)[ \t]+(?=\[ {0,6}\d{1,9}\.\d{6}\])")
_HOST = r"(?P<device>mmc\d{1,3})"
_DISK = r"(?P<device>mmcblk\d{1,3}\w{0,12})"

# In this order; the first that matches names the line. A device is a host (mmc0) or a disk (mmcblk0).
_PATTERNS: dict[str, str] = {
    "new-card": rf"{_HOST}: new (?P<speed>.{{0,60}}?) ?(?P<type>MMC|SDIO|SDHC|SDXC|SDUC|SD-combo|SD) card "
    r"(?:at address (?P<address>[0-9a-f]{4})|at(?: address)?\s*$|on SPI)",  # mails break the line in front of the address
    "card": r"(?P<device>mmcblk\d{1,3}): (?P<host>mmc\d{1,3}):(?P<address>[0-9a-f]{4}) (?P<name>\S(?:.{0,10}\S)?) {1,6}"
    r"(?P<size>[\d.]{1,8} [KMGT]iB)",
    "cqe-enabled": rf"{_HOST}: Command Queue Engine enabled",
    "hsq-enabled": rf"{_HOST}: Host Software Queue enabled",
    "cqe-recovery": rf"{_HOST}: running CQE recovery",
    "cqe-timeout": rf"{_HOST}: cqhci: timeout for tag (?P<tag>\d{{1,3}})",
    "timeout": rf"{_HOST}: Timeout waiting for hardware (?:cmd )?interrupt",
    "flush-error": rf"{_HOST}: cache flush error (?P<error>-\d{{1,4}})",
    "reset-error": rf"{_HOST}: tried to HW reset card, got error (?P<error>-\d{{1,4}})",
    "reset-stuck": rf"{_HOST}: Reset (?P<mask>0x[0-9a-f]{{1,4}}) never completed",
    "tuning-failed": rf"{_HOST}: (?i:tuning execution failed: (?P<error>-\d{{1,4}})|Tuning failed, falling back)",
    "select-failed": rf"{_HOST}: (?P<step>mmc_select_\w{{1,20}}) failed,? error (?P<error>-\d{{1,4}})",
    "init-error": rf"{_HOST}: error (?P<error>-\d{{1,4}}) whilst initiali[sz]ing (?P<type>\w{{1,10}}) card",
    "resume-error": rf"{_HOST}: error (?P<error>-\d{{1,4}}) doing \w{{0,12}} ?(?:resume|suspend)",
    "busy": rf"{_HOST}: Card stuck being busy",
    "stray-interrupt": rf"{_HOST}: Got (?:data|command) interrupt (?P<mask>0x[0-9a-f]{{1,8}}) even though no",
    "card-removed": rf"{_HOST}: card [0-9a-f]{{4}} removed",
    "test-failed": rf"{_HOST}: Result: FAILED",
    "io-error": rf"I/O error, dev {_DISK}, sector(?: (?P<sector>\d{{1,20}}))?",
    "crc": rf"{_DISK}: response CRC error",
    "transfer-error": rf"{_DISK}: error (?P<error>-\d{{1,4}}) (?:transferring data|sending|requesting status)",
    "recovery-failed": rf"{_DISK}: recovery failed",
    "panic": r"Kernel panic - not syncing|end Kernel panic",
    "oops": r"\bOops(?:: |\s-\s| ?\[#)|Internal error: |Unable to handle kernel|kernel BUG at "
    r"|BUG: (?:unable|kernel NULL|scheduling)|Unhandled (?:fault|exception)",
    "rcu-stall": r"rcu\w{0,20}: INFO: rcu\w{0,20} (?:self-)?detected|self-detected stall on CPU"
    r"|detected (?:expedited )?stalls on|rcu\w{0,20} kthread (?:timer wakeup didn't happen|starved)",
    "hung-task": r"INFO: task .{1,60} blocked (?:in I/O wait )?for more than \d{1,6} seconds|hung_task: blocked tasks",
    "lockup": r"BUG: soft lockup|[Hh]ard LOCKUP|NMI watchdog: Watchdog detected",
    # not `watchdog: timeout 60 sec`, `watchdog: Watchdog enabled (timeout=31 sec)` or `watchdog inactive, reset
    # disabled`, which drivers say when all is well
    "watchdog": r"(?i:watchdog\w{0,20}: .{0,60}(?:did not stop!|timed out|timeout, reboot))"
    r"|(?i:\bWatchdog (?:reset|bite)\b(?! (?:disabled|enabled)))",
}
# One of these words stands in every line of the kind: a plain search is far cheaper than the pattern.
_WORDS: dict[str, tuple[str, ...]] = {
    "new-card": (": new ",), "card": ("mmcblk",), "cqe-enabled": ("Command Queue",), "hsq-enabled": ("Host Software",),
    "cqe-recovery": ("CQE recovery",), "cqe-timeout": ("cqhci: timeout",), "timeout": ("Timeout waiting",),
    "flush-error": ("cache flush",), "reset-error": ("HW reset",), "reset-stuck": ("never completed",),
    "tuning-failed": ("uning ",), "select-failed": ("mmc_select_",), "init-error": ("whilst initiali",),
    "resume-error": ("doing ",), "busy": ("stuck being busy",), "stray-interrupt": ("even though no",),
    "card-removed": (" removed",), "test-failed": ("Result: FAILED",), "io-error": ("I/O error, dev",),
    "crc": ("response CRC",), "transfer-error": ("transferring data", "sending", "requesting status"),
    "recovery-failed": ("recovery failed",),
    "panic": ("Kernel panic",), "oops": ("Oops", "Internal error", "Unable to handle", "BUG", "Unhandled"),
    "rcu-stall": ("rcu", "stall"), "hung-task": ("blocked",), "lockup": ("lockup", "LOCKUP", "Watchdog detected"),
    "watchdog": ("atchdog", "ATCHDOG"),
}  # fmt: skip
_KINDS = tuple((kind, _WORDS[kind], re.compile(pattern)) for kind, pattern in _PATTERNS.items())
_ANY_WORD = tuple(dict.fromkeys(word for words in _WORDS.values() for word in words))
# Facts; every other kind says that something went wrong while, or before, something was measured.
STATES = frozenset({"new-card", "card", "cqe-enabled", "hsq-enabled"})
# The kernel is lost, or nothing that it does afterwards can be trusted; with what people call it.
FATAL: Mapping[str, str] = MappingProxyType(
    {
        "panic": "kernel panic",
        "oops": "kernel oops",
        "rcu-stall": "RCU stall",
        "hung-task": "hung task",
        "lockup": "lockup",
        "watchdog": "watchdog",
    }
)


@dataclass(frozen=True)
class Event:
    """One kernel line: its kind, the host or disk it names, seconds since boot where stamped, and what else
    it says.
    """

    kind: str
    line: str
    device: str | None = None
    seconds: float | None = None
    detail: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_state(self) -> bool:
        """Whether it only states what is so: a card, CQE or HSQ enabled."""
        return self.kind in STATES

    @property
    def is_fatal(self) -> bool:
        """Whether the kernel is lost or about to be."""
        return self.kind in FATAL


def parse_dmesg(text: str) -> tuple[Event, ...]:
    """All known events in a text, in order. Never raises."""
    return tuple(event for _, event in _events(clean(text, stamps=False)))


def event_of(line: str) -> Event | None:
    """The event that one line reports, or None. Cheap enough for a live console. Never raises."""
    line = line[:600]
    if not any(word in line for word in _ANY_WORD):
        return None
    for kind, words, pattern in _KINDS:
        if any(word in line for word in words) and (match := pattern.search(line)):
            groups = match.groupdict()
            stamps = list(
                _STAMP.finditer(line, 0, match.start())
            )  # the last one before the message is its own
            return Event(
                kind=kind,
                line=line.strip(),
                device=groups.pop("device", None),
                seconds=float(stamps[-1][1]) if stamps else None,
                detail={key: value for key, value in groups.items() if value},
            )
    return None


def _events(text: str) -> Iterator[tuple[int, Event]]:
    if not any(word in text for word in _ANY_WORD):
        return
    at = 0
    for line in text.split("\n"):
        if len(line) > 8:
            place = at
            for piece in _SPLIT.split(line) if len(line) > 200 else [line]:  # a text flattened into one line
                if event := event_of(piece):
                    yield place, event
                place += len(piece)
        at += len(line) + 1


def scan(text: str, *, limit: int = 1000) -> Findings:
    """`events` and `cards` as facts, and one problem for each kind of trouble, of a text that kept its
    stamps.
    """
    found = Findings()
    events = list(_events(text))
    if events:
        found.facts["events"] = [asdict(event) for _, event in events[:limit]]
    cards = [event.line for _, event in events if event.kind in ("new-card", "card")]
    if cards:
        found.facts["cards"] = cards[:100]
    first: dict[str, tuple[int, Event]] = {}
    for at, event in events:
        first.setdefault(event.kind, (at, event))
    counts = Counter(event.kind for _, event in events)
    for kind, (at, event) in first.items():
        if kind not in STATES:
            found.problem(
                at, f"kernel-{kind}", f"the kernel reports {kind} {counts[kind]} time(s), first: {event.line}"
            )
    return found
