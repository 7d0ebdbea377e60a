"""A study as text to be pasted: a mail for linux-mmc (ASCII, 75 columns) or markdown, from one template."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

from farm.report.content import content
from farm.report.figures import visible
from farm.report.study import Study
from farm.report.template import template

COLUMNS = 75


class Form(Protocol):
    """How the parts of a report look in one format; every text that comes in is foreign."""

    def title(self, text: str) -> str: ...
    def heading(self, text: str) -> str: ...
    def subheading(self, text: str) -> str: ...
    def para(self, text: str) -> str: ...
    def items(self, texts: Iterable[str]) -> str: ...
    def fields(self, pairs: Iterable[tuple[str, str]]) -> str: ...
    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str: ...
    def code(self, text: str, shell: bool = False) -> str: ...


def mail(study: Study) -> str:
    """The study as the body of a plain-text mail: ASCII, no line longer than 75 columns."""
    return _render(study, Mail())


def markdown(study: Study) -> str:
    """The study as markdown (GitHub's, for its tables)."""
    return _render(study, Markdown())


def _render(study: Study, form: Form) -> str:
    parts = {
        name: getattr(form, name)
        for name in ("title", "heading", "subheading", "para", "items", "fields", "table", "code")
    }
    text = template("report.j2").render(**content(study), **parts)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


class Mail:
    """Plain text for a list that knows nothing else."""

    def title(self, text: str) -> str:
        return self.para(text) + "\n" + "=" * min(len(_ascii(text)), COLUMNS)

    def heading(self, text: str) -> str:
        plain = self.para(text)
        return plain + "\n" + "-" * min(len(_ascii(text)), COLUMNS)

    def subheading(self, text: str) -> str:
        return self.para(text)

    def para(self, text: str) -> str:
        return _wrapped(_ascii(text))

    def items(self, texts: Iterable[str]) -> str:
        return "\n".join(_wrapped(_ascii(text), first="- ", then="  ") for text in texts)

    def fields(self, pairs: Iterable[tuple[str, str]]) -> str:
        known = [(_ascii(name), _ascii(value)) for name, value in pairs]
        width = min(max((len(name) for name, _ in known), default=0), 24) + 2
        return "\n".join(
            _wrapped(value, first=f"{name + ':':<{width}}"[: COLUMNS // 2], then=" " * width)
            for name, value in known
        )

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Columns if they fit, else the first cell on a line of its own and the figures below it."""
        cells = [[_ascii(cell) for cell in row] for row in (heads, *rows)]
        widths = [max(len(cell) for cell in column) for column in zip_longest(*cells, fillvalue="")]
        if sum(widths) + 2 * (len(widths) - 1) <= COLUMNS:
            return "\n".join(_columns(row, widths) for row in cells)
        lines = []
        rest = widths[1:]
        if sum(rest) + 2 * len(rest) <= COLUMNS:
            for row in cells:
                lines.append(_wrapped(row[0]))
                lines.append("  " + _columns(row[1:], rest, numbers=True))
            return "\n".join(lines)
        for row in cells[1:]:
            lines.append(_wrapped(row[0]))
            lines += [
                _wrapped(f"{head}: {cell}", first="  ", then="    ")
                for head, cell in zip(cells[0][1:], row[1:], strict=True)
            ]
        return "\n".join(lines)

    def code(self, text: str, shell: bool = False) -> str:
        lines = []
        for line in _ascii(text).split("\n"):
            lines += _continued(line, "  ") if shell or len(line) > COLUMNS - 2 else ["  " + line]
        return "\n".join(line.rstrip() for line in lines)


class Markdown:
    """Markdown in which foreign text can start no markup."""

    def title(self, text: str) -> str:
        return f"# {_inert(text)}\n"

    def heading(self, text: str) -> str:
        return f"## {_inert(text)}\n"

    def subheading(self, text: str) -> str:
        return f"### {_inert(text)}\n"

    def para(self, text: str) -> str:
        return _inert(text) + "\n"

    def items(self, texts: Iterable[str]) -> str:
        return "\n".join(f"- {_inert(text)}" for text in texts)

    def fields(self, pairs: Iterable[tuple[str, str]]) -> str:
        return "\n".join(f"- **{_inert(name)}**: {_inert(value)}" for name, value in pairs)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        marks = [":---"] + ["---:"] * (len(heads) - 2) + [":---"]
        lines = [_row(heads), f"|{'|'.join(marks)}|", *(_row(row) for row in rows)]
        return "\n".join(lines) + "\n"

    def code(self, text: str, shell: bool = False) -> str:
        plain = visible(text)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", plain)), default=0))
        return f"{fence}{'sh' if shell else ''}\n{plain}\n{fence}\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_inert(cell) for cell in cells) + " |"


def _inert(text: str) -> str:
    """One line of markdown that shows the text as it is: no markup, no HTML, no link."""
    plain = visible(text).replace("\n", " ")
    escaped = re.sub(r"([\\`*{}\[\]<>|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", plain)
    return re.sub(r"^(\s*)(#|[-+=](?=\s|$)|-{2,}|={2,})|^(\s*\d+)(?=[.)](?:\s|$))", _escaped, escaped)


def _escaped(found: re.Match[str]) -> str:
    return f"{found[3]}\\" if found[3] is not None else f"{found[1]}\\{found[2]}"


def _ascii(text: str) -> str:
    """The text in ASCII with nothing in it that a terminal or a mail program would obey; lines stay lines."""
    named = text.replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{PLUS-MINUS SIGN}", "+/-")
    return visible(named).encode("ascii", "backslashreplace").decode("ascii")


def _wrapped(text: str, *, first: str = "", then: str = "") -> str:
    plain = " ".join(text.split())
    # mails that begin a line with "From " or "." are changed on their way
    lines = textwrap.wrap(
        plain,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
        break_long_words=True,
    )
    return "\n".join(lines) or first.rstrip()


def _columns(row: Sequence[str], widths: Sequence[int], *, numbers: bool = False) -> str:
    """Cells in columns: the first and the last to the left, figures between them to the right."""
    last = len(row) - 1
    cells = [
        f"{cell:<{width}}" if at == last or (at == 0 and not numbers) else f"{cell:>{width}}"
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _continued(line: str, indent: str) -> list[str]:
    r"""A line of shell or YAML in pieces of at most 75 columns; `\` at the end of a piece means that it goes on."""
    found = []
    room = COLUMNS - len(indent)
    while len(indent + line) > COLUMNS:
        cut = line.rfind(" ", 1, room - 2)
        if cut <= 0 or not line[:cut].strip():
            found.append(indent + line[: room - 1] + "\\")
            line = line[room - 1 :]
        else:
            found.append(f"{indent}{line[:cut]} \\")
            line = "    " + line[cut + 1 :].lstrip()
    return [*found, indent + line]
