"""Fixtures that need the virtual lab; its absence is a failure, never a skip."""

from collections.abc import Iterator

import pytest

from tests.lab import BOARD, LabHome, environment


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHome]:
    """A lab with one board, shared by the tests of a session; each test starts from whatever the last one left."""
    path = tmp_path_factory.mktemp("farm-home")
    home = LabHome(path, environment(path))
    home.farm("virtual", "up", BOARD, timeout=900)
    yield home
    home.farm("virtual", "down")
