"""From an entry of a campaign's `workloads:`, whose values may be lists, to its cells with unique names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from farm import complaint
from farm.complaint import Complaint, Where, nearest, shown
from farm.quantity import parse_size
from farm.workload import names
from farm.workload.model import Conditioning, DdWorkload, FioWorkload, Workload
from farm.yamlfile import Document, fail

MAX_CELLS = 500
_MODELS: Mapping[str, type[FioWorkload] | type[DdWorkload]] = {"fio": FioWorkload, "dd": DdWorkload}
_CONDITIONING = tuple(item.alias or name for name, item in Conditioning.model_fields.items())
_SPECIAL = ("override", "exclude")
_ADAPTER: TypeAdapter[FioWorkload | DdWorkload] = TypeAdapter(Workload)


@dataclass
class Cell:
    """One combination of an entry's values; `places` says where in the file each value stands."""

    entry: Where
    values: dict[str, Any]
    places: dict[str, Where]
    varying: tuple[str, ...] = field(default=())


def expand(document: Document, where: Where, idle_s: float) -> tuple[tuple[Workload, Where], ...]:
    """All workloads of the list at `where`, each with the place of its entry; `idle_s` holds for entries that say
    nothing of idle.

    Raises UserError with every complaint.
    """
    entries: Any = document.data
    for step in where:
        entries = entries[step]
    if not isinstance(entries, list) or not entries:
        raise document.complain("is not a list of workloads; write - tool: fio and so on", *where).error()
    complaints: list[Complaint] = []
    cells: list[Cell] = []
    for number, entry in enumerate(entries):
        found, wrong = _cells(document, entry, (*where, number))
        complaints += wrong
        cells += found
        if len(cells) > MAX_CELLS:
            raise document.complain(
                f"gives more than {MAX_CELLS} workloads; use shorter lists", *where
            ).error()
    workloads: list[tuple[Cell, Workload]] = []
    for cell in cells:
        workload, wrong = _validate(document, cell, idle_s)
        complaints += wrong
        if workload is not None:
            workloads.append((cell, workload))
    if complaints:
        raise fail(complaints)
    return _named(document, workloads)


def _keys(tool: str) -> set[str]:
    fields = _MODELS[tool].model_fields
    plain = {item.alias or name for name, item in fields.items() if name != "conditioning"}
    return plain | set(_CONDITIONING)


def _cells(document: Document, entry: Any, where: Where) -> tuple[list[Cell], list[Complaint]]:
    if not isinstance(entry, dict):
        return [], [
            document.complain(f"{shown(entry)} is not a workload; write tool: fio, rw: read ...", *where)
        ]
    tool = entry.get("tool")
    if not isinstance(tool, str) or tool not in _MODELS:
        said = f"tool {shown(tool)} is not known" if "tool" in entry else "has no tool"
        at = (*where, "tool") if "tool" in entry else where
        return [], [document.complain(f"{said}; use one of {', '.join(_MODELS)}", *at)]
    complaints = []
    known = _keys(tool)
    for key in entry:
        if key not in known and key not in _SPECIAL:
            said = f"is not a key of a {tool} workload{nearest(key, known | set(_SPECIAL))}"
            complaints.append(document.complain(said, *where, key))
    axes: list[list[tuple[str, Any, Where]]] = []
    total = 1
    for key, value in entry.items():
        if key in _SPECIAL or key not in known:
            continue
        if not isinstance(value, list):
            axes.append([(key, value, (*where, key))])
            continue
        if key in ("name", "tool"):
            complaints.append(document.complain("takes one value, not a list", *where, key))
        elif not value:
            complaints.append(document.complain("is an empty list; give a value", *where, key))
        else:
            total *= len(value)
            axes.append([(key, one, (*where, key, number)) for number, one in enumerate(value)])
    if total > MAX_CELLS:
        complaints.append(
            document.complain(f"gives {total} workloads, more than {MAX_CELLS}; use shorter lists", *where)
        )
    if complaints:
        return [], complaints
    varying = tuple(key for key, value in entry.items() if key in known and isinstance(value, list))
    cells = [
        Cell(where, {key: value for key, value, _ in choice}, {key: at for key, _, at in choice}, varying)
        for choice in itertools.product(*axes)
    ]
    cells, wrong = _exclude(document, entry, where, cells, known)
    return cells, [*wrong, *_override(document, entry, where, cells, known)]


def _rules(
    document: Document, entry: Mapping[str, Any], where: Where, key: str
) -> Iterator[tuple[Where, Any]]:
    rules = entry.get(key, [])
    if not isinstance(rules, list):
        raise document.complain("is not a list; begin each item with a dash", *where, key).error()
    for number, rule in enumerate(rules):
        yield (*where, key, number), rule


