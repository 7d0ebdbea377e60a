"""dd's summary: coreutils, busybox, toybox and BSD, with or without a line of bytes, with or without `time`.

The printed rate is never taken: toybox and busybox mean 1024, coreutils 1000, all round. Bandwidth is bytes /
seconds. Where dd prints records only, bytes are records x block size (of the command that stands before it,
or as the caller knows) and seconds come from `time`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from farm.parse.clean import OVERWRITTEN, PROMPT, clean
from farm.parse.finding import near
from farm.parse.measurement import Findings, Measurement, Parsed, Problem
from farm.parse.timing import Timed, add, commands, times

_NUMBER = r"\d{1,12}(?:[.,]\d{1,12})?(?:[eE][+-]?\d{1,3})?"
# English, German, French, Spanish, Italian, Japanese, Chinese, as coreutils says it
_BYTES = r"(?:[Bb]ytes?|octets?|バイト|字节|位元組)"
_COPY_WORDS = ("copied", "kopiert", "copiés", "copiado", "copiati", "コピーされました", "已复制", "已複製")
_COPIED = re.compile(
    rf"(?<!\S)(?P<bytes>\d{{1,20}})\s?{_BYTES}\s?(?:[(（](?P<human>[^()（）\n]{{1,60}}(?:\n[^()（）\n]{{1,40}})?)[)）]\s?)?"
    rf"(?:{'|'.join(_COPY_WORDS)})s?[,、，]\s?(?P<seconds>{_NUMBER})\s(?P<word>s|sec|secs|seconds|Sekunden|秒)(?![a-z])[,、，]\s?"
    rf"(?P<rate>{_NUMBER}|Infinity|inf)\s?(?P<unit>[kKMGTP]?i?B?/(?:s|秒))"
)
_TRANSFERRED = re.compile(
    rf"(?<!\S)(?P<bytes>\d{{1,20}})\sbytes\stransferred\sin\s(?P<seconds>{_NUMBER})\ssec(?:ond)?s?"
    r"(?:\s\((?P<rate>\d{1,20}|inf|nan)\s(?P<unit>bytes/sec)\))?"
)
_RECORDS = re.compile(r"(?<!\S)(\d{1,18})\+(\d{1,18})\srecords\s(in|out)\b")
_ERROR = re.compile(r"^(?:[^\s:]{0,40}/)?dd: (?!warning)[^\n]{1,200}", re.MULTILINE)
_KEY = r"(?:if|of|bs|ibs|obs|cbs|count|skip|iseek|seek|oseek|conv|iflag|oflag|status)"
_OPERAND = rf"{_KEY}=(?:\$\({{1,2}}[^()\n]{{1,200}}\){{1,2}}|[^\s;&|()<>]){{0,300}}"
_COMMAND = re.compile(rf"(?:^|[\s/;&|(\"'`])dd((?:\s{{1,3}}{_OPERAND})+)")
_ZSH = re.compile(r"\s{1,3}[\d.,]{1,12}s\suser\s")  # zsh prints the command in front of its times
_SIZE = re.compile(r"(\d{1,12})([a-zA-Z]{0,3})")
_FACTORS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_DECIMAL = {"kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
_PRINTED = re.compile(r"(\d{1,12}(?:[.,]\d{1,6})?)\s?([kKMGTP]?)")
_RESULTS = (
    ("copied", _COPIED, _COPY_WORDS),
    ("copied", _TRANSFERRED, ("transferred",)),
    ("records", _RECORDS, ("records",)),
    ("error", _ERROR, ("dd: ",)),
)
# Shorter than this, the clock, the fork and the page cache are measured rather than a card. It is told, not
# refused.
SHORT_S = 0.010


@dataclass
class _Run:
    """What is known so far of one dd invocation."""

    at: int
    operands: dict[str, str] | None
    records: dict[str, tuple[int, int]] = field(default_factory=dict)
    copied: re.Match[str] | None = None
    real: Timed | None = None
    error: str | None = None


def parse_dd(text: str, block_size: int | None = None) -> Parsed:
    """Every dd result in a text. `block_size` in bytes is used where dd printed no bytes and no command is to
    be seen.

    Never raises. Zero bytes, zero seconds, an error, and records without block size or time are problems.
    """
    found = scan(clean(text), block_size, only_dd=True)
    if not found.samples and not found.problems:
        return Parsed(problems=(Problem("dd-no-output", "there is no result of dd in the text"),))
    return found.parsed()


def block_size_of(operands: dict[str, str]) -> int | None:
    """The size in bytes of dd's output records; 512 without bs=; None where it cannot be read."""
    written = operands.get("bs", operands.get("obs", "512"))
    size = 1
    for part in written.split("x") if not written.lower().startswith("0x") else [written]:
        match = _SIZE.fullmatch(part)
        if not match:
            return None
        suffix = match[2].lower()
        decimal = _DECIMAL.get(suffix) if match[2] != "B" else 1
        factor = decimal or _FACTORS.get(suffix.removesuffix("ib"))
        if factor is None:
            return None
        size *= int(match[1]) * factor
    return size if 0 < size < 2**63 else None


