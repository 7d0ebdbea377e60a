"""A switched power strip with the REST interface of labgrid's `rest` model.

`GET /BOARD/1` answers `0` or `1`; `PUT /BOARD/1` with one of them in the body switches, and answers when it is
done. Every board has the one outlet 1.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Protocol

_DEADLINE = 10.0  # seconds for a client to finish its request
_LONGEST = 4096  # bytes of a request's body


class Outlet(Protocol):
    """Something that can be switched."""

    @property
    def powered(self) -> bool: ...

    def switch(self, on: bool) -> Awaitable[None]: ...


class PowerStrip:
    """Serves the outlets on a loopback port of the kernel's choice. `outlets` may grow while it serves."""

    def __init__(self, outlets: Mapping[str, Outlet]) -> None:
        self._outlets = outlets
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Begin to serve; returns the strip's URL. Raises OSError when there is no port to be had."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST * 4)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    def close(self) -> None:
        """Stop serving."""
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            status, text = await self._answer(reader)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            status, text = HTTPStatus.BAD_REQUEST, "cannot read the request"
        body = text.encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, str]:
        async with asyncio.timeout(_DEADLINE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            fields = {name.strip().lower(): value.strip() for name, _, value in map(_field, head[1:])}
            length = int(fields.get("content-length", "0"))
            if not 0 <= length <= _LONGEST:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is 0 or 1"
            body = (await reader.readexactly(length)).strip()
        name, _, index = path.strip("/").partition("/")
        if name not in self._outlets or index != "1":
            return HTTPStatus.NOT_FOUND, "no such outlet; every board has /BOARD/1"
        outlet = self._outlets[name]
        if method == "GET":
            return HTTPStatus.OK, "1" if outlet.powered else "0"
        if method != "PUT":
            return HTTPStatus.METHOD_NOT_ALLOWED, "GET or PUT"
        if body not in (b"0", b"1"):
            return HTTPStatus.BAD_REQUEST, "the body is 0 or 1"
        try:
            await outlet.switch(body == b"1")
        except OSError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, str(error)
        return HTTPStatus.OK, body.decode()


def _field(line: str) -> tuple[str, str, str]:
    return line.partition(":")
