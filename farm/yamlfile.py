"""YAML file -> validated model; every complaint is one sentence with file, line and key, and nothing is a traceback."""

from __future__ import annotations

import math
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from farm import complaint
from farm.complaint import Complaint, Where, key_text, shown
from farm.errors import UserError

M = TypeVar("M", bound=BaseModel)

# A campaign of hundreds of cells is some 20 kB. Beyond these a file is a mistake or an attack (alias bombs,
# deep nesting), and reading it would cost seconds or the stack.
MAX_BYTES = 256 * 1024
MAX_DEPTH = 30
MAX_VALUES = 10_000

_TAG = "tag:yaml.org,2002:"
_construct = yaml.constructor.SafeConstructor()


@dataclass(frozen=True)
class Document:
    """A YAML file as plain dicts, lists and scalars, with the line of every key and item."""

    path: Path
    text: str
    data: Any
    lines: Mapping[Where, int]

    def line(self, where: Where) -> int:
        """The line (from 1) of a key or item, or of the nearest thing around it that exists."""
        for end in range(len(where), -1, -1):
            if (found := self.lines.get(where[:end])) is not None:
                return found
        return 1

    def complain(self, message: str, *where: str | int) -> Complaint:
        """A complaint about the value at `where`, for example `complain("...", "variants", "ra128", "kernel")`."""
        return Complaint(message, self.path, self.line(where), key_text(where))


def load(path: Path | str, model: type[M], *, variables: Mapping[str, str] | None = None) -> M:
    """Read the file as `model`.

    `variables` are what `!template` may use beside `$BASE` (the directory of the file).
    Raises UserError with one line for each thing that is wrong.
    """
    return validate(read(path, variables=variables), model)


def validate(document: Document, model: type[M], data: object = None, where: Where = ()) -> M:
    """The document (or `data`, which stands at `where` in it) as `model`; raises UserError."""
    value = document.data if data is None and not where else data
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise fail(
            document.complain(message, *at) for at, message in complaint.explain(error, model, value, where)
        ) from None
    except ArithmeticError:  # a number that no type here can hold; pydantic lets it through from a validator
        raise document.complain("holds a number that is far too large", *where).error() from None


def fail(complaints: Iterable[Complaint]) -> UserError:
    """One UserError of all complaints, equal ones once, in the order of their lines."""
    ordered = sorted(dict.fromkeys(complaints), key=lambda entry: entry.line or 0)
    if len(ordered) == 1:
        return ordered[0].error()
    lines = [str(entry) for entry in ordered[:20]]
    if len(ordered) > 20:
        lines.append(f"{ordered[0].file}: and {len(ordered) - 20} more like these")
    return UserError("\n".join(lines))


def read(
    path: Path | str,
    *,
    variables: Mapping[str, str] | None = None,
    foreign: Mapping[str, str] | None = None,
) -> Document:
    """Parse the file without looking at what it means. Raises UserError for everything that is not sound YAML.

    `foreign` are keys at the top that only another kind of file has, with what then is said instead of all else.
    """
    path = Path(path)
    text = _text(path)
    _bounded(path, text)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _syntax(path, text, error).error() from None
    if node is None:
        raise Complaint("is empty; the keys are missing", path).error()
    for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key_node, yaml.ScalarNode) and key_node.value in (foreign or {}):
            line = key_node.start_mark.line + 1
            raise Complaint((foreign or {})[key_node.value], path, line, key_node.value).error()
    tree = _Tree(path, {"BASE": str(path.parent.absolute()), **(variables or {})})
    data = tree.value(node, ())
    if tree.complaints:
        raise fail(tree.complaints)
    return Document(path, text, data, tree.lines)


