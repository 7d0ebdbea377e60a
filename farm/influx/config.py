"""Where points go: influxdb-client's own environment variables or its own kind of file, and the bucket.

Environment: INFLUXDB_V2_URL, _ORG, _TOKEN, _TIMEOUT (ms), _VERIFY_SSL, _SSL_CA_CERT, _CERT_FILE, _CERT_KEY_FILE,
_CERT_KEY_PASSWORD, _AUTH_BASIC as influxdb-client reads them; INFLUXDB_V2_BUCKET and INFLUXDB_V2_API are farm's.
File: `FARM_INFLUX_CONFIG` or `influx.ini` in farm's home; a section `[influx2]` (INI or TOML) or a JSON object with
the same names in lower case, as `InfluxDBClient.from_config_file` takes it, plus `bucket`, `api`.
"""

from __future__ import annotations

import configparser
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)

from farm.errors import UserError

_PREFIX = "INFLUXDB_V2_"
_IGNORED = frozenset({"connection_pool_maxsize", "profilers", "debug"})
"""Options of influxdb-client that have nothing to do with writing."""


def _yes(value: object) -> object:
    if isinstance(value, str) and value.lower() in ("yes", "true", "no", "false", "1", "0"):
        return value.lower() in ("yes", "true", "1")
    return value


Yes = Annotated[bool, BeforeValidator(_yes)]


class InfluxConfig(BaseModel):
    """A server and what it asks for. Neither `repr` nor messages show token and passwords.

    `bucket` is the database for a 1.x server, and may be `database/retention-policy` there. `token` may be
    `user:password` for a 1.x server. `timeout` is milliseconds per request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str
    bucket: str = Field(min_length=1, max_length=255)
    org: str = ""
    token: SecretStr = SecretStr("")
    api: Literal["auto", "1", "2"] = "auto"
    timeout: int = Field(default=10_000, ge=100, le=600_000)
    verify_ssl: Yes = True
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    cert_key_file: str | None = None
    cert_key_password: SecretStr | None = None
    auth_basic: Yes = False
    proxy: SecretStr | None = None  # may hold a password

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and (parts.port is None or parts.port > 0)
            )
        except ValueError:
            usable, parts = False, urlsplit("")
        if "@" in parts.netloc:
            raise ValueError("a password in the url would show in messages; write user:password as the token")
        if not usable or parts.query or parts.fragment or not url.isprintable():
            raise ValueError("is not the address of a server; write for example http://127.0.0.1:8086")
        return url.rstrip("/")

    @field_validator("token")
    @classmethod
    def _fits_a_header(cls, token: SecretStr) -> SecretStr:
        # what does not would be quoted, secret and all, by the library that refuses it
        text = token.get_secret_value()
        if not text.isprintable() or any(ord(sign) > 0xFF for sign in text):
            raise ValueError("holds a sign that no HTTP header can; give the token alone, on one line")
        return token

    @field_validator("ssl_ca_cert", "cert_file", "cert_key_file")
    @classmethod
    def _there(cls, file: str | None) -> str | None:
        if file is not None and not Path(file).is_file():
            raise ValueError(f"{file!r} is no file; give the path of a PEM file")
        return file

    def scrub(self, text: str) -> str:
        """The text with token and passwords taken out, for whatever a server or a library may repeat."""
        hidden = {one.get_secret_value() for one in (self.token, self.cert_key_password, self.proxy) if one}
        for secret in list(hidden):
            hidden |= set(secret.split(":", 1)[1:])
        for secret in sorted(hidden, key=len, reverse=True):
            if len(secret) > 2:
                text = text.replace(secret, "***")
        return text


def load_config(
    home: Path, *, file: Path | None = None, environ: Mapping[str, str] = os.environ
) -> InfluxConfig | None:
    """The configuration, or None where nobody set any: `file`, else FARM_INFLUX_CONFIG, else the environment where
    INFLUXDB_V2_URL is set, else `influx.ini` in `home`. Sources are not mixed.

    Raises UserError for a file that cannot be read, and values that are missing or wrong; never with a secret.
    """
    named = file or (Path(environ["FARM_INFLUX_CONFIG"]) if environ.get("FARM_INFLUX_CONFIG") else None)
    if named is not None:
        return _validated(_from_file(named), named)
    if environ.get(f"{_PREFIX}URL"):
        return _validated(_from_environment(environ), None)
    usual = home / "influx.ini"
    return _validated(_from_file(usual), usual) if usual.exists() else None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name in (*InfluxConfig.model_fields, *_IGNORED):
        if value := environ.get(_PREFIX + name.upper()):
            found[name] = value
    return found


def _from_file(file: Path) -> dict[str, Any]:
    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for, and /dev/zero has no end
            raise UserError("is no file; give an INI file with a section [influx2]", file=file)
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"cannot be read: {why}", file=file) from None
    if text.lstrip().startswith("{"):
        try:
            loaded = json.loads(text)
        except ValueError as error:
            raise UserError("is not JSON", file=file, line=getattr(error, "lineno", None)) from None
        return {name: str(value) for name, value in loaded.items() if name != "tags"}
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # its own message would quote the line, and the line may hold the token
        errors = getattr(error, "errors", None)
        line = errors[0][0] if errors else getattr(error, "lineno", None)
        raise UserError("is neither INI nor JSON; write a section [influx2]", file=file, line=line) from None
    if not parser.has_section("influx2"):
        raise UserError("has no section [influx2]; add it with url, org, token and bucket", file=file)
    return {name: value.strip().strip("\"'") for name, value in parser.items("influx2")}


def _validated(values: dict[str, Any], file: Path | None) -> InfluxConfig:
    for name in _IGNORED:
        values.pop(name, None)
    try:
        return InfluxConfig(**values)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        key = str(detail["loc"][0])
        name = key if file else _PREFIX + key.upper()
        what = {
            "missing": "is not set; it names the bucket (the database of a 1.x server)"
            if key == "bucket"
            else "is not set; add it",
            "extra_forbidden": f"is not known; known here: {', '.join(InfluxConfig.model_fields)}",
        }.get(detail["type"], re.sub(r"^Value error, ", "", detail["msg"]))
        raise UserError(what, file=file, key=name) from None
