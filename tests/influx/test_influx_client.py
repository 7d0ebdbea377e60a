"""Answers of servers that cannot be installed here (InfluxDB 2.x and 3), in the words of their documentation.

2.x: docs.influxdata.com/influxdb/v2/write-data/troubleshoot and its API reference (PostWrite); 3 Core:
docs.influxdata.com/influxdb3/core/write-data/troubleshoot. A loopback server gives them; the client is the real one.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from farm.errors import UserError
from farm.influx.client import Refused, Server, Unavailable
from farm.influx.config import InfluxConfig
from farm.influx.line import pack
from farm.influx.push import Patience, PushReport, push
from farm.store.db import Store
from tests.influx.conftest import TOKEN

Answer = tuple[int, dict[str, str], Any]


class Scripted(ThreadingHTTPServer):
    """Answers every write with points from a list, in order, and 204 after that; keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.probe: Answer = (204, {}, None)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []

    def config(self, **changes: Any) -> InfluxConfig:
        url = f"http://127.0.0.1:{self.server_address[1]}"
        return InfluxConfig(**({"url": url, "bucket": "farm", "org": "my lab", "token": TOKEN} | changes))


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, dict(self.headers), body))
        answer = (
            self.server.probe if not body else self.server.answers.pop(0) if self.server.answers else None
        )
        status, headers, told = answer or (204, {}, None)
        data = b"" if told is None else told.encode() if isinstance(told, str) else json.dumps(told).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def write(server: Scripted, lines: list[str], **changes: Any) -> None:
    with Server(server.config(**changes)) as client:
        client.write(lines)


def test_what_a_2x_server_is_asked(scripted: Scripted) -> None:
    write(scripted, ["m n=1.0 1", "m n=2.0 2"])
    (_, _, nothing), (path, headers, body) = scripted.asked
    assert nothing == b""
    assert path == "/api/v2/write?org=my+lab&bucket=farm&precision=ms"
    assert headers["Authorization"] == f"Token {TOKEN}"
    assert (headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", b"m n=1.0 1\nm n=2.0 2")


def test_a_1x_server_behind_a_path_is_asked_its_own_way(scripted: Scripted) -> None:
    scripted.probe = (404, {}, "404 page not found\n")
    with pytest.raises(UserError, match="has neither"):
        write(scripted, ["m n=1.0 1"])
    assert [path for path, _, _ in scripted.asked] == [
        "/api/v2/write?org=my+lab&bucket=farm&precision=ms",
        "/write?db=farm&precision=ms",
    ]


@pytest.mark.parametrize(
    ("status", "told", "words"),
    [
        # 2.x, OSS: rejected points
        (422, {"code": "unprocessable entity", "message": "failure writing points to database: partial write: field type"
               " conflict: input field \"n\" on measurement \"m\" is type string, already exists as type float dropped=1"},
         "failure writing points to database: partial write: field type conflict: input field \"n\" on measurement"
         " \"m\" is type string, already exists as type float dropped=1"),
        (422, {"code": "unprocessable entity", "message": "failure writing points to database: partial write: points"
               " beyond retention policy dropped=1"},
         "failure writing points to database: partial write: points beyond retention policy dropped=1"),
        # 2.x: a line that cannot be read
        (400, {"code": "invalid", "message": "unable to parse 'm n=': missing field value"},
         "unable to parse 'm n=': missing field value"),
        (413, {"code": "request too large", "message": "cannot read data: points batch is too large"},
         "cannot read data: points batch is too large"),
        # 3 Core
        (400, {"error": "partial write of line protocol occurred", "data": [{"original_line": "m n=\"x\" 1",
               "line_number": 1, "error_message": "invalid column type for column 'n', expected iox::column_type::field::"
               "float, got iox::column_type::field::string"}]},
         "partial write of line protocol occurred; invalid column type for column 'n', expected iox::column_type::field::"
         "float, got iox::column_type::field::string"),
    ],
)  # fmt: skip
def test_refusals_in_the_words_of_2x_and_3(scripted: Scripted, status: int, told: object, words: str) -> None:
    scripted.answers = [(status, {}, told)]
    with pytest.raises(Refused) as refused:
        write(scripted, ["m n=1.0 1"])
    assert refused.value.words == words


def test_a_partly_refused_batch_of_3_leaves_one_point_behind(scripted: Scripted, store: Store) -> None:
    told = {
        "error": "partial write of line protocol occurred",
        "data": [{"error_message": "invalid column type"}],
    }
    refusal: Answer = (400, {}, told)
    good: Answer = (204, {}, None)
    store.outbox.put("board", pack(f"m n={n}.0 {n}" for n in range(4)))
    # all four; the first two; the last two; the third alone; the fourth alone
    scripted.answers = [refusal, good, refusal, good, refusal]
    report = push(store, scripted.config())
    assert (report.sent, dict(report.words)) == (
        3,
        {"partial write of line protocol occurred; invalid column type": 1},
    )
    bodies = [gzip.decompress(body).decode().count("\n") + 1 for _, _, body in scripted.asked if body]
    assert bodies == [4, 2, 2, 1, 1]
    (row,) = store.outbox.refused()
    assert row.refused.endswith("invalid column type: m n=3.0 3")


def test_a_busy_server_is_asked_again_when_it_says(scripted: Scripted, store: Store) -> None:
    store.outbox.put("board", pack(["m n=1.0 1"]))
    scripted.answers = [
        (
            429,
            {"Retry-After": "17"},
            {"code": "too many requests", "message": "org my-org has exceeded limited_write"},
        ),
        (
            503,
            {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"},
            {"code": "unavailable", "message": "overloaded"},
        ),
        (
            500,
            {},
            {"code": "internal error", "message": "unexpected error writing points to database: timeout"},
        ),
    ]
    slept: list[float] = []
    said: list[str] = []
    report = push(
        store,
        scripted.config(),
        patience=Patience(first_s=1, longest_s=4),
        sleep=slept.append,
        say=said.append,
    )
    assert report == PushReport(sent=1, rows=1)
    assert slept[0] == 17.0
    assert 1.0 <= slept[1] <= 2.0
    assert 2.0 <= slept[2] <= 4.0
    assert said[0].endswith("answered 429: org my-org has exceeded limited_write; trying again in 17 s")


@pytest.mark.parametrize(
    ("status", "told", "what"),
    [
        (401, {"code": "unauthorized", "message": "unauthorized access"}, "does not accept the token for bucket farm: una"),
        (404, {"code": "not found", "message": "bucket \"farm\" not found"}, "does not have farm: bucket \"farm\" not fo"),
        (307, "", "answered 307: Temporary Redirect; correct the url"),
    ],
)  # fmt: skip
def test_what_is_the_users_to_correct_is_not_tried_again(
    scripted: Scripted, store: Store, status: int, told: object, what: str
) -> None:
    store.outbox.put("board", pack(["m n=1.0 1"]))
    scripted.probe = (status, {"Location": "http://127.0.0.1:9/"} if status == 307 else {}, told)
    with pytest.raises(UserError) as wrong:
        push(store, scripted.config())
    assert what in str(wrong.value)
    assert (len(scripted.asked), store.outbox.tally()) == (1, (1, 0))


def test_an_answer_cut_off_is_no_answer(scripted: Scripted) -> None:
    scripted.shutdown()
    scripted.server_close()
    with pytest.raises(Unavailable, match="Connection refused"):
        write(scripted, ["m n=1.0 1"])
