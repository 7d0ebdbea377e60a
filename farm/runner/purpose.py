"""What a run is for beside its campaign: calibration, a second look at what is slower, a branch, an exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.campaign import Campaign, as_run
from farm.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+~^-]{0,99}")


@dataclass(frozen=True)
class Purpose:
    """`aa` measures the baseline against itself. With `confirm`, what is slower is measured again before anyone is told.

    `branch` and `commits` (by variant) say what the kernels were built from. `fail_on` (`slower`, `unstable`) makes these
    findings exit code 1.
    """

    aa: bool = False
    confirm: bool = False
    branch: str = ""
    commits: Mapping[str, str] = field(default_factory=dict)
    fail_on: frozenset[str] = frozenset()

    def settings(self, campaign: Campaign) -> dict[str, Any]:
        """For a new run's settings. Raises UserError for what does not fit together or to the campaign."""
        if self.aa and self.confirm:
            raise UserError(
                "--aa expects no difference, so there is nothing to confirm; leave one of them out"
            )
        if self.branch and not _NAME.fullmatch(self.branch):
            raise UserError(
                f"--branch {self.branch!r} is no name of a branch; write for example next or v6.18"
            )
        if unknown := sorted(set(self.commits) - set(campaign.variants)):
            known = ", ".join(campaign.variants)
            raise UserError(f"--commit names {unknown[0]!r}, which is no variant; the campaign has {known}")
        commits = dict(self.commits)
        if self.aa and campaign.baseline in commits:
            commits = dict.fromkeys(as_run(campaign, {"aa": True}).variants, commits[campaign.baseline])
        found = {"aa": self.aa, "confirm": self.confirm, "branch": self.branch, "commits": commits}
        return {name: value for name, value in found.items() if value}

    def on_resume(self, settings: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        """The settings of a run that goes on; raises UserError where it was begun for something else."""
        if self.aa and not settings.get("aa"):
            raise UserError(f"run {run_id} is no A/A run; leave --aa out, or begin a new run")
        if self.branch or self.commits:
            raise UserError(
                f"run {run_id} has its branch and commits on record; leave --branch and --commit out"
            )
        return {**settings, "confirm": True} if self.confirm else dict(settings)


def commits(words: Iterable[str]) -> dict[str, str]:
    """`VARIANT=SHA` by variant. Raises UserError."""
    found: dict[str, str] = {}
    for word in words:
        variant, equals, commit = word.partition("=")
        if not (variant and equals and _NAME.fullmatch(commit)):
            raise UserError(
                f"--commit {word!r} is not VARIANT=SHA; write for example --commit new=1a2b3c4d5e6f"
            )
        if variant in found:
            raise UserError(f"--commit names {variant!r} twice; leave one out")
        found[variant] = commit
    return found
