"""The templates of reports, which fail on a name that is not there."""

from __future__ import annotations

from functools import cache

import jinja2

from farm.report.figures import one_line, visible


@cache
def template(name: str, *, markup: bool = False) -> jinja2.Template:
    """A template of farm/report/templates; with `markup` every text that is put into it is escaped.

    Without, it is for whoever fills it in to take the sting out of foreign text.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("farm.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=markup,  # noqa: S701 - see above
    )
    environment.filters["line"] = one_line
    environment.filters["seen"] = visible
    return environment.get_template(name)
