"""What Grafana does to a query before InfluxDB sees it: variables, the time filter, the interval.

Follows the InfluxDB data source: a variable with `multi` or `includeAll` becomes an escaped alternative for regular
expressions, any other is put in as it is (public/app/plugins/datasource/influxdb/datasource.ts, interpolateVariable).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Value = str | Sequence[str]
_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]|\$(\w+)")
_SPECIAL = re.compile(r"[\\^$*+?.()|\[\]{}/]")


def interpolate(
    query: str, values: Mapping[str, Value], since_ms: int, until_ms: int, interval: str = "1h"
) -> str:
    """The query as it is sent. A sequence of values is joined for a regular expression, a text is taken as it is.

    Raises KeyError for a variable that has no value.
    """
    known: dict[str, Value] = {
        "timeFilter": f"time >= {since_ms}ms and time <= {until_ms}ms",
        "__interval": interval,
        "interval": interval,
        **values,
    }

    def one(found: re.Match[str]) -> str:
        value = known[found[1] or found[2] or found[3]]
        return value if isinstance(value, str) else _alternatives(value)

    return _VARIABLE.sub(one, query)


def _alternatives(values: Sequence[str]) -> str:
    if list(values) == [".*"]:
        return ".*"
    escaped = [_SPECIAL.sub(r"\\\g<0>", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def alias(pattern: str, tags: Mapping[str, str], column: str) -> str:
    """The name of a series: `$tag_board` and the like are replaced, an empty pattern is the column's name."""
    names: dict[str, Any] = {f"tag_{name}": value for name, value in tags.items()} | {"col": column}
    return (
        _VARIABLE.sub(lambda found: str(names.get(found[1] or found[2] or found[3], found[0])), pattern)
        or column
    )
