"""A server that takes lines, through influxdb-client; what it answers, sorted by what can be done about it.

InfluxDB 2.x and 3 and everything that stands in for them take `/api/v2/write`; 1.x takes `/write?db=`. Which it is
is seen from the answer to an empty write. Answers that mean something here:
docs.influxdata.com/influxdb/v1/tools/api (Write HTTP endpoint), .../influxdb/v2/api/#operation/PostWrite.
"""

from __future__ import annotations

import gzip
import json
import re
from types import TracebackType
from typing import Any

import urllib3.exceptions
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException
from influxdb_client.service.write_service import WriteService

from farm.complaint import printable
from farm.errors import UserError
from farm.influx.config import InfluxConfig

_DROPPED = re.compile(r"\bdropped=(\d{1,9})\b")
_WORDS = 400


class Refused(Exception):
    """The server will not take some of these lines, however often it is asked.

    `dropped` is how many, where it says so.
    """

    def __init__(self, words: str) -> None:
        found = _DROPPED.search(words)
        self.words, self.dropped = words, int(found[1]) if found else None
        super().__init__(words)


class Unavailable(Exception):
    """The server cannot now, but may later: after `retry_after` seconds, where it says so."""

    def __init__(self, words: str, retry_after: float | None = None) -> None:
        self.words, self.retry_after = words, retry_after
        super().__init__(words)


class WriteServiceV1(WriteService):
    """influxdb-client's service, writing as 1.x wants it; `bucket` is `database` or `database/retention-policy`."""

    def post_write(self, org: str, bucket: str, body: bytes, **kwargs: Any) -> Any:
        """Write lines. Parameters as in WriteService; `org` means nothing here."""
        database, _, policy = bucket.partition("/")
        query = [("db", database), ("precision", kwargs["precision"])] + ([("rp", policy)] if policy else [])
        headers = {"Content-Type": "text/plain; charset=utf-8", "Accept": "application/json"}
        if encoding := kwargs.get("content_encoding"):
            headers["Content-Encoding"] = encoding
        return self.api_client.call_api(
            "/write", "POST", {}, query, headers, body=body, post_params=[], files={}
        )


class Server:
    """An open connection to one server."""

    def __init__(self, config: InfluxConfig) -> None:
        self.config = config
        self._client = self._open(config.auth_basic)
        self._service: WriteService | None = None

    def _open(self, basic: bool) -> InfluxDBClient:
        config = self.config
        password = config.cert_key_password
        return InfluxDBClient(
            url=config.url,
            token=config.token.get_secret_value(),
            org=config.org,
            timeout=config.timeout,
            verify_ssl=config.verify_ssl,
            ssl_ca_cert=config.ssl_ca_cert,
            cert_file=config.cert_file,
            cert_key_file=config.cert_key_file,
            cert_key_password=password.get_secret_value() if password else None,
            auth_basic=basic,
            proxy=config.proxy.get_secret_value() if config.proxy else None,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def write(self, lines: list[str]) -> None:
        """Send lines, whose times are milliseconds.

        Raises Refused, Unavailable, and UserError where url, token, org or bucket are wrong.
        """
        if self._service is None:
            self._service = self._find_service()
        self._post(self._service, "\n".join(lines).encode())

    def _find_service(self) -> WriteService:
        """The way to write that the server knows. An empty write changes nothing and is answered by all."""
        service = WriteService(self._client.api_client)
        if self.config.api != "1":
            try:
                self._post(service, b"")
                return service
            except Refused:
                return service  # it knows the path, and wants points
            except _NoSuchPath:
                if self.config.api == "2":
                    raise UserError(
                        f"the server at {self.config.url} has no /api/v2/write; leave INFLUXDB_V2_API out or set it to 1"
                    ) from None
        if ":" in self.config.token.get_secret_value() and not self.config.auth_basic:
            # before 1.8 only basic authentication works
            self._client.close()
            self._client = self._open(True)
        service = WriteServiceV1(self._client.api_client)  # type: ignore[no-untyped-call]  # inherited __init__
        try:
            self._post(service, b"")
        except _NoSuchPath:
            raise UserError(
                f"the server at {self.config.url} has neither /api/v2/write nor /write; correct the url"
            ) from None
        except Refused:
            pass
        return service

    def _post(self, service: WriteService, body: bytes) -> None:
        url = self.config.url
        try:
            service.post_write(
                self.config.org,
                self.config.bucket,
                # level 1: on lines as alike as these, 6 takes five times as long for a tenth less
                gzip.compress(body, 1, mtime=0) if body else b"",
                precision="ms",
                **({"content_encoding": "gzip"} if body else {}),
            )
        except ApiException as error:
            raise self._sorted(error) from None
        except urllib3.exceptions.LocationValueError:
            raise UserError(f"{url} is not the address of a server; correct the url") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"no answer from {url}: {self._said(_cause(error))}") from None

    def _sorted(self, error: ApiException) -> Exception:
        """What an answer other than success means."""
        status, words = error.status or 0, self._said(_words(error))
        url, bucket = self.config.url, self.config.bucket
        if status == 0:  # TLS: no answer at all
            return UserError(f"no secure connection to {url}: {words}; see verify_ssl and ssl_ca_cert")
        if status in (400, 413, 422):
            return Refused(words)
        if status in (401, 403):
            return UserError(
                f"the server at {url} does not accept the token for bucket {bucket}: {words}; correct it"
            )
        if status == 404:
            if _is_no_path(error):
                return _NoSuchPath(words)
            return UserError(
                f"the server at {url} does not have {bucket}: {words}; create it or correct the bucket"
            )
        if status == 429 or status >= 500:
            return Unavailable(f"{url} answered {status}: {words}", _seconds(error.retry_after))
        return UserError(f"the server at {url} answered {status}: {words}; correct the url")

    def _said(self, words: str) -> str:
        return printable(self.config.scrub(" ".join(words.split())), _WORDS)


class _NoSuchPath(UserError):
    """404 for the path itself, rather than for a bucket."""


def _is_no_path(error: ApiException) -> bool:
    """Servers answer for a missing bucket in JSON, and for a path that they do not have in words."""
    try:
        return not isinstance(json.loads(error.body or ""), dict)
    except ValueError:
        return True


def _words(error: ApiException) -> str:
    """The server's own words: `error` of 1.x, `message` of 2.x, `error` with `data` of 3."""
    try:
        told = json.loads(error.body or "")
    except ValueError:
        told = None
    if isinstance(told, dict):
        said = str(told.get("message") or told.get("error") or error.reason)
        if isinstance(told.get("data"), list):  # 3: what is wrong with each line
            said += "".join(
                f"; {one.get('error_message')}" for one in told["data"][:3] if isinstance(one, dict)
            )
        return said
    return str(error.body or error.reason or "no reason given")


def _cause(error: BaseException) -> str:
    """What the operating system said, else what urllib3 says, without the names of its own objects."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    if len(error.args) > 1 and isinstance(error.args[1], BaseException):
        return str(error.args[1])
    return re.sub(r"^HTTPS?Connection(?:Pool)?\([^)]*\): ", "", str(error)) or type(error).__name__


def _seconds(text: str | None) -> float | None:
    """A Retry-After in seconds; its other form, a date, is left to the back-off."""
    return float(text) if text and text.isascii() and text.isdigit() else None
