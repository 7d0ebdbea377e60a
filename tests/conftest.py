"""A store on disk, and the virtual lab, whose absence is a failure and never a skip."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.store.db import Store
from tests.lab import BOARD, LabHome, lab_of


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "farm home" / "farm.db"


@pytest.fixture
def store(db_path: Path) -> Iterator[Store]:
    with Store.open(db_path, create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHome]:
    """A lab with one board, shared by the tests of a session; each test starts from whatever the last one left."""
    with lab_of(BOARD, home=tmp_path_factory.mktemp("farm-home")) as lab:
        yield lab
