"""Line protocol: hostile text stays text, numbers stay numbers, checked by what real servers read out of it."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.errors import StoreError
from farm.influx import line as lines
from farm.influx.client import Server
from farm.influx.line import line, pack, unpack
from farm.influx.local import LocalInflux
from tests.influx.conftest import Victoria

HOSTILE = st.text(
    alphabet=st.one_of(st.sampled_from("\n\r\t\x00\x1b\x7f\x85\u2028 ,=\"\\#'Ωé日😀\ud800"), st.characters()),
    max_size=40,
)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalInflux]:
    with LocalInflux(tmp_path_factory.mktemp("influxd")) as running:
        yield running


@pytest.fixture(scope="module")
def victoria_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victoria]:
    running = Victoria(tmp_path_factory.mktemp("victoria") / "data")
    running.start()
    yield running
    running.kill()


def is_hidden(sign: str) -> bool:
    code = ord(sign)
    noncharacter = 0xFDD0 <= code <= 0xFDEF or code in (0xFFFE, 0xFFFF)
    return unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") or noncharacter


def text_expected(text: str) -> str:
    out = ""
    for sign in text:
        code = ord(sign)
        out += sign if not is_hidden(sign) else f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return out


def tag_expected(text: str) -> str:
    return "".join("_" if sign == "\\" or is_hidden(sign) else sign for sign in text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(HOSTILE, HOSTILE, NUMBER), min_size=1, max_size=8))
def test_influxd_reads_back_what_was_meant(server: LocalInflux, rows: list[tuple[str, str, float]]) -> None:
    name = f"m{next(NUMBERS)}"
    sent = [
        line(name, {"t": tag}, {"s": text, "n": number}, ms) for ms, (tag, text, number) in enumerate(rows)
    ]
    assert not [one for one in sent if "\n" in one]
    with Server(server.config()) as client:
        client.write(sent)
    (series,) = server.query(f'SELECT n, s, t FROM "{name}"')
    found = [(ms, float(n), s, t) for ms, n, s, t in series["values"]]  # JSON writes 5e16 as an integer
    assert found == [
        (ms, number, text_expected(text), tag_expected(tag) or None)
        for ms, (tag, text, number) in enumerate(rows)
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=5))
def test_no_text_smuggles_a_point_into_a_server_that_splits_at_newlines(
    victoria_of_module: Victoria, rows: list[tuple[str, str]]
) -> None:
    name = f"m{next(NUMBERS)}"
    sent = [
        line(name, {"t": tag, "i": str(i)}, {"s": f"{text}\nsmuggled n=666 1\n", "n": i + 0.5}, 1000)
        for i, (tag, text) in enumerate(rows)
    ]
    with Server(victoria_of_module.config()) as client:
        client.write(sent)
    found = victoria_of_module.export(f'{{__name__="{name}_n"}}')
    assert sorted(one["values"][0] for one in found) == [i + 0.5 for i in range(len(rows))]
    assert victoria_of_module.export('{__name__=~".*smuggled.*"}') == []


def test_a_line_as_the_reference_writes_it() -> None:
    assert line(
        "trial", {"rw": "read", "board": "a b,c=d", "card": None, "soc": ""}, {"bw": 1, "why": 'a "b" \\'}, 12
    ) == (r'trial,board=a\ b\,c\=d,rw=read bw=1.0,why="a \"b\" \\" 12')


def test_what_is_no_number_is_left_out_and_a_point_needs_a_field() -> None:
    assert line("m", {}, {"a": math.nan, "b": math.inf, "c": 10**400, "d": None, "e": True}, 1) == "m e=1.0 1"
    with pytest.raises(ValueError, match="needs a field"):
        line("m", {"t": "x"}, {"a": math.nan}, 1)


def test_long_texts_are_cut_where_the_record_keeps_them() -> None:
    assert line("m", {}, {"s": "x" * 2001}, 1) == f'm s="{"x" * 1997}..." 1'
    assert line("m", {"t": "y" * 500}, {"n": 1}, 1) == f"m,t={'y' * 120} n=1.0 1"


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))
)
def test_lines_survive_the_outbox(many: list[str]) -> None:
    assert unpack(pack(many)) == many


def test_damaged_or_endless_bodies_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = pack(["m n=1 1"] * 100)
    for bad in (b"", b"many n=1 1", body[:-3], body[:10] + b"\xff" + body[11:]):
        with pytest.raises(StoreError, match="row of the outbox"):
            unpack(bad)
    monkeypatch.setattr(lines, "MAX_BODY", 100)
    with pytest.raises(StoreError, match="too many"):
        unpack(body)
