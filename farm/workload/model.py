"""One cell of the matrix, validated: what fio or dd shall do, on what, in which state of the card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from farm.quantity import Band, Duration, Size, duration, parse_size, short_size

CRAWL = 1_000_000
"""Bytes/second, slower than any card that still works (a posted crawl was 1.7 MB/s); only deadlines are made of it."""
# Runs shorter than this are start-up cost and clock resolution (busybox `time` and /proc/uptime step by 10 ms).
_FLOOR_S = 0.1

# What a run that is told how long to take may take beside that: to start, and where it ends with a flush of what lies
# in memory. A board that hangs is noticed that much later.
_OVER_S, _FLUSH_S = 20.0, 60.0

Target = Literal["raw", "file"]
Rw = Literal["read", "write", "randread", "randwrite", "randrw", "trim", "randtrim"]
Engine = Literal["psync", "sync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap"]
SYNC_ENGINES = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"})


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Conditioning(_Closed):
    """The state that card and memory are brought to before a trial.

    `discard` and `prefill` together happen once a boot; `discard` alone before every trial.
    """

    discard: bool = Field(default=False, description="true to discard (TRIM) the scratch area before the run")
    prefill: bool = Field(default=False, description="true to write the area once a boot before it is used")
    idle_s: Duration = Field(default=0.0, le=3600, alias="idle", description="a time to rest before each run")
    drop_caches: bool = Field(
        default=True, description="true to sync and drop the page cache before each run"
    )


class _Common(_Closed):
    """What all tools share. Sizes in bytes, times in seconds."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
        description="a short name of letters, digits, '.', '_', '+' and '-'",
    )
    target: Target = Field(default="raw", description="raw (the scratch device) or file (on its file system)")
    conditioning: Conditioning = Conditioning()
    timeout_s: Duration = Field(gt=0, le=86400, alias="timeout", description="the time after which it hangs")
    floor_s: Duration = Field(alias="floor", le=86400, description="the time below which a run is void")
    band: Band | None = Field(
        default=None, description="the smallest change that matters, such as 3%, or measured"
    )

    @model_validator(mode="after")
    def _common(self) -> _Common:
        if self.conditioning.discard and self.target == "file":
            raise ValueError("discard works on the raw target only; remove it or write target: raw")
        if self.floor_s >= self.timeout_s:
            raise ValueError("floor is not below timeout; raise timeout")
        return self


