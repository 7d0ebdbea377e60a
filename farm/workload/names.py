"""Short, unique names of workloads: `randread-4k-qd32-j4`, `dd-read-1M`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from farm.complaint import nearest, shown
from farm.quantity import short_size
from farm.workload.model import Conditioning, FioWorkload, Workload

PATTERN = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"
_SIZES = frozenset({"bs", "size", "offset_increment"})


def plain(w: Workload) -> str:
    """The name of a workload by what matters most: direction, block size, depth, jobs, buffering."""
    if isinstance(w, FioWorkload):
        parts = [w.rw if w.rw != "randrw" else f"randrw{w.rwmixread}", short_size(w.bs)]
        parts += [f"qd{w.iodepth}"] if w.iodepth > 1 else []
        parts += [f"j{w.numjobs}"] if w.numjobs > 1 else []
        parts += ["buffered"] if w.buffered else []
    else:
        parts = ["dd", w.rw, short_size(w.bs)]
        parts += ["direct"] if w.direct else []
        parts += ["fsync"] if w.fsync else []
    return "-".join(parts + (["file"] if w.target == "file" else []))


def from_template(template: object, w: Workload) -> str:
    """The template with each `{key}` replaced by the workload's value, as people write it. Raises ValueError."""
    if not isinstance(template, str):
        raise ValueError(f"{shown(template)} is not a name; write text, for example '{{rw}}-{{bs}}'")
    known = _values(w)

    def value(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise ValueError(f"'{{{found[1]}}}' is not a key of this workload{nearest(found[1], known)}")
        return known[found[1]]

    return re.sub(r"\{(\w{1,40})\}", value, template)


def distinct(
    labels: Sequence[str],
    groups: Sequence[object],
    workloads: Sequence[Workload],
    varying: Sequence[Sequence[str]],
) -> list[str]:
    """The names, with what tells them apart appended where several of a group are equal: keys that are lists first."""
    alike = list(zip(labels, groups, strict=True))
    count = Counter(alike)
    result = []
    for label, own_group, workload, keys in zip(labels, groups, workloads, varying, strict=True):
        if count[label, own_group] == 1:
            result.append(label)
            continue
        group = [
            _values(other) for other, one in zip(workloads, alike, strict=True) if one == (label, own_group)
        ]
        own = _values(workload)
        telling = [
            key
            for key in (*keys, *sorted(set(own) - set(keys)))
            if key not in ("name", "timeout", "floor", "count") and len({one.get(key) for one in group}) > 1
        ]
        suffix = []
        for key in telling:
            suffix.append(_word(key, own[key]))
            same = [
                one for one in group if all(one.get(each) == own.get(each) for each in telling[: len(suffix)])
            ]
            if len(same) == 1:
                break
        result.append("-".join((label, *suffix)))
    return result


def _word(key: str, value: str) -> str:
    if value in ("true", "false"):
        return key if value == "true" else f"no-{key}"
    # engines and targets speak for themselves, numbers need their key
    return value if value[:1].isalpha() else f"{key}{value}"


def _values(w: Workload) -> dict[str, str]:
    found: dict[str, str] = {}
    for model in (w, w.conditioning):
        for name, item in type(model).model_fields.items():
            value: Any = getattr(model, name)
            if isinstance(value, Conditioning) or value is None:
                continue
            key = item.alias or name
            if isinstance(value, bool):
                found[key] = "true" if value else "false"
            elif name in _SIZES:
                found[key] = short_size(value)
            elif isinstance(value, float):
                found[key] = f"{value:g}"
            else:
                found[key] = str(value)
    return found
