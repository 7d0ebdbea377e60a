"""A campaign: boards x variants x workloads with a replication policy, from one YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    field_validator,
    model_validator,
)

from farm import bootargs, yamlfile
from farm.complaint import Where, shown
from farm.errors import UserError
from farm.paths import NAME
from farm.quantity import Band, Duration
from farm.workload import matrix
from farm.workload.model import Workload
from farm.yamlfile import Document

DEFAULT_BAND = 0.03

_OF_ENVS = {
    "targets": "this is a board's env file and no campaign; name a campaign, and the board with --board or boards:"
}

ExpectValue = bool | int | float | str | tuple[object, ...]


def _expected(value: object) -> ExpectValue:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and value:
        return tuple(value)
    raise ValueError(f"{shown(value)} is no value to expect; write text or a number")


def _reference(value: object) -> object:
    """An entry of `images:` in the env, or a path beside the campaign file."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty; name an entry of the env's images: or a path, or remove it")
    return value


Reference = Annotated[
    Annotated[str, Field(max_length=4096)] | None,
    BeforeValidator(_reference),
    Field(default=None, description="the name of an entry of the env's images:, or a path"),
]


def _knob(value: object) -> object:
    if isinstance(value, bool) or value is None:
        raise ValueError("holds no text or number; put the value in quotes, for example '1' or 'none'")
    return str(value) if isinstance(value, (int, float)) else value


KnobValue = Annotated[str, BeforeValidator(_knob), Field(max_length=200, pattern=r"^[^\n]*$")]


class Variant(BaseModel):
    """What differs. Images are names of the env's `images:` or paths relative to the campaign file; None is golden."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    baseline: bool = Field(
        default=False, description="true for the one variant that others are compared with"
    )
    kernel: Reference = None
    dtb: Reference = None
    initrd: Reference = None
    modules: Reference = None
    args: Annotated[str, AfterValidator(bootargs.checked)] = Field(
        default="", description="kernel arguments that are added to the env's"
    )
    knobs: Mapping[str, KnobValue] = Field(
        default={}, description="a mapping such as {queue/read_ahead_kb: 1024}"
    )
    expect: Mapping[str, Annotated[ExpectValue, PlainValidator(_expected)]] = Field(
        default={}, description="a mapping of facts to values, such as {read_ahead_kb: 1024}"
    )

    @field_validator("knobs")
    @classmethod
    def _knobs(cls, knobs: Mapping[str, str]) -> Mapping[str, str]:
        for path in knobs:
            if not re.fullmatch(r"[A-Za-z0-9_.:,+@/-]+", path) or path.endswith("/") or "//" in path:
                raise ValueError(f"{shown(path)} is no sysfs path; write for example queue/read_ahead_kb")
            if ".." in path.split("/"):
                raise ValueError(f"{shown(path)} has '..' in it; write the path out")
            if path.startswith("/") and not path.startswith(("/sys/", "/proc/sys/")):
                raise ValueError(
                    f"{shown(path)} lies outside /sys and /proc/sys; use queue/... for the disk or a path in there"
                )
        return knobs

    @field_validator("expect")
    @classmethod
    def _expect(cls, expect: Mapping[str, ExpectValue]) -> Mapping[str, ExpectValue]:
        for name, value in expect.items():
            if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", name):
                raise ValueError(f"{shown(name)} is no name of a fact; write for example read_ahead_kb")
            if isinstance(value, tuple) and name != "dmesg":
                raise ValueError(f"{name} takes one value, not a list; only dmesg takes a list")
            if name == "kernel" and (not isinstance(value, str) or not value.strip()):
                raise ValueError("kernel takes a part of the banner as text; put it in quotes")
            if name == "dmesg":
                _check_patterns(value)
        return expect


def _check_patterns(value: ExpectValue) -> None:
    for pattern in value if isinstance(value, tuple) else (value,):
        if not isinstance(pattern, str):
            raise ValueError("dmesg takes regular expressions as text; put them in quotes")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"dmesg: {shown(pattern)} is no regular expression ({error})") from None


def _flat_expect(data: Any) -> Any:
    """`ios: {timing: mmc HS200}` is `ios.timing: mmc HS200`."""
    if not isinstance(data, dict):
        return data
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            for inner, item in value.items():
                flat[f"{key}.{inner}"] = item
        else:
            flat[key] = value
    return flat


class Campaign(BaseModel):
    """One campaign, its matrix expanded. Times in seconds, band as a fraction; `boots` is per variant and board.

    With `least_boots` below `boots`, the run looks after each block from that many boots per variant on, and a board
    that is settled stops. A band of "measured" is what noise alone moves, by the board's newest A/A run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = Field(pattern=NAME, description="a short name of letters, digits, '.', '_' and '-'")
    description: str = Field(default="", max_length=10_000)
    boards: tuple[str, ...] = Field(description="a list of board names, paths of env files, or tags")
    count: int | None = Field(default=None, description="how many boards of a tag take part")
    variants: Mapping[str, Variant] = Field(description="a mapping of names to what differs")
    workloads: tuple[Workload, ...] = Field(description="a list of workloads")
    boots: int = Field(
        default=8, ge=2, le=1000, strict=True, description="an even number of boots per variant"
    )
    least_boots: int
    trials: int = Field(
        default=3, ge=1, le=1000, strict=True, description="a number of trials of each workload in a boot"
    )
    band: float | Literal["measured"] = DEFAULT_BAND
    idle_s: float = 0.0
    seed: int | None = None
    source: Path
    source_text: str

    _document: Document | None = PrivateAttr(default=None)
    _entries: Mapping[str, Where] = PrivateAttr(default={})

    @property
    def baseline(self) -> str:
        """The name of the variant that the others are compared with."""
        return next(name for name, variant in self.variants.items() if variant.baseline)

    @property
    def looks(self) -> int:
        """How often the run looks whether a board is settled; 1, at the end, where the boots are fixed."""
        return (self.boots - self.least_boots) // 2 + 1

    @property
    def own_bands(self) -> dict[str, float | Literal["measured"]]:
        """The bands of workloads that have one of their own."""
        return {one.name: one.band for one in self.workloads if one.band is not None}

    def band_for(self, workload: Workload) -> float | Literal["measured"]:
        """The band that holds for a workload: its own, else the campaign's."""
        return self.band if workload.band is None else workload.band

    def entry(self, workload: str) -> Where:
        """The place of the entry that a workload comes from, for `complain`."""
        return self._entries.get(workload, ("workloads",))

    def complain(self, message: str, *where: str | int) -> UserError:
        """A UserError that points into the campaign's file, such as `complain("...", "variants", "a", "kernel")`."""
        if self._document is None:
            return UserError(message, file=self.source)
        return self._document.complain(message, *where).error()


