"""Debian's influxd (1.x) as a child on loopback, for the demo and the tests; it needs no configuration file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from farm.errors import UserError
from farm.influx.config import InfluxConfig
from farm.ports import free_port

START_S = 20.0
"""Seconds to wait for a server's first answer; it takes 0.1 where the machine is idle."""


class LocalInflux:
    """A server whose data lies below `directory` and stays there; the process ends with the `with` block, or with the
    thread that started it, should that be killed."""

    def __init__(self, directory: Path, *, database: str = "farm") -> None:
        self.directory, self.database = directory, database
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, the same after every start."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return self._process.pid if self._process else None

    def config(self, **changes: Any) -> InfluxConfig:
        """How to write to it."""
        return InfluxConfig(**({"url": self.url, "bucket": self.database} | changes))

    def start(self, **environ: str) -> None:
        """Start it and make the database. Raises UserError where there is no influxd, or it does not come up."""
        if shutil.which("influxd") is None:
            raise UserError("there is no influxd on this machine; as root: apt-get install influxdb")
        self.directory.mkdir(parents=True, exist_ok=True)
        data = self.directory.absolute()
        settings = {
            "INFLUXDB_REPORTING_DISABLED": "true",
            "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{free_port()}",
            "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{self.port}",
            "INFLUXDB_META_DIR": f"{data}/meta",
            "INFLUXDB_DATA_DIR": f"{data}/data",
            "INFLUXDB_DATA_WAL_DIR": f"{data}/wal",
        }
        with (data / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(
                # it must not outlive a farm that is killed; not preexec_fn, since this process may have threads
                ["setpriv", "--pdeathsig", "KILL", "influxd", "-config", "/dev/null"],
                env=os.environ | settings | environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for farm, which still has something to send
            )
        wait_for("influxd", f"{self.url}/ping", self._process, data / "influxd.log")
        if not environ:
            self.query(f'CREATE DATABASE "{self.database}"')

    def query(self, text: str, **parameters: str) -> list[dict[str, Any]]:
        """The series that an InfluxQL statement answers, times in milliseconds. Raises ValueError for its errors."""
        asked = urlencode({"q": text, "db": self.database, "epoch": "ms", **parameters}).encode()
        try:
            with urlopen(Request(f"{self.url}/query", data=asked), timeout=60) as answer:  # noqa: S310
                result = json.load(answer)["results"][0]
        except HTTPError as error:
            raise ValueError(error.read().decode("utf-8", "replace")) from None
        if "error" in result:
            raise ValueError(result["error"])
        return list(result.get("series", []))

    def kill(self) -> None:
        """End it as a power cut does: SIGKILL; what it had acknowledged is on disk."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it in order."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def __enter__(self) -> LocalInflux:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def wait_for(name: str, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once `url` of the server `name` is answered. Raises UserError, with the last line of its log, where the
    process ends before."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(url, timeout=2):  # noqa: S310
                return
        except HTTPError:
            return  # an answer is an answer
        except (URLError, OSError):
            time.sleep(0.02)
    process.kill()
    process.wait()
    last = log.read_text("utf-8", "replace").splitlines()[-1:] if log.exists() else []
    raise UserError(f"{name} did not come up: {last[0] if last else 'it said nothing'}; see {log}")
