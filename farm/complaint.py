"""What pydantic found wrong, said in one sentence: where it is, what it is, and what would be right."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from farm.errors import UserError

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong in a file; `str()` gives `FILE:LINE: key.path: what; what would be right`."""

    message: str
    file: Path
    line: int | None = None
    key: str = ""

    def error(self) -> UserError:
        """The complaint as the exception that a command ends with."""
        return UserError(self.message, file=self.file, line=self.line, key=self.key or None)

    def __str__(self) -> str:
        return str(self.error())


def key_text(where: Where) -> str:
    """`("workloads", 0, "rw")` as people write it: `workloads[0].rw`."""
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else ("." if text else "") + printable(step)
    return text


def printable(text: str, limit: int = 60) -> str:
    """The text on one line, cut at `limit`, without anything that a terminal would obey."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


def shown(value: object) -> str:
    """A value as it is quoted in a sentence: one line, bounded."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{printable(value, 40)}'" if isinstance(value, str) else printable(str(value), 40)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'bs'?`, or the known words where none is near."""
    words = sorted(known)
    if close := difflib.get_close_matches(word, words, n=1, cutoff=0.6):
        return f"; did you mean '{close[0]}'?"
    return f"; known here: {', '.join(words)}" if words else "; remove it"


def explain(
    error: ValidationError, model: object, data: object, base: Where = ()
) -> Iterator[tuple[Where, str]]:
    """Where and what of each thing that pydantic found, for `data` of type `model` standing at `base`."""
    for detail in error.errors(include_url=False):
        at, kinds = _follow(model, data, detail["loc"])
        yield (*base, *at), _sentence(detail, kinds, at)


def _follow(model: object, data: object, loc: Sequence[str | int]) -> tuple[Where, list[object]]:
    """pydantic's location without the tags of unions, and the types of what holds its last step."""
    at: list[str | int] = []
    kinds = list(_options(model))
    holders = kinds
    for number, step in enumerate(loc):
        if isinstance(step, str) and (tagged := [kind for kind in kinds if step in _tags(kind)]):
            kinds = holders = tagged
            continue
        inside = (isinstance(data, Mapping) and step in data) or (
            isinstance(data, Sequence)
            and not isinstance(data, str)
            and isinstance(step, int)
            and step < len(data)
        )
        if not inside and number < len(loc) - 1:
            continue
        if not inside and not isinstance(data, Mapping):
            continue  # a step into a union or a function, not into the data
        holders = kinds
        kinds = [option for kind in kinds for option in _step(kind, step)]
        at.append(step)
        data = data[step] if inside else None  # type: ignore[index]
    return tuple(at), holders


def _options(kind: object) -> Iterator[object]:
    """The types that a type stands for: without Annotated, Optional and unions."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _options(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for option in get_args(kind):
            yield from _options(option)
    elif kind is not type(None):
        yield kind


def _model(kind: object) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _fields(kind: object) -> dict[str, FieldInfo]:
    model = _model(kind)
    if model is None:
        return {}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _tags(kind: object) -> set[object]:
    """What a model's one-word Literal fields say: the tags by which a discriminated union tells it."""
    return {
        word
        for field in _fields(kind).values()
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        for word in get_args(field.annotation)
    }


def _step(kind: object, step: str | int) -> Iterator[object]:
    if _model(kind) is not None:
        model = _model(kind)
        assert model is not None
        field = _fields(kind).get(str(step)) or model.model_fields.get(str(step))
        if field is not None:
            yield from _options(field.annotation)
        return
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if args:
        yield from _options(args[-1])


def _description(kinds: Iterable[object], key: object) -> str:
    for kind in kinds:
        field = _fields(kind).get(str(key))
        if field is not None and field.description:
            return field.description
    return ""


def _sentence(detail: ErrorDetails, holders: list[object], at: Where) -> str:
    kind, given, context = detail["type"], shown(detail.get("input")), detail.get("ctx", {})
    last = at[-1] if at else ""
    described = _description(holders, last)
    remedy = f"; it is {described}" if described else ""
    match kind:
        case "missing":
            return f"is missing{remedy or '; add it'}"
        case "extra_forbidden":
            return f"is not a key that can stand here{nearest(str(last), _known(holders))}"
        case "literal_error" | "enum":
            return f"{given} is not possible; use {_or(str(context.get('expected', '')))}"
        case "union_tag_invalid":
            key = str(context.get("discriminator", "")).strip("'")
            tag = f"'{printable(str(context.get('tag', '')), 40)}'"
            return f"{key} {tag} is not known; use {_or(str(context.get('expected_tags', '')))}"
        case "union_tag_not_found":
            return f"has no {str(context.get('discriminator', '')).strip(chr(39))}; add it"
        case "value_error" | "assertion_error":
            return " ".join(str(context.get("error", detail["msg"])).split())
        case "string_pattern_mismatch":
            return f"{given} does not fit" + (remedy or f"; it has to match {context.get('pattern')}")
    named = _TYPE_NAMES.get(kind.rpartition("_")[0] if kind.endswith(("_type", "_parsing")) else kind)
    if named:
        return f"{given} is not {named}{remedy}"
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{given}: {message.replace('input ', '')}{remedy}" if "input" in detail else message + remedy


_TYPE_NAMES = {
    "int": "a whole number",
    "int_from_float": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text (put it in quotes)",
    "list": "a list; write [a, b]",
    "tuple": "a list; write [a, b]",
    "dict": "a mapping; write key: value",
    "mapping": "a mapping; write key: value",
    "model": "a mapping; write key: value",
    "model_attributes": "a mapping; write key: value",
    "dict_attributes": "a mapping; write key: value",
}


def _known(holders: Iterable[object]) -> set[str]:
    return {name for holder in holders for name in _fields(holder)}


def _or(words: str) -> str:
    return words.replace("'", "").replace(" or ", ", ")
