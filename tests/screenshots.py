"""The pictures of the HTML report in docs/: `make screenshots DB=.farm/farm.db RUN=latest`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from farm.report import html
from farm.report.study import latencies, study
from farm.store.db import Store
from tests.browser import Browser


def main() -> None:
    """Write docs/report-1280.png and docs/report-390.png from the database and run on the command line."""
    database, run = sys.argv[1:3]
    with Store.open(database) as store:
        found = study(store, run)
        text = html.page(found, latencies(store, found))
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = Path(folder) / "report.html"
        page.write_text(text, encoding="utf-8")
        for width in (1280, 390):
            browser.open(page, width)
            browser.screenshot(Path("docs") / f"report-{width}.png")


if __name__ == "__main__":
    main()