def scan(text: str, block_size: int | None = None, *, only_dd: bool = False) -> Findings:
    """Results of dd, and of `time` around other commands (unless `only_dd`), of a cleaned text."""
    found = Findings()
    tokens: list[tuple[int, str, object]] = []
    for kind, pattern, needles in _RESULTS:
        tokens += [(match.start(), kind, match) for match in near(pattern, text, *needles)]
    tokens += [(timed.at, "time", timed) for timed in times(text)]
    if not tokens:
        return found
    commands_found = near(_COMMAND, text, "if=", "of=", before=1000, after=2000)
    tokens += [
        (match.start(1), "command", match) for match in commands_found if not _ZSH.match(text, match.end())
    ]
    tokens += [(match.start(), "prompt", match) for match in PROMPT.finditer(text)]
    tokens += [(at, "timed-command", command) for at, command in commands(text)]
    tokens.sort(key=lambda token: token[0])
    operands: dict[str, str] | None = None
    run: _Run | None = None
    timed_command: str | None = None

    def close(last: _Run | None) -> None:
        if last is not None:
            _finish(last, found, block_size)

    for at, kind, token in tokens:
        if kind in ("prompt", "command"):
            close(run)
            run = None
            operands = None
            timed_command = None if kind == "prompt" else timed_command
            if kind == "command" and isinstance(token, re.Match):
                operands = dict(part[0].strip().split("=", 1) for part in re.finditer(_OPERAND, token[1]))
        elif kind == "error" and isinstance(token, re.Match):
            if run is not None and (run.copied or "out" in run.records):
                close(run)
                run = None
            run = run or _Run(at, operands)
            run.error = run.error or token[0].strip()
        elif kind == "records" and isinstance(token, re.Match):
            if run is None or token[3] in run.records or run.copied is not None:
                close(run)
                run = _Run(at, operands)
            run.records[token[3]] = (int(token[1]), int(token[2]))
        elif kind == "copied" and isinstance(token, re.Match):
            if run is None or run.copied is not None or run.real is not None:
                close(run)
                run = _Run(at, operands)
            run.copied = token
            if not run.records and _overwritten(text, token):
                found.problem(at, "dd-progress", "a line of dd's status=progress is no result")
                run = None
        elif kind == "time" and isinstance(token, Timed):
            if run is not None and run.real is None and (run.copied or run.records or run.error):
                run.real = token
            elif not only_dd:
                close(run)
                run = None
                add(token, timed_command, found)
        elif kind == "timed-command":
            timed_command = str(token)
    close(run)
    return found


def _overwritten(text: str, line: re.Match[str]) -> bool:
    """Whether a carriage return stands before or behind the line: dd overwrote it, as its progress does."""
    before = text[max(0, line.start() - 3) : line.start()].rstrip(" \t")
    return before.endswith(OVERWRITTEN + "\n") or text[line.end() : line.end() + 2].lstrip(" \t").startswith(
        OVERWRITTEN
    )


def _finish(run: _Run, found: Findings, block_size: int | None) -> None:
    """One sample, or the problem that forbids it."""
    if run.error:
        found.problem(run.at, "dd-error", run.error)
        return
    bs = block_size_of(run.operands) if run.operands is not None else block_size
    count = _bytes(run, bs, found)
    if count is None:
        return
    seconds = _number(run.copied["seconds"]) if run.copied else None
    if not seconds and run.real is not None:
        seconds = run.real.seconds
    if count == 0:
        found.problem(run.at, "dd-zero-bytes", "dd copied 0 bytes: no measurement")
    elif seconds is None:
        found.problem(
            run.at, "dd-no-time", "dd printed no seconds and there is no `time` around it: no measurement"
        )
    elif seconds <= 0:
        found.problem(
            run.at, "dd-zero-seconds", "dd's time is 0 at the step it is printed with: no measurement"
        )
    elif run.copied and (reason := _contradiction(run.copied, count, seconds)):
        found.problem(run.at, "dd-inconsistent", reason)
    else:
        if seconds < SHORT_S:
            found.problem(
                run.at, "dd-short", f"dd ran for {seconds * 1000:.3g} ms only: too short to judge a card"
            )
        found.sample(run.at, _measurement(run, count, seconds, bs))


