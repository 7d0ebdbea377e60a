"""The power strip as labgrid's own `rest` backend and other clients see it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests
from labgrid.driver.power import rest

from farm.virtual.power import PowerStrip


class Lamp:
    """An outlet with something simple in it."""

    def __init__(self) -> None:
        self.powered = False
        self.fuse_blown = False

    async def switch(self, on: bool) -> None:
        if self.fuse_blown:
            raise OSError("the fuse is blown")
        self.powered = on


@pytest.fixture
def lamp() -> Lamp:
    return Lamp()


@pytest.fixture
def strip(lamp: Lamp) -> Iterator[str]:
    """URL of a strip with the one outlet `lamp`, served by a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    served = PowerStrip({"lamp": lamp})
    url = asyncio.run_coroutine_threadsafe(served.start(), loop).result(5)
    yield url
    loop.call_soon_threadsafe(served.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_labgrid_switches_it(strip: str, lamp: Lamp) -> None:
    host = strip + "/lamp/{index}"
    assert rest.power_get(host, None, 1) is False
    rest.power_set(host, None, 1, True)
    assert lamp.powered
    assert rest.power_get(host, None, 1) is True
    rest.power_set(host, None, 1, False)
    assert not lamp.powered


@pytest.mark.parametrize("path", ["/lamp/2", "/lamp", "/toaster/1", "/", "/lamp/1/1"])
def test_an_outlet_that_is_not_there_is_404(strip: str, path: str) -> None:
    assert requests.get(strip + path, timeout=5).status_code == 404


@pytest.mark.parametrize("body", ["", "on", "2", "10", "x" * 5000])
def test_anything_but_0_or_1_switches_nothing(strip: str, lamp: Lamp, body: str) -> None:
    assert requests.put(strip + "/lamp/1", data=body, timeout=5).status_code in (400, 413)
    assert not lamp.powered


def test_other_methods_are_refused(strip: str, lamp: Lamp) -> None:
    assert requests.post(strip + "/lamp/1", data="1", timeout=5).status_code == 405
    assert not lamp.powered


def test_a_board_that_cannot_be_switched_is_500_with_the_reason(strip: str, lamp: Lamp) -> None:
    lamp.fuse_blown = True
    answer = requests.put(strip + "/lamp/1", data="1", timeout=5)
    assert (answer.status_code, answer.text) == (500, "the fuse is blown")


@pytest.mark.parametrize(
    "noise",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\xff" * 100 + b"\r\n\r\n",
        b"PUT /lamp/1 HTTP/1.1\r\nContent-Length: -1\r\n\r\n1",
    ],
)
def test_noise_on_the_port_harms_nobody(strip: str, lamp: Lamp, noise: bytes) -> None:
    address = urlsplit(strip)
    with socket.create_connection((address.hostname, address.port), timeout=5) as line:
        line.sendall(noise)
        assert line.recv(4096).startswith(b"HTTP/1.1 4")
    assert not lamp.powered
    assert requests.get(strip + "/lamp/1", timeout=5).text == "0"