class _UntilSettled(BaseModel):
    """`boots: {min: 6, max: 12}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min: int = Field(ge=4, le=1000, strict=True, description="an even number of boots per variant, 4 or more")
    max: int = Field(ge=4, le=1000, strict=True, description="an even number of boots per variant, above min")

    @field_validator("min", "max")
    @classmethod
    def _whole_blocks(cls, boots: int) -> int:
        return _even(boots)

    @model_validator(mode="after")
    def _ordered(self) -> _UntilSettled:
        if self.max <= self.min:
            raise ValueError(
                f"max {self.max} is not above min {self.min}; raise max, or write boots: {self.min}"
            )
        return self


def _even(boots: int) -> int:
    if boots % 2:
        raise ValueError(
            f"{boots} is odd; a block is an order of the variants and its mirror, so use {boots - 1 or 2} "
            f"or {boots + 1}"
        )
    return boots


class _File(BaseModel):
    """The file as it is written, but for the workloads, which `matrix` reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=NAME, description="a short name of letters, digits, '.', '_' and '-'")
    description: str = Field(default="", max_length=10_000, description="text for people")
    boards: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(
        min_length=1, description="a list of board names, paths of env files, or tags, such as [board=rk3568]"
    )
    count: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        strict=True,
        description="how many boards of a tag take part, such as 3",
    )
    variants: dict[str, Variant] = Field(
        description="a mapping of names to what differs, one of them with baseline: true"
    )
    workloads: Any = Field(
        description="a list of workloads, such as [{tool: fio, rw: read, bs: 1M, size: 64M}]"
    )
    boots: int = Field(
        default=8, ge=2, le=1000, strict=True, description="an even number of boots per variant, such as 8"
    )
    trials: int = Field(
        default=3, ge=1, le=1000, strict=True, description="the number of runs of each workload in a boot"
    )
    band: Band = Field(
        default=DEFAULT_BAND, description="the smallest change that matters, such as 3%, or measured"
    )
    idle: Duration = Field(default=0.0, le=3600, description="a time to rest before each run, such as 1s")
    seed: int | None = Field(
        default=None, ge=0, lt=2**63, strict=True, description="a number for the boots' order"
    )

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("variants"), dict):
            return data
        variants = {
            name: {**one, "expect": _flat_expect(one["expect"])}
            if isinstance(one, dict) and "expect" in one
            else one
            for name, one in data["variants"].items()
        }
        return {**data, "variants": {name: {} if one is None else one for name, one in variants.items()}}

    @field_validator("boots")
    @classmethod
    def _whole_blocks(cls, boots: int) -> int:
        return _even(boots)

    @field_validator("boards")
    @classmethod
    def _boards(cls, boards: tuple[str, ...]) -> tuple[str, ...]:
        for number, board in enumerate(boards):
            if board in boards[:number]:
                raise ValueError(f"names {shown(board)} twice; remove one")
        return boards


