"""A program brought to a board without it: whole, executable, and refused when it is another one."""

import hashlib
import random
from pathlib import Path

import pytest

from farm.board import binary
from farm.errors import UserError
from tests.board.boards import SHELLS, PtyBoard


@pytest.mark.parametrize("shell", ["ash", "mksh"])
def test_a_program_arrives_whole_and_runs(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary, "FOLDER", str(tmp_path / "bin"))
    program = b"#!/bin/sh\necho fio-$((40+2))\nexit\n" + random.Random(1).randbytes(100_000)
    board = PtyBoard(
        SHELLS[shell], {"PATH": "/usr/bin:/bin", "PS1": "$ ", "HOME": str(tmp_path), "TERM": "dumb"}
    )
    try:
        path = binary.install(board, "fio", program, 60)
        assert Path(path).read_bytes() == program
        board.ask(path)
        board.expect(b"fio-42")
    finally:
        board.close()


def test_another_program_than_the_env_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fio").write_bytes(b"something")
    right = hashlib.sha256(b"something").hexdigest()
    assert binary.read(tmp_path / "fio", right) == b"something"
    with pytest.raises(UserError, match=r"fio: has SHA-256 3fc9b689.*but the env names 0000"):
        binary.read(tmp_path / "fio", "0" * 64)
    with pytest.raises(UserError, match="cannot be read"):
        binary.read(tmp_path / "nothing", right)
