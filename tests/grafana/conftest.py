"""One month for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .month import Month, exported


@pytest.fixture(scope="session")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    """The month, exported. An influxd that is not installed fails the tests."""
    with exported(tmp_path_factory.mktemp("month")) as made:
        yield made
