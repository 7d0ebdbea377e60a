"""Take off what terminals, serial loggers, mail programs and web pages put around the text that a tool
printed.
"""

from __future__ import annotations

import html
import re

# The mark that a bare carriage return leaves: what stands before it was overwritten on the screen.
OVERWRITTEN = "\x0b"

# A shell prompt with a command behind it: "# ", "~ # ", "console:/ # ", "root@host:~# ", "[user@host ~]$ ".
PROMPT = re.compile(r"^[^\n#$]{0,64}[#$] +(?=\S)", re.MULTILINE)
# Samples that are kept with a head of comments end it so.
_HEADER_END = "# ---- sample follows ----\n"

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?"  # OSC: window titles
    r"|[PX^_][^\x1b\n]{0,512}\x1b\\"  # DCS and the like
    r"|[ -/]{0,8}[0-~])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u200e\u200f\ufeff]")
_BLANKS = re.compile(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_TAG = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9]{0,15}(?:\s[^<>\n]{0,512})?/?>|<!--[^\n]{0,512}?-->|<!DOCTYPE[^>\n]{0,256}>"
)
_BREAK = re.compile(r"<(?:br|p|div|tr|li|/tr|/p|/div|/li|h\d)\b[^<>\n]{0,512}>", re.IGNORECASE)
_LOOKS_HTML = re.compile(
    r"<(?:html|body|pre|div|span|br|p|td|blockquote|code)\b[^<>\n]{0,512}>|&(?:quot|gt|lt|nbsp|amp|#\d+);",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"^[ \t]{0,3}>(?!=\d)[ \t]?", re.MULTILINE)
_QUOTE_LEVELS = 12
_SOFT_BREAK = re.compile(r"=\n")
_HEX = re.compile(r"=([0-9A-F]{2})")
# No quoted-printable text has it; `bs=4096` may stand beside a mail that has =3D.
_BARE_EQUALS = re.compile(r"=(?![0-9A-F]{2}|\n|$)")
_BLANK_LINES = re.compile(r"(\n[ \t>]*\n)")

# Prefixes that a logger put before every line: a kernel-like stamp, a wall clock, or a syslog/journald head.
_PREFIXES = (
    re.compile(r"^\[ *\d+\.\d+\] ?", re.MULTILINE),
    re.compile(
        r"^\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? ?(?=[^\n]*\S)",
        re.MULTILINE,
    ),
    re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} [^\s:\[]{1,64}(?:\[\d+\])?: ?", re.MULTILINE),
    re.compile(r"^<\d>(?:\[ *\d+\.\d+\] ?)?", re.MULTILINE),
)


def clean(text: str, *, stamps: bool = True) -> str:
    """The text without NUL, ANSI, carriage returns, HTML, mail quoting and logger stamps; line breaks are
    `\\n`.

    A bare carriage return becomes a line break with `OVERWRITTEN` before it. `stamps=False` keeps the stamps,
    for those who read kernel messages. Linear in the length of the text.
    """
    head, mark, body = text[:20_000].partition(_HEADER_END)
    if mark and all(line.startswith("#") for line in head.splitlines()):
        text = body + text[20_000:]
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    text = _CONTROL.sub("", text)
    if "\r" in text:
        text = re.sub(r"\n\r+", "\n", re.sub(r"(?<!\r)\r+\n", "\n", text))
        text = text.replace("\r", OVERWRITTEN + "\n" if "\n" in text else "\n")
    text = _BLANKS.sub(" ", text)
    text = text.replace("\u2028", "\n").replace("\u2029", "\n").replace("\x85", "\n")
    if _LOOKS_HTML.search(text):
        text = html.unescape(_TAG.sub("", _BREAK.sub("\n", text))).replace("\u00a0", " ")
    if "=3D" in text and _SOFT_BREAK.search(text):
        text = "".join(_unquoted_printable(block) for block in _BLANK_LINES.split(text))
    text = unquote(text)
    return unquote(strip_stamps(text)) if stamps else text


def _unquoted_printable(block: str) -> str:
    """The block decoded where it is quoted-printable, else as it is."""
    if _BARE_EQUALS.search(block) or not ("=3D" in block or _SOFT_BREAK.search(block)):
        return block
    return _HEX.sub(lambda found: _decoded(found[1]), _SOFT_BREAK.sub("", block))


def _decoded(digits: str) -> str:
    """One byte of quoted-printable; what is not ASCII becomes a blank, since no number is written with it."""
    return chr(int(digits, 16)) if int(digits, 16) < 128 else " "


def unquote(text: str) -> str:
    """Take off mail quoting (`> `, `> > `, `>>`), level by level; a wrapped line that starts with `>=64`
    keeps it.
    """
    for _ in range(_QUOTE_LEVELS):
        if ">" not in text:
            break
        text, changed = _QUOTE.subn("", text)
        if not changed:
            break
    return text


def strip_stamps(text: str) -> str:
    """Take off a stamp that stands before nearly every line; kernel lines between others keep theirs."""
    lines = sum(1 for line in text.split("\n") if line.strip())
    for prefix in _PREFIXES:
        if lines >= 3 and len(prefix.findall(text)) >= 0.9 * lines:
            return prefix.sub("", text)
    return text
