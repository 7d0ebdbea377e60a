"""What is said of a power switch that fails; the switch is labgrid's own backend, the server one that refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from labgrid.driver.power import rest

from farm.board.power import switch
from farm.errors import BoardError
from farm.ports import free_port


class Failing(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self.send_error(500)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Failing) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def power(host: str) -> SimpleNamespace:
    return SimpleNamespace(off=lambda: rest.power_set(host, None, "1", False), get=lambda: False)


def test_the_password_in_a_switchs_address_is_said_to_nobody(server: str) -> None:
    with pytest.raises(BoardError) as caught:
        switch(power(f"http://lab:pass-of-pdu@{server}/{{index}}"), False, 5)
    assert "500 Server Error" in str(caught.value)
    assert f"http://...@{server}/1" in str(caught.value)
    assert "pass-of-pdu" not in str(caught.value)


def test_a_switch_that_is_not_there_is_said_in_the_systems_words() -> None:
    with pytest.raises(BoardError) as caught:
        switch(power(f"http://lab:pass-of-pdu@127.0.0.1:{free_port()}/{{index}}"), False, 5)
    assert caught.value.reason == "the power switch failed: Connection refused"
