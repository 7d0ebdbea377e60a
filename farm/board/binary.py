"""A program that a board lacks, brought over the console into memory and checked by its digest."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path

from farm.board.batch import capture
from farm.board.upload import Wire
from farm.errors import BoardError, UserError

#: Memory on every board that can run a batch; gone with the boot.
FOLDER = "/tmp/farm-bin"  # noqa: S108 - a name on the board, where nobody else is
#: Bytes of the program in one script: large enough that the answers between do not count.
_PIECE = 48 * 1024


def read(path: Path, sha256: str) -> bytes:
    """The program's bytes. Raises UserError where the file is missing or is not the one that the digest names."""
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise UserError(f"cannot be read ({problem.strerror}); give a static program", file=path) from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise UserError(f"has SHA-256 {found}, but the env names {sha256}; correct one of them", file=path)
    return data


def install(wire: Wire, name: str, data: bytes, timeout_s: float) -> str:
    """Put a program onto the board and return its path there; `timeout_s` bounds each piece.

    Needs `base64` on the board. Raises BoardError where the program did not arrive as it was sent.
    """
    path = f"{FOLDER}/{name}"
    word = shlex.quote(path)
    capture(wire, f"mkdir -p {FOLDER} && rm -f {word}", timeout_s)
    for at in range(0, len(data), _PIECE):
        piece = base64.encodebytes(data[at : at + _PIECE]).decode()
        # a piece whose predecessor is missing would be appended at the wrong place, so the length is checked first
        script = (
            f'[ "$(cat {word} 2>/dev/null | wc -c)" -eq {at} ] && base64 -d >>{word} <<"X"\n{piece}X\n'
            f"wc -c <{word}\n"
        )
        said = capture(wire, script, timeout_s).decode("ascii", "replace").split()
        if said[-1:] != [str(min(at + _PIECE, len(data)))]:
            raise BoardError(
                f"{name} did not reach the board: {' '.join(said)[:200] or 'no answer'}", step="fio"
            )
    said = (
        capture(wire, f"chmod +x {word} && sha256sum <{word}", timeout_s).decode("ascii", "replace").split()
    )
    if said[:1] != [hashlib.sha256(data).hexdigest()]:
        raise BoardError(
            f"{name} reached the board damaged: {' '.join(said)[:200] or 'no answer'}", step="fio"
        )
    return path