def _exclude(
    document: Document, entry: Mapping[str, Any], where: Where, cells: list[Cell], known: set[str]
) -> tuple[list[Cell], list[Complaint]]:
    complaints = []
    for at, rule in _rules(document, entry, where, "exclude"):
        wrong = _check_match(document, at, rule, known)
        complaints += wrong
        if wrong:
            continue
        left = [cell for cell in cells if not _matches(cell, rule)]
        if len(left) == len(cells):
            complaints.append(document.complain("excludes nothing; remove it or correct its values", *at))
        cells = left
    if not cells and not complaints:
        complaints.append(document.complain("leaves no workload of the entry; remove one", *where, "exclude"))
    return cells, complaints


def _override(
    document: Document, entry: Mapping[str, Any], where: Where, cells: list[Cell], known: set[str]
) -> list[Complaint]:
    complaints = []
    for at, rule in _rules(document, entry, where, "override"):
        if not isinstance(rule, dict) or set(rule) != {"match", "set"}:
            complaints.append(document.complain("has to hold match: and set:, nothing else", *at))
            continue
        wrong = [
            *_check_match(document, (*at, "match"), rule["match"], known),
            *_check_match(document, (*at, "set"), rule["set"], known - {"tool"}),
        ]
        if not wrong:
            wrong = [
                document.complain("takes one value, not a list", *at, "set", key)
                for key, value in rule["set"].items()
                if isinstance(value, (list, dict))
            ]
        complaints += wrong
        if wrong:
            continue
        hit = [cell for cell in cells if _matches(cell, rule["match"])]
        if not hit:
            complaints.append(document.complain("matches nothing; correct its values", *at, "match"))
        for cell in hit:
            cell.values.update(rule["set"])
            cell.places.update({key: (*at, "set", key) for key in rule["set"]})
    return complaints


def _check_match(document: Document, at: Where, rule: Any, known: set[str]) -> list[Complaint]:
    if not isinstance(rule, dict) or not rule:
        return [document.complain("is not a mapping of keys to values, such as {rw: write, bs: 4k}", *at)]
    return [
        document.complain(f"is not a key that can stand here{nearest(key, known)}", *at, key)
        for key in rule
        if key not in known
    ]


def _matches(cell: Cell, rule: Mapping[str, Any]) -> bool:
    return all(
        key in cell.values
        and any(_same(cell.values[key], one) for one in (wanted if isinstance(wanted, list) else [wanted]))
        for key, wanted in rule.items()
    )


def _same(left: Any, right: Any) -> bool:
    """Equal as written, or as sizes: 4k is 4096."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if str(left) == str(right):
        return True
    try:
        return parse_size(left) == parse_size(right)
    except ValueError:
        return False


def _validate(document: Document, cell: Cell, idle_s: float) -> tuple[Workload | None, list[Complaint]]:
    values: dict[str, Any] = {key: value for key, value in cell.values.items() if key not in _CONDITIONING}
    conditioning = {key: cell.values[key] for key in _CONDITIONING if key in cell.values}
    values["conditioning"] = {"idle": idle_s, **conditioning}
    values["name"] = "x"  # until its own is made of the validated values
    try:
        return _ADAPTER.validate_python(values), []
    except ValidationError as error:
        complaints = []
        for at, message in complaint.explain(error, Workload, values):
            key = at[-1] if at else ""
            place = cell.places.get(str(key), (*cell.entry, *([key] if key in _keys(values["tool"]) else [])))
            complaints.append(document.complain(message, *place))
        return None, complaints


def _named(document: Document, found: Sequence[tuple[Cell, Workload]]) -> tuple[tuple[Workload, Where], ...]:
    complaints: list[Complaint] = []
    labels: list[str] = []
    for cell, workload in found:
        place = cell.places.get("name", cell.entry)
        if "name" not in cell.values:
            labels.append(names.plain(workload))
            continue
        try:
            labels.append(names.from_template(cell.values["name"], workload))
        except ValueError as error:
            complaints.append(document.complain(str(error), *place))
            labels.append("")
    if complaints:
        raise fail(complaints)
    # generated names are told apart among all, a given name among the cells of its own entry: the same name given to
    # two entries is a mistake
    groups = [cell.entry if "name" in cell.values else () for cell, _ in found]
    labels = names.distinct(
        labels, groups, [workload for _, workload in found], [cell.varying for cell, _ in found]
    )
    first: dict[str, int] = {}
    named = []
    for number, ((cell, workload), label) in enumerate(zip(found, labels, strict=True)):
        place = cell.places.get("name", cell.entry)
        if label in first:
            line = document.line(found[first[label]][0].entry)
            complaints.append(
                document.complain(
                    f"a second workload is called {label} (the first begins on line {line}); remove one or "
                    "give name: a template such as '{rw}-{bs}-{ioengine}'",
                    *place,
                )
            )
        first.setdefault(label, number)
        if not re.fullmatch(names.PATTERN, label):
            complaints.append(
                document.complain(
                    f"'{complaint.printable(label)}' is no workload name; use up to 64 letters, digits, '.', '_', "
                    "'+' and '-'",
                    *place,
                )
            )
        named.append((workload.model_copy(update={"name": label}), cell.entry))
    if complaints:
        raise fail(complaints)
    return tuple(named)
