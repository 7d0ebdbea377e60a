"""The influxd of the demo does not outlive the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab import ROOT, alive, wait_for

HOLD = (
    "import sys, time; from pathlib import Path; from farm.influx.local import LocalInflux\n"
    "with LocalInflux(Path(sys.argv[1])) as server: print(server.pid, flush=True); time.sleep(60)"
)


def test_a_killed_process_takes_its_server_along(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        server = int(holder.stdout.readline())
        assert Path(f"/proc/{server}/cmdline").read_bytes().startswith(b"influxd\0")
        os.kill(holder.pid, signal.SIGKILL)
    wait_for("influxd is gone", lambda: not alive(server), 5)