def load_campaign(path: Path | str) -> Campaign:
    """Read a campaign file and expand its matrix.

    Raises UserError with one line `FILE:LINE: key: what; remedy` for each thing that is wrong.
    """
    path = Path(path)
    document = yamlfile.read(path, foreign=_OF_ENVS)
    if not isinstance(document.data, dict):
        raise document.complain("is not a mapping of keys; begin with name: NAME").error()
    data, until = document.data, None
    if isinstance(data.get("boots"), dict):
        until = yamlfile.validate(document, _UntilSettled, data["boots"], ("boots",))
        data = {**data, "boots": until.max}
    file = yamlfile.validate(document, _File, data)
    _check_variants(document, file.variants)
    workloads = matrix.expand(document, ("workloads",), file.idle)
    campaign = Campaign(
        name=file.name,
        description=file.description,
        boards=file.boards,
        count=file.count,
        variants={name: one.model_copy(update={"name": name}) for name, one in file.variants.items()},
        workloads=tuple(workload for workload, _ in workloads),
        boots=file.boots,
        least_boots=until.min if until else file.boots,
        trials=file.trials,
        band=file.band,
        idle_s=file.idle,
        seed=file.seed,
        source=path.absolute(),
        source_text=document.text,
    )
    campaign._document = document
    campaign._entries = {workload.name: where for workload, where in workloads}
    return campaign


def _check_variants(document: Document, variants: Mapping[str, Variant]) -> None:
    wrong = []
    for name, variant in variants.items():
        if not re.fullmatch(NAME, name):
            said = "is no name of a variant; use up to 64 letters, digits, '.', '_' and '-'"
            wrong.append(document.complain(said, "variants", name))
        if variant.name:
            said = "is not a key that can stand here; the variant's key is its name"
            wrong.append(document.complain(said, "variants", name, "name"))
    baselines = [name for name, variant in variants.items() if variant.baseline]
    if not variants:
        wrong.append(document.complain("is empty; add a variant with baseline: true", "variants"))
    elif not baselines:
        wrong.append(document.complain("has no baseline; add baseline: true to one variant", "variants"))
    for name in baselines[1:]:
        said = f"is a second baseline beside {baselines[0]}; keep one"
        wrong.append(document.complain(said, "variants", name, "baseline"))
    if wrong:
        raise yamlfile.fail(wrong)


def as_run(campaign: Campaign, settings: Mapping[str, Any]) -> Campaign:
    """What a run with these settings (see RunRecord) does of the campaign in its file.

    With `aa` that is the baseline against itself, under a second name, in all its boots; a band that such a run has yet to
    measure is the default. With `confirms` it is the variants and workloads that the settings name. Everything else is
    the campaign as it is.
    """
    if settings.get("aa"):
        base = campaign.variants[campaign.baseline]
        again = f"{base.name[:58]}-again"
        return campaign.model_copy(
            update={
                "name": f"{campaign.name[:61]}-aa",
                "variants": {
                    base.name: base,
                    again: base.model_copy(update={"name": again, "baseline": False}),
                },
                "least_boots": campaign.boots,
                "band": DEFAULT_BAND if campaign.band == "measured" else campaign.band,
                "workloads": tuple(
                    one.model_copy(update={"band": None}) if one.band == "measured" else one
                    for one in campaign.workloads
                ),
            }
        )
    if settings.get("confirms"):
        return campaign.model_copy(
            update={
                "variants": {
                    name: one for name, one in campaign.variants.items() if name in settings["variants"]
                },
                "workloads": tuple(one for one in campaign.workloads if one.name in settings["workloads"]),
            }
        )
    return campaign
