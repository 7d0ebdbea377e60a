"""The process that keeps labgrid's coordinator and exporter running for the virtual lab.

Run as `python -m farm.fleet.keeper HOME EXPORTER_CONFIG`; writes one line, `ready` or the reason of its failure, to
standard output. Lives until SIGTERM. Its children, and ser2net below the exporter, die with it, however it dies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from farm.lock import taken
from farm.mortal import die_with
from farm.ports import free_port
from farm.virtual.state import start_time

STATE_FILE, LOCK_FILE, LOG_FILE = "coordinator.json", "keeper.lock", "coordinator.log"
PLACES_FILE = "wanted-places.json"
EXPORTER = "farm-virtual"
_READY_S = 20.0
_PAUSE_S = 0.5  # between the end of a child and its next start


def directory(home: Path) -> Path:
    """Where a home directory's coordinator keeps places, state and log."""
    return home.absolute() / "coordinator"


def program(name: str) -> str | None:
    """A program of this environment, of PATH, or of Debian's /usr/sbin, which users do not have in PATH."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class _Child:
    """A program that is started again whenever it ends: the exporter ends with 100 when the coordinator restarts."""

    def __init__(self, name: str, argv: list[str], env: dict[str, str]) -> None:
        self.name, self.argv, self.env = name, argv, env
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at = 0.0

    def keep(self) -> bool:
        """Start it if it does not run and its pause is over; whether it was started."""
        if self.process is not None:
            if (code := self.process.poll()) is None:
                return False
            print(f"keeper: {self.name} ended with {code}", flush=True)
            self.process, self.start_at = None, time.monotonic() + _PAUSE_S
        if time.monotonic() >= self.start_at:
            self.process = subprocess.Popen(  # one thread, so the hook is safe
                self.argv, env=self.env, stdin=subprocess.DEVNULL, preexec_fn=die_with(os.getpid())
            )
            print(f"keeper: {self.name} runs, pid {self.process.pid}", flush=True)
            return True
        return False

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def _with_mortal_ser2net(work: Path) -> dict[str, str]:
    """The environment of the exporter: its PATH begins with a ser2net that dies with the exporter.

    labgrid leaves ser2net behind when the exporter is killed, and with it a serial line that nobody else can open.
    """
    real = program("ser2net")
    assert real is not None, "looked for before the keeper was started"
    folder = work / "bin"
    folder.mkdir(exist_ok=True)
    script = folder / "ser2net"
    script.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL {real} "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ.get('PATH', '/usr/bin:/bin')}"}


def _run(work: Path, config: str, say: Callable[[str], None]) -> int:
    port = free_port()
    address = f"127.0.0.1:{port}"
    coordinator = _Child(
        "labgrid-coordinator", [program("labgrid-coordinator") or "", "-l", address], dict(os.environ)
    )
    exporter = _Child(
        "labgrid-exporter",
        [program("labgrid-exporter") or "", "-c", address, "-n", EXPORTER, "--hostname", "127.0.0.1", config],
        _with_mortal_ser2net(work),
    )
    ending: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: ending.append(signum))
    try:
        coordinator.keep()
        deadline = time.monotonic() + _READY_S
        while not _answers(port):
            if coordinator.process is None or coordinator.process.poll() is not None:
                say("labgrid-coordinator ended as it started")
                return 1
            if time.monotonic() > deadline or ending:
                say(f"labgrid-coordinator does not answer within {_READY_S:.0f} s")
                return 1
            time.sleep(0.05)
        exporter.keep()
        state = {
            "pid": os.getpid(),
            "started": start_time(os.getpid()),
            "address": address,
            "pdu": os.environ.get("LG_VIRTUAL_PDU", ""),
        }
        fresh = work / f"{STATE_FILE}.new"
        fresh.write_text(json.dumps(state))
        fresh.replace(work / STATE_FILE)
        say("ready")
        maker: subprocess.Popen[bytes] | None = None
        while not ending:
            if coordinator.keep():
                # another process, because gRPC and fork do not go together
                words = [sys.executable, "-m", "farm.fleet.places", address, PLACES_FILE]
                maker = subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=die_with(os.getpid()))
            if maker is not None and maker.poll() is not None:
                maker = None
            exporter.keep()
            time.sleep(0.2)
        return 0
    finally:
        exporter.end()
        coordinator.end()
        (work / STATE_FILE).unlink(missing_ok=True)


def main(argv: list[str]) -> int:
    """Keep coordinator and exporter of the home directory `argv[1]` with the exporter's configuration `argv[2]`."""
    work = directory(Path(argv[1]))
    if os.fork():  # whoever started it gets no zombie when it ends
        os._exit(0)
    os.chdir(work)  # the coordinator keeps its places in its working directory
    lock = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not taken(lock):
        print("ready", flush=True)  # somebody else's is, or will be in a moment
        return 0
    out = os.dup(1)
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def say(text: str) -> None:
        nonlocal out
        if out >= 0:
            os.write(out, text.encode() + b"\n")
            os.close(out)
            out = -1

    try:
        return _run(work, argv[2], say)
    except OSError as problem:
        say(str(problem))
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv))