def _text(path: Path) -> str:
    try:
        # a pipe would be waited for, and a directory or device is no campaign
        if path.exists() and not path.is_file():
            raise UserError("is no file; give the path of a YAML file", file=path)
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UserError("there is no such file; check the path", file=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot be read ({reason}); give the path of a readable file", file=path) from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"is larger than {MAX_BYTES // 1024} KiB; that is no farm YAML file", file=path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError("is not UTF-8 text; save it as UTF-8", file=path, line=line) from None


def _bounded(path: Path, text: str) -> None:
    """Refuse what the composer, which recurses, must not see: nesting too deep, too many values, two documents."""
    depth = values = documents = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else None
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            values += 1
            if depth > MAX_DEPTH:
                raise UserError(f"is nested deeper than {MAX_DEPTH} levels; flatten it", file=path, line=line)
            if values > 2 * MAX_VALUES:
                raise UserError(f"holds more than {MAX_VALUES} values; make it smaller", file=path, line=line)
            if documents > 1:
                raise UserError(
                    "starts a second document; keep one per file, without `---`", file=path, line=line
                )
    except yaml.YAMLError as error:
        raise _syntax(path, text, error).error() from None
    except (ValueError, OverflowError):
        # PyYAML lets chr() fail on an escape such as "\UFFFFFFFF", without a mark
        raise UserError("has an escape sequence that is no character", file=path) from None


def _syntax(path: Path, text: str, error: yaml.YAMLError) -> Complaint:
    if isinstance(error, yaml.reader.ReaderError):
        position = error.position if isinstance(error.position, int) else 0
        return Complaint(
            "has a control character, so it is no text; remove it", path, text.count("\n", 0, position) + 1
        )
    if not isinstance(error, yaml.MarkedYAMLError):
        return Complaint("is not sound YAML", path)
    problem = " ".join((error.problem or error.context or "is not sound YAML").split())
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    remedies = (
        ("'\\t'", "a tab where YAML wants spaces; indent with spaces"),
        ("mapping values are not allowed", "a second colon on the line; put the value in quotes"),
        ("undefined alias", f"{problem}; define it with & above"),
        ("duplicate anchor", f"{problem}; rename one of them"),
    )
    for part, said in remedies:
        if part in problem:
            return Complaint(said, path, line)
    opened = error.context_mark
    since = (
        f" (in what begins on line {opened.line + 1})" if opened and line and opened.line + 1 != line else ""
    )
    return Complaint(f"not sound YAML: {problem}{since}; check indentation, quotes and brackets", path, line)


class _Tree:
    """Turns YAML nodes into plain values, keeping the line of each; complaints are collected, not raised."""

    def __init__(self, path: Path, variables: Mapping[str, str]) -> None:
        self.path, self.variables = path, variables
        self.lines: dict[Where, int] = {}
        self.complaints: list[Complaint] = []
        self._open: set[int] = set()
        self._values = 0

    def value(self, node: yaml.Node, where: Where) -> Any:
        self._values += 1
        if self._values > MAX_VALUES or len(where) > MAX_DEPTH:
            # aliases repeat what they name, so a few lines can mean billions of values
            raise self._at(node, where, f"its aliases expand to more than {MAX_VALUES} values").error()
        self.lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        if id(node) in self._open:
            raise self._at(node, where, "an alias stands inside what it names; write the value out").error()
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
                return self._mapping(node, where)
            if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
                return [self.value(item, (*where, number)) for number, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))
        self._wrong(node, where, f"the tag {_shown_tag(node.tag)} is not known here; remove it")
        return None

    def _at(self, node: yaml.Node, where: Where, message: str) -> Complaint:
        return Complaint(message, self.path, node.start_mark.line + 1, key_text(where))

    def _wrong(self, node: yaml.Node, where: Where, message: str) -> None:
        self.complaints.append(self._at(node, where, message))

    def _mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        found: dict[str, Any] = {}
        own: dict[str, int] = {}
        for key_node, value_node in self._pairs(node, where):
            key = self._key(key_node, where)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            if key in own:
                self.complaints.append(
                    Complaint(
                        f"stands twice, on lines {own[key]} and {line}; remove one",
                        self.path,
                        line,
                        key_text((*where, key)),
                    )
                )
                continue
            own[key] = line
            self.lines[(*where, key)] = line
            found[key] = self.value(value_node, (*where, key))
        return found

    def _pairs(
        self, node: yaml.MappingNode, where: Where, depth: int = 0
    ) -> Sequence[tuple[yaml.Node, yaml.Node]]:
        """The pairs of a mapping with YAML's merge key `<<` resolved: what stands in the mapping itself wins."""
        own = [pair for pair in node.value if pair[0].tag != _TAG + "merge"]
        merges = [pair[1] for pair in node.value if pair[0].tag == _TAG + "merge"]
        if not merges:
            return own
        if depth > MAX_DEPTH or id(node) in {id(merge) for merge in merges}:
            raise self._at(node, where, "`<<` merges a mapping into itself; write the keys out").error()
        taken = {pair[0].value for pair in own if isinstance(pair[0], yaml.ScalarNode)}
        merged = []
        for merge in merges:
            for source in merge.value if isinstance(merge, yaml.SequenceNode) else [merge]:
                if not isinstance(source, yaml.MappingNode):
                    self._wrong(source, where, "`<<` takes a mapping or a list of mappings")
                    continue
                for pair in self._pairs(source, where, depth + 1):
                    if isinstance(pair[0], yaml.ScalarNode) and pair[0].value not in taken:
                        taken.add(pair[0].value)
                        merged.append(pair)
                if len(merged) > MAX_VALUES:
                    raise self._at(node, where, f"`<<` merges more than {MAX_VALUES} keys").error()
        return [*merged, *own]

    def _key(self, node: yaml.Node, where: Where) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._wrong(node, where, "a list or mapping is used as a key; keys are plain words")
            return None
        kind = node.tag.removeprefix(_TAG)
        if kind in ("bool", "null", "merge", "binary") or node.tag == kind:
            self._wrong(node, where, f"the key {shown(node.value)} is not text; put it in quotes")
            return None
        if _unprintable(node.value):
            self._wrong(node, where, "a key holds a control character; remove it")
            return None
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, where: Where) -> Any:
        text, kind = node.value, node.tag.removeprefix(_TAG)
        if node.tag == "!template":
            return self._template(node, where)
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in _construct.bool_values:
            return _construct.bool_values[text.lower()]
        # 5:30 is 330 in YAML 1.1, and a date is a date object; people mean the text they wrote
        if kind in ("str", "timestamp", "value") or (kind in ("int", "float") and ":" in text):
            if _unprintable(text):
                self._wrong(node, where, "holds a control character; remove it")
                return None
            return text
        if kind in ("int", "float"):
            return self._number(node, where, kind)
        self._wrong(node, where, f"the tag {_shown_tag(node.tag)} is not known here; remove it")
        return None

    def _number(self, node: yaml.ScalarNode, where: Where, kind: str) -> int | float | None:
        try:
            number: int | float = (
                _construct.construct_yaml_int(node)
                if kind == "int"
                else _construct.construct_yaml_float(node)
            )
        except (ValueError, OverflowError, IndexError):
            self._wrong(node, where, f"{shown(node.value)} is not a number")
            return None
        # more digits than this are no size, time or count, and int() of thousands of digits is slow or refused
        if not math.isfinite(number) or abs(number) > 2**63:
            self._wrong(node, where, f"{shown(node.value)} is not a number that can be used here")
            return None
        return number

    def _template(self, node: yaml.ScalarNode, where: Where) -> str | None:
        try:
            return string.Template(node.value).substitute(self.variables)
        except KeyError as missing:
            name = missing.args[0]
            self._wrong(
                node,
                where,
                f"${name} is not set; set it in the environment (only LG_* and $BASE can be used)",
            )
            return None
        except ValueError:
            self._wrong(node, where, f"{shown(node.value)} is not a template; write $$ for a dollar sign")
            return None


def _unprintable(text: str) -> bool:
    # Cc control characters, Cs lone surrogates (which no file or terminal can take)
    return any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text if sign not in "\n\t")


def _shown_tag(tag: str) -> str:
    return shown(tag.replace(_TAG, "!!"))
