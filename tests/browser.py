"""Headless Chromium, driven over WebDriver: what a page shows at a width, what it asks the network for, what it complains of."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import requests

_PHONE = 600  # narrower than this, the page is shown as on a phone


class Browser:
    """One Chromium. Debian's packages chromium and chromium-driver have to be there."""

    def __init__(self) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                break
        else:
            raise AssertionError("chromedriver did not start")
        self._url = f"http://127.0.0.1:{found[1]}"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        try:
            session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self._driver.kill()
            raise
        self._url += f"/session/{session['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(20)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        answer = requests.request(method, self._url + path, json=body, timeout=120)
        value = answer.json()["value"]
        assert answer.ok, value
        return value

    def devtools(self, command: str, **parameters: object) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page: Path, width: int) -> None:
        """Load a file at a width; a narrow one as a phone does, which heeds the page's viewport."""
        self._logs("browser"), self._logs("performance")
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < _PHONE,
        )
        self._call("POST", "/url", {"url": page.absolute().as_uri()})

    def run(self, script: str) -> Any:
        """What a script in the page returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def complaints(self) -> list[str]:
        """Everything that the console got since `open`."""
        return [entry["message"] for entry in self._logs("browser")]

    def requested(self) -> list[str]:
        """Every URL that was asked for since `open`."""
        messages = [json.loads(entry["message"])["message"] for entry in self._logs("performance")]
        return [
            one["params"]["request"]["url"]
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
        ]

    def _logs(self, kind: str) -> list[dict[str, Any]]:
        return list(self._call("POST", "/se/log", {"type": kind}))

    def screenshot(self, file: Path) -> None:
        """The page from its top, 3000 pixels of it at most, as PNG."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 3000), "scale": 1}
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))
