"""Run commands on the board by itself, with a silent console, and fetch their output as checksummed frames.

One script goes up per batch (`upload`), runs all jobs, keeps what they print in a temporary directory, packs it into
one stream and sends it in frames (`frames`). Nothing is measured while bytes cross the console, except one short line
per finished job, whose loss is no failure. `batch.sh` is what runs on the board.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from importlib import resources

from farm.board import frames
from farm.board.frames import DIGESTS, ENCODERS, Assembly, Damaged, Frame, Manifest, chosen
from farm.board.upload import Lines, Wire, new_marker, start
from farm.errors import BoardError

__all__ = ["BatchResult", "Job", "JobResult", "Places", "Progress", "Wire", "capture", "run_batch"]

#: Bytes of the packed stream in a frame: about 3 kB, or a quarter of a second at 115200 baud.
FRAME = 2304
#: Most bytes that are kept of one kind of one job, and roughly of a batch, so that a chatty command fills no tmpfs.
KIND_LIMIT = 1 << 20
BATCH_LIMIT = 8 << 20
_SMALLEST_KIND = 64 << 10
_TRIES = 12
# What an around snippet may take, twice. Ending a command at its deadline takes 3 s; the rest is for slow boards.
_AROUND_S = 2 * 3.0
_SLACK_S = 9.0
# How often the board says that it is at work while it measures nothing, as in batch.sh.
_BEAT_S = 5.0
_PACK_S = 60.0
_BEFORE_S = 600.0
_SMALLEST_FRAME = 24
_KINDS = {"a": "before", "b": "pre", "c": "out", "d": "post", "e": "kernel"}
_ID = re.compile(r"[a-z0-9.-]{1,40}")
_PROGRESS = re.compile(rb"@farm (\d{1,6})/\d{1,6} ([a-z0-9.-]{1,40}) (\d{1,3}|-) (\d{1,7})(?!\S)")
_AT_WORK = re.compile(rb"\+(\d{0,6})")
_INDEX = re.compile(r"(\d{1,3}|-) (\d{1,12}(?:\.\d{1,6})?) (\d{1,12}(?:\.\d{1,6})?) \.([a-e]*)")
_SIZE = re.compile(r" *(\d{1,9}) k(\d{6})([a-e])")
_TOTAL = re.compile(r" *\d{1,10} total")
_FIRST = 100000
# What may pack the output; the board tries all and keeps the smallest. For a few lines the first will do.
_QUICK = "'gzip -9' cat"
_PACKERS = f"'xz -0e' bzip2 {_QUICK}"


@dataclass(frozen=True)
class Job:
    """One command for the board.

    `command` is a complete shell line (or several), already quoted; its output and errors are kept together as `out`.
    `before` lines run first, each only when the one before it succeeded, kept as `before`; when one fails the job
    is skipped. `around` runs right before and right after the command, kept as `pre` and `post`; it must be short and end
    by itself.
    The command is ended after `timeout_s`, the `before` lines together after `before_timeout_s` (default: 600 s, or
    timeout_s where that is longer).
    """

    id: str
    command: str
    before: tuple[str, ...] = ()
    timeout_s: float = 60.0
    around: str = ""
    before_timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"job id {self.id!r} is not 1 to 40 of a-z, 0-9, dot and dash")
        if not 0 < self.timeout_s < 1e6:
            raise ValueError(f"job {self.id}: a timeout of {self.timeout_s} s makes no sense")

    @property
    def limits(self) -> tuple[int, int]:
        """Whole seconds that the board grants the command and the lines before it."""
        before = self.before_timeout_s or max(_BEFORE_S, self.timeout_s)
        return math.ceil(self.timeout_s), math.ceil(before)


@dataclass(frozen=True)
class JobResult:
    """What became of a job.

    `rc` is the command's exit status (143 or 137 when ended at its deadline), that of the failed line when skipped,
    None when even that is unknown. `started` is the board's uptime and `seconds` the command's duration by it, both
    to 0.01 s. `raw` has the complete output by kind: out, before, pre, post, kernel (what the kernel logged since the
    job before, at most the last 200 lines); empty kinds are left out, except `out` of a job that ran.
    `cut` names kinds of which only the first bytes were kept.
    """

    id: str
    rc: int | None
    started: float
    seconds: float
    raw: Mapping[str, bytes]
    skipped: str | None = None
    timed_out: bool = False
    cut: frozenset[str] = frozenset()


@dataclass(frozen=True)
class BatchResult:
    """All jobs in order, and what the way cost.

    bytes_up and bytes_down are all bytes of the batch over the console, frame_bytes those of the frames alone.
    `silent`: the kernel's console level was 1 while measuring. `digest` is the tool that the board checks with; other than
    sha256sum it is a weaker one for want of a better.
    """

    jobs: tuple[JobResult, ...]
    bytes_up: int
    bytes_down: int
    frames: int
    refetched: int
    encoding: str
    compression: str
    frame_bytes: int = 0
    digest: str = ""
    silent: bool = False


@dataclass(frozen=True)
class Progress:
    """A job ended: how many of how many are done, which one it was, its exit status (None: unknown) and seconds."""

    done: int
    total: int
    job: str
    rc: int | None
    seconds: float


@dataclass(frozen=True)
class Places:
    """Where things are on the board.

    Of the temporary directories the first that is a tmpfs is taken, else the first writable one. The board's part of
    the batch stays in `runtime` for the next batch of the boot, which is then shorter by it; /dev lies in memory on
    every board, so it goes with the boot.
    """

    temporary: tuple[str, ...] = ("$TMPDIR", "/tmp", "/dev/shm", "/run", "/data/local/tmp", "/dev")  # noqa: S108
    printk: str = "/proc/sys/kernel/printk"
    runtime: str = "/dev/farm.sh"


def run_batch(
    wire: Wire,
    jobs: Sequence[Job],
    *,
    on_progress: Callable[[Progress], None] = lambda step: None,
    places: Places = Places(),
    quick: bool = False,
    turn: AbstractContextManager[object] | None = None,
) -> BatchResult:
    """Run jobs one after the other at the prompt of the board's shell and return their output.

    Afterwards the shell is at its prompt again. A `quick` batch is packed with less effort. `turn` is held while jobs
    run, and neither while they go up nor while their output comes back.

    Raises BoardError (step upload or batch) when the board cannot run a batch, shows no progress by the deadline of the
    job that it is at, or sends a frame damaged again and again. Raises ValueError for no jobs or ids that are not unique.
    """
    if not jobs or len({job.id for job in jobs}) != len(jobs):
        raise ValueError("a batch needs jobs with unique ids")
    packers = _QUICK if quick else _PACKERS
    lines = Lines(wire, new_marker())
    return _Batch(lines, tuple(jobs), on_progress, places, packers, turn or nullcontext()).run()


def capture(wire: Wire, script: str, timeout_s: float, *, places: Places = Places()) -> bytes:
    """Output of a shell script (stdout and stderr, first MiB), fetched as a batch of one job.

    Its exit status is ignored. Raises BoardError when it does not end within timeout_s.
    """
    (job,) = run_batch(wire, [Job("script", script, timeout_s=timeout_s)], places=places, quick=True).jobs
    if job.timed_out:
        raise BoardError(f"a script on the board did not end within {timeout_s:.0f} s", step="batch")
    return job.raw["out"]


def runtime_script(places: Places, tools: frozenset[str]) -> str:
    """What every batch on a board needs: batch.sh without its comments, for the tools that the board has."""
    settings = {
        "printk": places.printk,
        "temporary": " ".join(places.temporary),
        "digest": chosen(DIGESTS, tools),
        "encoder": ENCODERS[chosen(ENCODERS, tools)],
        "shell": "exec sh -c" if "sh" in tools else "eval",
    }
    template = resources.files("farm.board").joinpath("batch.sh").read_text(encoding="utf-8")
    lines = [line for line in template.splitlines() if line and not line.startswith("#")]
    return re.sub(r"@([a-z]+)@", lambda found: settings[found[1]], "\n".join(lines))


def jobs_script(jobs: Sequence[Job], limit: int, packers: str) -> str:
    """The batch itself, for the functions of batch.sh; limit is the most bytes kept of one kind of one job."""
    # One byte more than is kept shows that there was more.
    lines = [f"n={len(jobs)} L={limit + 1} A=", "a"]
    around = ""
    for job in jobs:
        if job.around != around:
            around = job.around
            lines.append(f"A={shlex.quote(around)}")
        before = "\n".join(f"{{ {line}\n}}||exit" for line in job.before)
        words = [job.command, before] if before else [job.command]
        lines.append(" ".join(["j", job.id, *map(str, job.limits), *map(shlex.quote, words)]))
    return "\n".join([*lines, f"g {packers}"])


@dataclass
class _Batch:
    lines: Lines
    jobs: tuple[Job, ...]
    on_progress: Callable[[Progress], None]
    places: Places
    packers: str
    turn: AbstractContextManager[object]
    held: ExitStack = field(default_factory=ExitStack)
    tools: frozenset[str] = frozenset()
    done: int = 0
    frame_count: int = 0
    frame_bytes: int = 0
    refetched: int = 0

    def run(self) -> BatchResult:
        with self.held:
            return self._run()

    def _run(self) -> BatchResult:
        limit = max(_SMALLEST_KIND, min(KIND_LIMIT, BATCH_LIMIT // len(self.jobs)))
        self.tools = start(
            self.lines,
            self.places.runtime,
            lambda tools: runtime_script(self.places, tools),
            jobs_script(self.jobs, limit, self.packers),
            lambda: self.held.enter_context(self.turn),
        )
        manifest = self._wait_for_jobs()
        self.held.close()
        most = len(self.jobs) * (len(_KINDS) * (limit + 1) + 200)
        if manifest.size > most:
            raise self.lines.error(
                f"the board announces {manifest.size} bytes, more than it was allowed to keep"
            )
        packed = self._fetch(manifest)
        try:
            results = read_stream(frames.unpack(packed, manifest.compression, most), self.jobs, limit)
        except Damaged as problem:
            raise self.lines.error(
                f"what was fetched is not what the board's script writes: {problem}"
            ) from None
        self._quit()
        return BatchResult(
            jobs=results,
            bytes_up=self.lines.up,
            bytes_down=self.lines.down,
            frames=self.frame_count,
            refetched=self.refetched,
            encoding=chosen(ENCODERS, self.tools),
            compression=manifest.compression,
            frame_bytes=self.frame_bytes,
            digest=chosen(DIGESTS, self.tools),
            silent=manifest.printk == "1",
        )

    def _wait_for_jobs(self) -> Manifest:
        """Until the board says what there is to fetch.

        It is silent while it measures only, so silence for longer than a command may take (or the next one, should a
        line have been lost) is a board that hangs. A line that may have been one, damaged, starts the clock anew.
        """
        since, asked, questions = time.monotonic(), 0.0, 0
        # However much a board babbles, its jobs end.
        end = since + sum(map(_allowance, self.jobs)) + _PACK_S
        while True:
            line = self.lines.next(1.0)
            now = time.monotonic()
            if line is not None:
                if manifest := self._manifest(line):
                    return manifest
                if (
                    self._at_work(line)
                    or self._progress(line)
                    or (b"@" in line and self.done < len(self.jobs))
                ):
                    since = now
            if now > end:
                raise self.lines.error(f"not done by its deadline: {self._position()}")
            left = self.jobs[self.done : self.done + 2]
            allowed = max(map(_silence, left), default=_PACK_S)
            # The manifest may have been lost. Once no job can be running, a question disturbs none.
            quiet = now - max(self.lines.quiet_since, asked)
            if quiet > (self.lines.patience if questions < _TRIES else 20) and (
                not left or now - since > allowed
            ):
                self.lines.send("h")
                asked, questions = now, questions + 1
            if now - since > allowed + 3 * self.lines.patience:
                raise self.lines.error(f"no progress for {now - since:.0f} s: {self._position()}")

    def _at_work(self, line: bytes) -> bool:
        """Whether the board says which job it is at, or (without a number) that all have ended."""
        found = _AT_WORK.fullmatch(self.lines.ours(line) or b"")
        if not found or (number := int(found[1] or len(self.jobs) + 1)) > len(self.jobs) + 1:
            return False
        self._reached(max(self.done, number - 1))
        return True

    def _reached(self, done: int) -> None:
        self.done = done
        if done == len(self.jobs):
            self.held.close()

    def _position(self) -> str:
        if self.done == len(self.jobs):
            return f"all {self.done} jobs had ended, their output was not packed yet"
        return f"it was at job {self.done + 1}/{len(self.jobs)}, {self.jobs[self.done].id!r}"

    def _progress(self, line: bytes) -> bool:
        found = _PROGRESS.search(line)
        if not found:
            return False
        done, total = int(found[1]), len(self.jobs)
        if not self.done < done <= total or self.jobs[done - 1].id != found[2].decode():
            return False
        self._reached(done)
        rc = None if found[3] == b"-" else int(found[3])
        self.on_progress(Progress(done, total, self.jobs[done - 1].id, rc, float(found[4])))
        return True

    def _verified(self, line: bytes) -> bytes | None:
        """Text of a line of ours when its digest fits."""
        text = self.lines.ours(line)
        try:
            return None if text is None else frames.verified(text, chosen(DIGESTS, self.tools))
        except Damaged:
            return None

    def _manifest(self, line: bytes) -> Manifest | None:
        body = self._verified(line)
        if body is None:
            return None
        if body == b"!":
            raise self.lines.error(
                f"none of {', '.join(self.places.temporary)} is a directory that can be written"
            )
        try:
            return frames.read_manifest(body)
        except Damaged:
            return None

    def _frame(self, line: bytes) -> Frame | None:
        body = self._verified(line)
        try:
            frame = None if body is None else frames.read_frame(body, chosen(ENCODERS, self.tools))
        except Damaged:
            return None
        if frame:
            self.frame_count += 1
            self.frame_bytes += len(line) + 2
        return frame

    def _fetch(self, manifest: Manifest) -> bytes:
        """The packed stream, whole and verified, frame by frame."""
        for _ in range(2):
            assembly = Assembly(manifest.size)
            size = FRAME
            while (gap := assembly.gap()) is not None:
                offset, length = gap
                for attempt in range(_TRIES):
                    self.refetched += attempt > 0
                    # ever smaller, so that one gets through between kernel lines
                    if attempt > 1:
                        size = max(_SMALLEST_FRAME, size // 2)
                    if frame := self._ask(offset, min(size, length)):
                        assembly.add(frame)
                        size = min(FRAME, size * 2) if attempt == 0 else size
                        break
                else:
                    raise self.lines.error(
                        f"frame {offset // FRAME} (from byte {offset} of {assembly.size}) came damaged or not at all, "
                        f"{_TRIES} times"
                    )
            packed = assembly.join()
            if frames.digest(packed, chosen(DIGESTS, self.tools)) == manifest.digest:
                return packed
        raise self.lines.error("all frames are right by themselves, but the whole is not")

    def _ask(self, offset: int, length: int) -> Frame | None:
        """The frame at offset; None when it came damaged, or the board has been quiet for a while."""
        self.lines.send(f"f {offset} {length}")
        self.lines.quiet_since = asked = time.monotonic()
        while (now := time.monotonic()) - self.lines.quiet_since < self.lines.patience:
            # at 9600 baud a byte takes two milliseconds in base64, and a babbling board is not heard for ever
            if now - asked > 30 + length / 100:
                return None
            line = self.lines.next(0.5)
            if line is None:
                continue
            frame = self._frame(line)
            if frame and frame.offset == offset and frame.data:
                return frame
            if frame is None and self.lines.ours(line) is not None and b"=" not in line[:12]:
                return None
        return None

    def _quit(self) -> None:
        for _ in range(3):
            self.lines.send("q")
            if self.lines.wait(lambda text: True if text == b"bye" else None, self.lines.patience):
                return
            # `bye` may have been lost: only a shell at its prompt answers to this.
            self.lines.send(f' echo "@""{self.lines.marker}" bye')
            if self.lines.wait(lambda text: True if text == b"bye" else None, self.lines.patience):
                return
        raise self.lines.error("the shell did not come back after the batch")


def _silence(job: Job) -> float:
    """Seconds for which nothing need be heard of a board that is at a job."""
    return _BEAT_S + job.limits[0] + (_AROUND_S if job.around else 0) + _SLACK_S


def _allowance(job: Job) -> float:
    """Seconds in which a job must have ended, whatever it does."""
    command, before = job.limits
    return command + (before if job.before else 0) + (_AROUND_S if job.around else 0) + _SLACK_S


def read_stream(stream: bytes, jobs: Sequence[Job], limit: int) -> tuple[JobResult, ...]:
    """Results of the jobs from the unpacked stream: a line for each, one for each of their kinds, `.`, all kinds' bytes.

    A job's line is `STATUS UPTIME UPTIME .LATE`, where LATE has the letters of what was ended at its limit. A kind's is
    what wc prints, `SIZE kNUMBERLETTER`, NUMBER from 100001 for the first job, in the order of the names; then wc's total.
    A kind of more than limit bytes is cut there. Raises Damaged when the stream is anything else.
    """
    *entries, rest = stream.split(b"\n", len(jobs))
    sizes, dot, body = rest.partition(b"\n.\n")
    if len(entries) != len(jobs) or not dot:
        raise Damaged(f"an index of {len(entries)} jobs where {len(jobs)} ran")
    raw: list[dict[str, bytes]] = [{} for _ in jobs]
    at, last = 0, ""
    for line in sizes.decode("ascii", "replace").split("\n"):
        if _TOTAL.fullmatch(line):
            continue
        size = _SIZE.fullmatch(line)
        name = size[2] + size[3] if size else ""
        if not size or name <= last or not 0 < (number := int(size[2]) - _FIRST) <= len(jobs):
            raise Damaged(f"index line {line[:80]!r}")
        raw[number - 1][_KINDS[size[3]]] = body[at : at + int(size[1])]
        at, last = at + int(size[1]), name
    if at != len(body):
        raise Damaged(f"{len(body)} bytes where the index has {at}")
    results = []
    for job, entry, kinds in zip(jobs, entries, raw, strict=True):
        found = _INDEX.fullmatch(entry.decode("ascii", "replace"))
        if not found:
            raise Damaged(f"index line {entry[:80]!r}")
        results.append(_result(job, found, kinds, limit))
    return tuple(results)


def _result(job: Job, entry: re.Match[str], raw: dict[str, bytes], limit: int) -> JobResult:
    late = {_KINDS[letter] for letter in entry[4]}
    rc = None if entry[1] == "-" else int(entry[1])
    skipped = None
    if "out" not in raw:
        skipped = (
            f"the lines before it did not end within {job.limits[1]} s"
            if "before" in late
            else f"a line before it failed with exit status {'unknown' if rc is None else rc}"
        )
    return JobResult(
        id=job.id,
        rc=rc,
        started=float(entry[2]),
        seconds=round(float(entry[3]) - float(entry[2]), 2),
        raw={kind: data[:limit] for kind, data in raw.items() if data or kind == "out"},
        skipped=skipped,
        timed_out="out" in late,
        cut=frozenset(kind for kind, data in raw.items() if len(data) > limit),
    )
