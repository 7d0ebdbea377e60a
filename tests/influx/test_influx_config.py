"""Where the configuration comes from, and that no complaint about it shows a secret."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from farm.errors import UserError
from farm.influx.config import InfluxConfig, load_config
from tests.influx.conftest import TOKEN

ENVIRON = {
    "INFLUXDB_V2_URL": "https://influx.example:8086/",
    "INFLUXDB_V2_TOKEN": TOKEN,
    "INFLUXDB_V2_ORG": "lab",
    "INFLUXDB_V2_BUCKET": "farm",
    "INFLUXDB_V2_TIMEOUT": "6000",
    "INFLUXDB_V2_VERIFY_SSL": "False",
    "INFLUXDB_V2_AUTH_BASIC": "true",
    "INFLUXDB_V2_CONNECTION_POOL_MAXSIZE": "25",
}
INI = f'''[influx2]
url = "http://127.0.0.1:8086"
token = "{TOKEN}"
org = "lab"
bucket = "farm/week"
timeout = 6000
profilers = query,operator
'''


def test_influxdb_clients_own_variables(tmp_path: Path) -> None:
    config = load_config(tmp_path, environ=ENVIRON)
    assert config is not None
    assert (config.url, config.org, config.bucket, config.timeout) == (
        "https://influx.example:8086",
        "lab",
        "farm",
        6000,
    )
    assert (config.verify_ssl, config.auth_basic, config.api) == (False, True, "auto")
    assert config.token.get_secret_value() == TOKEN


def test_nothing_set_is_no_configuration(tmp_path: Path) -> None:
    assert load_config(tmp_path, environ={"INFLUXDB_V2_TOKEN": TOKEN}) is None


@pytest.mark.parametrize("how", ["named", "variable", "usual"])
def test_a_file_as_influxdb_client_reads_it(tmp_path: Path, how: str) -> None:
    file = tmp_path / ("influx.ini" if how == "usual" else "other.toml")
    file.write_text(INI)
    environ = {"FARM_INFLUX_CONFIG": str(file)} if how == "variable" else {}
    config = load_config(tmp_path, file=file if how == "named" else None, environ=environ)
    assert config is not None
    assert (config.url, config.bucket, config.timeout) == ("http://127.0.0.1:8086", "farm/week", 6000)
    assert config.token.get_secret_value() == TOKEN


def test_a_json_file(tmp_path: Path) -> None:
    file = tmp_path / "influx.json"
    file.write_text('{"url": "http://h:1", "token": "t", "bucket": "b", "timeout": 500, "auth_basic": false}')
    config = load_config(tmp_path, file=file, environ=ENVIRON)
    assert config is not None and (config.url, config.timeout, config.auth_basic) == (
        "http://h:1",
        500,
        False,
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"[influx2]\nurl=http://h:1\n{TOKEN}\n", "{file}:3: is neither INI nor JSON; write a section [influx2]"),
        (f"token={TOKEN}\n", "{file}:1: is neither INI nor JSON; write a section [influx2]"),
        (f"[influx]\ntoken={TOKEN}\n", "{file}: has no section [influx2]; add it with url, org, token and bucket"),
        (f'{{"token": "{TOKEN}"', "{file}:1: is not JSON"),
        (f"[influx2]\nurl=http://h:1\ntoken={TOKEN}\n", "{file}: bucket: is not set; it names the bucket (the database of a 1.x server)"),
        (f"[influx2]\nurl=http://u:{TOKEN}@h:1\nbucket=b\n", "{file}: url: a password in the url would show in messages; write user:password as the token"),
        (f"[influx2]\nurl=h:1\nbucket=b\ntoken={TOKEN}", "{file}: url: is not the address of a server; write for example http://127.0.0.1:8086"),
        (f"[influx2]\nurl=http://h:99999\nbucket=b\ntoken={TOKEN}", "{file}: url: is not the address of a server; write for example http://127.0.0.1:8086"),
        (f"[influx2]\nurl=http://h:1\nbucket=b\ntimeout={TOKEN}", "{file}: timeout: Input should be a valid integer, unable to parse string as an integer"),
        (f"[influx2]\nurl=http://h:1\nbucket=b\napi={TOKEN}", "{file}: api: Input should be 'auto', '1' or '2'"),
        (f"[influx2]\nurl=http://h:1\nbucket=b\ntoken={TOKEN}\n second line", "{file}: token: holds a sign that no HTTP header can; give the token alone, on one line"),
        (f"[influx2]\nurl=http://h:1\nbucket=b\ntoken={TOKEN}\u20ac", "{file}: token: holds a sign that no HTTP header can; give the token alone, on one line"),
        (f"[influx2]\nurl=https://h:1\nbucket=b\ntoken={TOKEN}\nssl_ca_cert=none.pem", "{file}: ssl_ca_cert: 'none.pem' is no file; give the path of a PEM file"),
        (f"[influx2]\nurl=http://h:1\nbuckets=b\nbucket=b\ntoken={TOKEN}", "{file}: buckets: is not known; known here: url, bucket, org, token, api, timeout, verify_ssl, ssl_ca_cert, cert_file, cert_key_file, cert_key_password, auth_basic, proxy"),
    ],
)  # fmt: skip
def test_complaints_name_file_and_key_and_no_secret(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "influx.ini"
    file.write_text(text)
    with pytest.raises(UserError) as wrong:
        load_config(tmp_path, environ={})
    assert str(wrong.value) == complaint.format(file=file)
    shown = "".join(traceback.format_exception(wrong.value))
    assert TOKEN not in shown  # as where somebody prints the traceback


def test_a_variable_is_named_as_the_user_wrote_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^INFLUXDB_V2_BUCKET: is not set"):
        load_config(tmp_path, environ={"INFLUXDB_V2_URL": "http://h:1"})
    with pytest.raises(UserError, match=r"cannot be read: No such file or directory"):
        load_config(tmp_path, environ={"FARM_INFLUX_CONFIG": str(tmp_path / "none.ini")})


def test_nothing_about_a_configuration_shows_its_secrets() -> None:
    config = InfluxConfig(
        url="http://h:1", bucket="b", token=f"admin:{TOKEN}", proxy=f"http://p:{TOKEN}x@proxy:3128", cert_key_password="k" + TOKEN
    )  # fmt: skip
    for shown in (repr(config), str(config), f"{config.model_dump()}", config.model_dump_json()):
        assert TOKEN not in shown
    assert config.scrub(f"bad token {TOKEN}, admin:{TOKEN}") == "bad token ***, ***"
