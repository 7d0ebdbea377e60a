"""The campaign of a run in the store, as the run did it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from farm.campaign import Campaign, as_run, load_campaign
from farm.errors import UserError
from farm.store.records import RunRecord


def campaign_of(run: RunRecord) -> Campaign | None:
    """The campaign that the run's record holds the text of, as `as_run`; None where this farm cannot read it (an older
    one's)."""
    if not run.campaign_text or run.settings.get("imported"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "campaign.yaml"
        path.write_text(run.campaign_text, encoding="utf-8", errors="replace")
        try:
            return as_run(load_campaign(path), run.settings)
        except UserError:
            return None
