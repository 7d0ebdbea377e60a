"""Draw a dashboard as a picture: its own queries, asked of a running InfluxDB, in Grafana's own components.

    python -m grafana.render trend http://127.0.0.1:8086 OUT.png --from 2026-01-01 --to 2026-02-01 --var board=evb-a

For people who change grafana/generate.py. Needs npm and Chromium; the first call installs the packages of
package-lock.json into node_modules beside this file. It is not Grafana: layout and menus are not its own, a state
timeline is not drawn, and that a Grafana server loads the files is not shown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from grafana.interpolate import alias, interpolate

HERE = Path(__file__).parent
WIDTH = 24 * 66


def answer(url: str, database: str, query: str) -> list[dict[str, Any]]:
    """The series of an InfluxQL answer, times in ms. Raises ValueError with the server's words."""
    body = urlencode({"q": query, "db": database, "epoch": "ms"}).encode()
    with urlopen(Request(f"{url}/query", data=body), timeout=60) as reply:  # noqa: S310
        (result,) = json.load(reply)["results"]
    if "error" in result:
        raise ValueError(result["error"])
    return list(result.get("series", []))


def collect(
    dashboard: Mapping[str, Any],
    url: str,
    database: str,
    chosen: Mapping[str, Sequence[str]],
    since_ms: int,
    until_ms: int,
) -> dict[str, Any]:
    """What the page draws: every panel's answers and the dashboard's marks."""
    values: dict[str, Any] = {}
    for variable in dashboard["templating"]["list"]:
        name, current = variable["name"], variable.get("current", {}).get("value", "")
        picked: Any = [variable["allValue"]] if current == ["$__all"] else current
        if name in chosen:
            picked = list(chosen[name]) if variable.get("multi") else chosen[name][0]
        values[name] = picked

    def ask(query: str) -> list[dict[str, Any]]:
        return answer(url, database, interpolate(query, values, since_ms, until_ms, "6h"))

    answers = {}
    for panel in dashboard["panels"]:
        answers[panel["id"]] = []
        for target in panel["targets"]:
            pattern = interpolate(target.get("alias", "").replace("$tag_", "@tag_"), values, 0, 0).replace(
                "@tag_", "$tag_"
            )
            series = ask(target["query"])
            for one in series:
                one["name"] = alias(pattern, one.get("tags", {}), one["columns"][1])
            answers[panel["id"]].append(target | {"series": series})
    marks = []
    for mark in dashboard["annotations"]["list"]:
        target = mark["target"]
        for one in ask(target["query"]):
            at, text = one["columns"].index("time"), one["columns"].index(target["textColumn"])
            marks += [
                {"time": row[at], "text": row[text], "color": mark["iconColor"]} for row in one["values"]
            ]
    title = "  ".join(f"{name}={','.join(value)}" for name, value in chosen.items())
    return {
        "dashboard": dashboard, "answers": answers, "marks": marks, "since": since_ms, "until": until_ms, "title": title,
    }  # fmt: skip


def draw(data: Mapping[str, Any], out: Path) -> None:
    """Bundle the page, open it in headless Chromium, write the picture."""
    if not (HERE / "node_modules").exists():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True)
    browser = next(
        (name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), "chromium"
    )
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in data["dashboard"]["panels"])
    with tempfile.TemporaryDirectory() as folder:
        bundle = [
            HERE / "node_modules" / ".bin" / "esbuild", HERE / "page.tsx", "--bundle", f"--outfile={folder}/page.js",
            "--jsx=automatic", "--minify", "--log-level=error", "--loader:.svg=dataurl", "--loader:.woff2=dataurl",
            "--loader:.ttf=dataurl", f"--alias:react-custom-scrollbars-2={HERE}/scrollbars.ts",
            '--define:process.env.NODE_ENV="production"', "--define:global=window",
        ]  # fmt: skip
        subprocess.run(bundle, check=True)
        text = json.dumps(data).replace("<", "\\u003c")
        Path(folder, "page.html").write_text(
            '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
            "<style>body{margin:8px;background:#f4f5f5;font:14px sans-serif}"
            f'*{{box-sizing:border-box}}</style><div id="root"></div><script>window.farm={text}</script>'
            '<script src="page.js"></script>',
            "utf-8",
        )
        done = subprocess.run(
            [
                browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                "--allow-file-access-from-files", "--virtual-time-budget=15000", "--enable-logging=stderr", "--v=0",
                f"--user-data-dir={folder}/profile", f"--window-size={WIDTH + 16},{56 + 36 * rows + 16}",
                f"--screenshot={out.absolute()}", f"file://{folder}/page.html",
            ],
            check=True, timeout=180, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    if wrong := [line for line in done.stderr.splitlines() if "CONSOLE" in line and "Uncaught" in line]:
        raise RuntimeError(wrong[0])


def main() -> None:
    """Read the command line, ask, draw."""
    parser = argparse.ArgumentParser(
        prog="python -m grafana.render", description="Draw a dashboard as a picture."
    )
    parser.add_argument("dashboard", help="nightly, compare, trend or boards")
    parser.add_argument("url", help="an InfluxDB that answers InfluxQL at /query")
    parser.add_argument("out", type=Path)
    parser.add_argument("--database", default="farm")
    parser.add_argument("--from", dest="since", required=True, help="ISO 8601, UTC")
    parser.add_argument("--to", dest="until", required=True)
    parser.add_argument("--var", action="append", default=[], help="NAME=VALUE[,VALUE...]")
    given = parser.parse_args()
    dashboard = json.loads((HERE.parent / "dashboards" / f"{given.dashboard}.json").read_text("utf-8"))
    chosen = {name: value.split(",") for name, _, value in (one.partition("=") for one in given.var)}
    since, until = (
        round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
        for text in (given.since, given.until)
    )
    draw(collect(dashboard, given.url, given.database, chosen, since, until), given.out)


if __name__ == "__main__":
    main()
