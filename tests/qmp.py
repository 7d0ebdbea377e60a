"""Faults from outside: QEMU's own control socket of a virtual board."""

import json
import os
import socket
from pathlib import Path


def qmp(board: Path, command: str, **arguments: object) -> object:
    """Run one QMP command on the board whose lab directory this is; raises AssertionError if QEMU refuses."""
    here = os.open(board, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            line.connect(f"/proc/self/fd/{here}/qmp.sock")
            with line.makefile("rwb") as stream:
                stream.readline()  # the greeting
                for name, words in (("qmp_capabilities", {}), (command, arguments)):
                    stream.write(json.dumps({"execute": name, "arguments": words}).encode() + b"\n")
                    stream.flush()
                    while "event" in (answer := json.loads(stream.readline())):
                        pass
                    assert "return" in answer, answer
                return answer["return"]
    finally:
        os.close(here)
