"""Pictures for docs/ of the month that the tests ask about: `python -m tests.grafana.screenshots`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from grafana.render.__main__ import collect, draw

from .month import SLOWER, exported

ROOT = Path(__file__).parents[2]
CHOSEN = {
    "trend": {
        "board": ["evb-a", SLOWER[0]],
        "workload": [SLOWER[2]],
        "variant": ["golden", "next"],
        "metric": ["bw_bytes"],
    },
    "compare": {"board": [SLOWER[0]], "metric": ["bw_bytes"]},
}


def main() -> None:
    """Trend over the month, Compare of its last night."""
    with tempfile.TemporaryDirectory() as folder, exported(Path(folder)) as month:
        for name, chosen in CHOSEN.items():
            board = json.loads((ROOT / "grafana" / "dashboards" / f"{name}.json").read_text("utf-8"))
            since = month.since_ms if name == "trend" else month.until_ms - 3 * 3_600_000
            picked = chosen | ({"run": [month.last_run]} if name == "compare" else {})
            data = collect(board, month.server.url, month.server.database, picked, since, month.until_ms)
            draw(data, ROOT / "docs" / f"grafana-{name}.png")


if __name__ == "__main__":
    main()