def _bytes(run: _Run, bs: int | None, found: Findings) -> int | None:
    full, partial = run.records.get("out", (None, 0))
    if run.copied is not None:
        count = int(run.copied["bytes"])
        # Without bs= input and output records differ, so only the output's bound the bytes.
        if (
            full is not None
            and bs
            and run.operands is not None
            and not full * bs <= count <= (full + partial) * bs
        ):
            found.problem(
                run.at,
                "dd-inconsistent",
                f"{count} bytes are not {full}+{partial} records of {bs} bytes: damaged?",
            )
            return None
        return count
    if full is None:
        found.problem(run.at, "dd-incomplete", "dd's summary breaks off before `records out`")
        return None
    if full == 0 and partial == 0:
        return 0
    if bs is None:
        found.problem(run.at, "dd-bytes-unknown", "dd printed records only and the block size is not known")
        return None
    if partial:
        found.problem(
            run.at, "dd-bytes-unknown", f"dd printed records only, {partial} of them of unknown length"
        )
        return None
    return full * bs


def _contradiction(copied: re.Match[str], count: int, seconds: float) -> str | None:
    """Why bytes, size in parentheses, seconds and rate cannot all be what dd printed: a damaged line."""
    groups = copied.groupdict()
    human = _PRINTED.match((groups.get("human") or "").strip())
    if human and not _near(human, count):
        return f"{count} bytes are not {groups['human']}: a damaged line"
    printed = _PRINTED.fullmatch(f"{groups.get('rate') or ''}{(groups.get('unit') or '')[:1].strip('Bb/')}")
    if printed and not _near(printed, count / seconds):
        return f"{count} bytes in {seconds:g} s are not {groups['rate']} {groups['unit']}: a damaged line"
    return None


def _near(printed: re.Match[str], value: float) -> bool:
    """Whether a rounded or truncated number with k, M or G is `value`, k being 1000 or 1024."""
    shown = float(printed[1].replace(",", "."))
    power = " kMGTP".index(printed[2].replace("K", "k") or " ")
    if shown < 0.5:
        return value < 2.0 * 1024.0**power
    low, high = shown * 1000.0**power, (shown + 0.1 * (shown < 10) + 1.0 * (shown >= 10)) * 1024.0**power
    return low * 0.93 <= value <= high * 1.07


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _measurement(run: _Run, count: int, seconds: float, bs: int | None) -> Measurement:
    extra: dict[str, object] = {"dialect": _dialect(run)}
    if run.operands is not None:
        extra["command"] = "dd " + " ".join(f"{key}={value}" for key, value in run.operands.items())
    if bs:
        extra["bs"] = bs
    for side, (full, partial) in run.records.items():
        extra[f"records_{side}"] = f"{full}+{partial}"
    if run.real is not None:
        extra["real_s"] = run.real.seconds
    return Measurement(
        tool="dd",
        rw=_direction(run.operands or {}),
        bytes=count,
        seconds=seconds,
        bw_bytes=count / seconds,
        extra=extra,
    )


def _dialect(run: _Run) -> str:
    """Which dd printed this, as far as the line tells."""
    if run.copied is None:
        return "records-only"
    if "word" not in run.copied.groupdict():
        return "bsd"
    if run.copied["word"] == "seconds":
        return "busybox"
    return "coreutils" if "B" in run.copied["unit"] else "toybox"


def _direction(operands: dict[str, str]) -> str | None:
    """read or write, as seen from the storage; None where the command does not tell."""
    source, target = operands.get("if", ""), operands.get("of", "")
    if target == "/dev/null":
        return "read" if source not in ("", "/dev/zero", "/dev/urandom", "/dev/random") else None
    if source in ("/dev/zero", "/dev/urandom", "/dev/random"):
        return "write"
    if source.startswith("/dev/") != target.startswith("/dev/"):
        return "read" if source.startswith("/dev/") else "write"
    return None