class FioWorkload(_Common):
    """A run of fio with one job description; options mean what fio's manual says."""

    tool: Literal["fio"]
    rw: Rw = Field(description="one of read, write, randread, randwrite, randrw, trim, randtrim")
    bs: Size = Field(default=4096, ge=512, le=2**30, description="a block size such as 4k")
    size: Size = Field(ge=512, description="the size of the range that each job works on, such as 512M")
    rwmixread: int = Field(
        default=50, strict=True, ge=0, le=100, description="the percentage of reads in randrw"
    )
    iodepth: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=4096,
        description="a queue depth; above 1 it needs libaio or io_uring",
    )
    numjobs: int = Field(default=1, strict=True, ge=1, le=256, description="a number of jobs")
    ioengine: Engine = Field(default="psync", description="an engine of fio such as psync, libaio, io_uring")
    direct: bool = Field(default=True, description="true for O_DIRECT, false for buffered")
    thread: bool = Field(default=False, description="true for threads instead of processes")
    runtime_s: Duration | None = Field(
        default=None, gt=0, le=86400, alias="runtime", description="a time such as 5s"
    )
    ramp_s: Duration = Field(default=0.0, le=3600, alias="ramp", description="a time not counted, such as 1s")
    time_based: bool = Field(
        default=False,
        description="true to run for the whole runtime, whatever the size (default with runtime)",
    )
    offset_increment: Size = Field(
        default=0, description="the distance between the ranges of the jobs, such as 64M"
    )
    end_fsync: bool = Field(
        default=False, description="true to flush at the end (default for buffered writes)"
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """Defaults that follow from other keys; what does not fit is left for the field's own complaint."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        runtime = data.get("runtime", data.get("runtime_s"))
        if "time_based" not in data:
            data["time_based"] = runtime is not None
        if "end_fsync" not in data:
            data["end_fsync"] = data.get("direct") is False and data.get("rw") in (
                "write",
                "randwrite",
                "randrw",
            )
        return _deadlines(_drop_caches(data, data.get("direct") is False), cls._seconds)

    @staticmethod
    def _seconds(data: dict[str, Any]) -> tuple[float, float]:
        """The shortest run that counts and the longest that is waited for."""
        ramp = duration(data.get("ramp", data.get("ramp_s", 0)))
        runtime = data.get("runtime", data.get("runtime_s"))
        if runtime is not None and data.get("time_based") is True:
            # fio rounds to its own ticks; a run that ended well before its time was cut short by an error
            cached = data.get("direct") is False and data.get("rw") in ("write", "randwrite", "randrw")
            over = _FLUSH_S if cached else _OVER_S
            return max(_FLOOR_S, 0.9 * duration(runtime)), duration(runtime) + ramp + over
        total = parse_size(data["size"]) * int(data.get("numjobs", 1))
        longest = total / CRAWL + ramp + 60
        return _FLOOR_S, min(longest, duration(runtime) + ramp + 60) if runtime is not None else longest

    @model_validator(mode="after")
    def _fits(self) -> FioWorkload:
        if self.size < self.bs:
            raise ValueError(
                f"size {short_size(self.size)} is smaller than bs {short_size(self.bs)}; raise size"
            )
        if self.time_based and self.runtime_s is None:
            raise ValueError("time_based needs a runtime; add runtime: 5s")
        if self.ramp_s and self.runtime_s is None:
            # fio counts bytes moved during the ramp towards size, so a fast card would be done before it starts
            raise ValueError("ramp needs a runtime; add runtime: 5s or remove ramp")
        if self.rw in ("trim", "randtrim") and self.target == "file":
            raise ValueError("fio trims devices only; write target: raw")
        if self.offset_increment % 512 or self.size % 512:
            raise ValueError("size and offset_increment have to be multiples of 512 bytes")
        if self.direct and self.bs % 512:
            raise ValueError("bs has to be a multiple of 512 bytes with direct: true")
        return self

    @property
    def writes(self) -> bool:
        """Whether it changes what is on the target; trim does."""
        return self.rw not in ("read", "randread")

    @property
    def buffered(self) -> bool:
        """Whether the page cache stands between fio and the card."""
        return not self.direct

    @property
    def needed_bytes(self) -> int:
        """The part of the target, from its start, that the jobs may touch."""
        return (self.numjobs - 1) * self.offset_increment + self.size

    def bytes_written(self, trials: int, rate: float | None = None) -> int | None:
        """Upper bound of the bytes written or trimmed in `trials` runs, without conditioning.

        A run bound by time gives None, or runtime and ramp at `rate` bytes/second where one is given.
        """
        if not self.writes:
            return 0
        if self.time_based and self.runtime_s is not None:
            return None if rate is None else round((self.runtime_s + self.ramp_s) * rate) * trials
        return self.size * self.numjobs * trials

    def seconds(self, rate: float) -> float:
        """Expected seconds of one run on a card that moves `rate` bytes/second."""
        by_size = self.size * self.numjobs / rate
        if self.runtime_s is None:
            return by_size
        return self.ramp_s + (self.runtime_s if self.time_based else min(self.runtime_s, by_size))


class DdWorkload(_Common):
    """A run of dd: sequential, one request stream, buffered unless `direct`."""

    tool: Literal["dd"]
    rw: Literal["read", "write"] = Field(description="read or write")
    bs: Size = Field(
        default=512, ge=512, le=2**30, description="a block size such as 1M (dd's default is 512)"
    )
    count: int | None = Field(
        default=None,
        ge=1,
        le=2**50,
        strict=True,
        description="a number of blocks (a file without count is read to its end)",
    )
    size: Size = Field(
        ge=512, description="the size to move, or the size of the file that is read to its end"
    )
    direct: bool = Field(default=False, description="true for iflag=direct or oflag=direct")
    fsync: bool = Field(default=False, description="true for conv=fsync")

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        try:
            block = parse_size(data.get("bs", 512))
            if "size" not in data and isinstance(data.get("count"), int):
                data["size"] = block * data["count"]
            whole_file = data.get("target") == "file" and data.get("rw") == "read"
            if "count" not in data and not whole_file and parse_size(data["size"]) % block == 0:
                data["count"] = parse_size(data["size"]) // block
        except (ValueError, KeyError, ArithmeticError):
            pass  # the fields say what is wrong with it
        data = _drop_caches(data, data.get("direct") is not True)
        return _deadlines(data, lambda found: (_FLOOR_S, parse_size(found["size"]) / CRAWL + 60))

    @model_validator(mode="after")
    def _fits(self) -> DdWorkload:
        if self.count is None and not self.whole_file:
            raise ValueError("size is not a multiple of bs; change one of them")
        if self.count is not None:
            moved, part_of_file = self.count * self.bs, self.target == "file" and self.rw == "read"
            if moved != self.size and not (part_of_file and moved < self.size):
                raise ValueError(
                    f"count x bs is {moved} and size is {self.size} bytes; leave one of count and size out"
                )
        if self.fsync and self.rw == "read":
            raise ValueError("fsync belongs to rw: write; remove it")
        if self.direct and self.size % 512:
            raise ValueError("size has to be a multiple of 512 bytes with direct: true")
        return self

    @property
    def whole_file(self) -> bool:
        """Whether dd reads a file to its end, as `dd if=FILE of=/dev/null` does."""
        return self.count is None and self.target == "file" and self.rw == "read"

    @property
    def drop_caches(self) -> bool:
        """Whether the page cache is dropped before the run."""
        return self.conditioning.drop_caches

    @property
    def writes(self) -> bool:
        """Whether it changes what is on the target."""
        return self.rw == "write"

    @property
    def buffered(self) -> bool:
        """Whether the page cache stands between dd and the card."""
        return not self.direct

    @property
    def needed_bytes(self) -> int:
        """The part of the target, from its start, that dd touches."""
        return self.size

    def bytes_written(self, trials: int, rate: float | None = None) -> int | None:
        """Bytes written in `trials` runs, without conditioning; `rate` is not needed."""
        return self.size * trials if self.writes else 0

    def seconds(self, rate: float) -> float:
        """Expected seconds of one run on a card that moves `rate` bytes/second."""
        return self.size / rate


Workload = Annotated[FioWorkload | DdWorkload, Field(discriminator="tool")]


def _drop_caches(data: dict[str, Any], wanted: bool) -> dict[str, Any]:
    """Where nothing is said of it, caches are dropped for what goes through them."""
    given = data.get("conditioning", {})
    if isinstance(given, Conditioning):
        given = given.model_dump(exclude_unset=True)
    if isinstance(given, dict) and "drop_caches" not in given:
        data["conditioning"] = {**given, "drop_caches": wanted}
    return data


def _deadlines(
    data: dict[str, Any], seconds: Callable[[dict[str, Any]], tuple[float, float]]
) -> dict[str, Any]:
    """Fill in timeout and floor; with values that do not fit, the fields that hold them complain."""
    try:
        floor, timeout = seconds(data)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        floor, timeout = _FLOOR_S, 3600.0
    if data.get("timeout", data.get("timeout_s")) is None:
        data["timeout"] = round(min(timeout, 86400.0), 3)
    if data.get("floor", data.get("floor_s")) is None:
        data["floor"] = round(floor, 3)
    return data
