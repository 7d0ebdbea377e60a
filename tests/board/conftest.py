"""Two kinds of tests: those of farm.board, and with `--lg-env` those of the board on the desk, in desk/."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """At a desk only the board's own tests run: the others bring their virtual boards along."""
    if collection_path.is_dir() and collection_path.name != "desk":
        return None
    of_desk = "desk" in collection_path.relative_to(Path(__file__).parent).parts
    return None if of_desk == bool(config.getoption("lg_env", None)) else True
