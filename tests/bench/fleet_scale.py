"""What a farm of 100 boards costs its controller: CPU and memory, against scripted consoles (a STAND-IN, FOR SCALE ONLY).

Run by `make bench`, or alone: python -m tests.bench.fleet_scale [--boards 1 10 30 100] [--boot-seconds 60]
For each number of boards one `farm run` of four boots per board, all of it the real code; `scale_standin` plays the
boards. Counted is all CPU time of `farm run` and its children (user and system, by the kernel's books), and the largest
sum of their proportional memory (PSS) over the run. The stand-in's own share is in neither. Exits with 1 where
a limit is missed or a result is not there.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.bench.scale_standin import name_of
from tests.lab import ROOT, children, environment

BOARDS = (1, 10, 30, 100)
BOOT_S = 60.0
CPU_S = 0.5  # per boot
PSS = 20e6  # bytes per board
LINEAR = 1.2
WALL = 1.1
FLEET = 10  # from so many boards on the limits per board hold; one board pays for the controller alone
BOOTS, TRIALS, WORKLOADS = 4, 2, 5
_SAMPLE_S = 2.0
# Sizes of Debian's arm64 kernel and of an initrd with modules.
_KERNEL_BYTES, _INITRD_BYTES = 37_732_288, 3_600_000

CAMPAIGN = f"""\
name: fleet-scale
description: stand-in for scale only; nothing is measured
boots: {BOOTS // 2}
trials: {TRIALS}
variants:
  old: {{baseline: true, kernel: kernel-old, knobs: {{queue/read_ahead_kb: 128}}, expect: {{read_ahead_kb: 128}}}}
  new: {{kernel: kernel-new, knobs: {{queue/read_ahead_kb: 1024}}, expect: {{read_ahead_kb: 1024}}}}
workloads:
  - {{tool: dd, rw: read, bs: 1M, size: 32M}}
  - {{tool: fio, rw: [randread, randwrite, read, write], bs: [4k], size: 64M, runtime: 5s}}
"""
ENV = """\
# STAND-IN, FOR SCALE ONLY: a scripted console, see tests/bench/scale_standin.py.
targets:
  main:
    resources:
      - NetworkPowerPort: {{model: rest, host: "{url}/{name}/{{index}}", index: 1}}
      - RawSerialPort: {{port: "{folder}/{name}/console", speed: 1500000}}
      - TFTPProvider: {{internal: "{folder}/{name}/tftp", external: ""}}
    drivers:
      - NetworkPowerDriver: {{}}
      - WatchedSerialDriver: {{}}
      - UBootDriver: {{prompt: '\\n=> ', autoboot: "stop autoboot", login_timeout: 60, boot_timeout: 60}}
      - ShellDriver: {{prompt: '/ # ', login_prompt: 'login: ', username: root, login_timeout: 60}}
      - TFTPProviderDriver: {{}}
      - FarmStrategy: {{}}
imports: [farm.board.strategy]
images: {{kernel-old: {images}/Image-old, kernel-new: {images}/Image-new, initrd: {images}/initrd}}
farm:
  soc: none (stand-in for scale)
  synthetic: "stand-in for scale only: a scripted console; nothing boots, nothing is measured"
  disk: {{controller: "0000:00:03.0", type: SD, size: 1GiB}}
  scratch:
    raw: {{partition: 1, start: 1MiB, size: 512MiB}}
  args: console=ttyAMA0
  flash:
    method: netboot
    load: {{kernel: 0x40400000, initrd: 0x48000000}}
  golden: {{kernel: kernel-old, initrd: initrd}}
  boot_seconds: {boot_s}
  off_seconds: 0
"""


@dataclass(frozen=True)
class Cost:
    """What one run cost: CPU seconds, largest PSS in bytes, wall seconds; boots and trials that are stored as ok."""

    boards: int
    cpu_s: float
    pss: int
    wall_s: float
    boots: int
    trials: int

    @property
    def cpu_per_boot(self) -> float:
        """CPU seconds per board and boot."""
        return self.cpu_s / self.boards / BOOTS

    @property
    def complete(self) -> bool:
        """Every boot of every board is there, with all of its trials."""
        return (self.boots, self.trials) == (self.boards * BOOTS, self.boards * BOOTS * TRIALS * WORKLOADS)


def _images(folder: Path) -> None:
    """Files of real size that farm takes for kernels: an arm64 head and a banner among bytes without meaning."""
    folder.mkdir()
    noise = random.Random(1)
    banner = re.search(
        r"Linux version .*", Path(__file__).with_name("recording").joinpath("probe.txt").read_text()
    )
    assert banner is not None
    for variant in ("old", "new"):
        data = bytearray(noise.randbytes(_KERNEL_BYTES))
        data[0x38:0x3C] = b"ARM\x64"
        line = banner[0].replace("-arm64 ", f"-{variant}-arm64 ").encode() + b"\n\0"
        data[1 << 20 : (1 << 20) + len(line)] = line
        (folder / f"Image-{variant}").write_bytes(data)
    (folder / "initrd").write_bytes(noise.randbytes(_INITRD_BYTES))


@contextmanager
def stand_in(folder: Path, count: int, boot_s: float) -> Iterator[list[Path]]:
    """So many scripted consoles; yields their env files."""
    _images(folder / "images")
    words = [sys.executable, "-m", "tests.bench.scale_standin", str(folder), str(count), str(boot_s)]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the stand-in did not start"
        files = []
        for number in range(1, count + 1):
            files.append(folder / f"{name_of(number)}.yaml")
            files[-1].write_text(
                ENV.format(
                    url=url, name=name_of(number), folder=folder, images=folder / "images", boot_s=boot_s
                )
            )
        try:
            yield files
        finally:
            process.stdin.close()


def _pss(pids: Sequence[int]) -> int:
    total = 0
    for pid in pids:
        try:
            found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        except OSError:
            continue  # it ended meanwhile
        total += int(found[1]) * 1024 if found else 0
    return total


def _used() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def run(folder: Path, files: Sequence[Path]) -> Cost:
    """`farm run` of the campaign on these boards, to its end."""
    campaign = folder / "campaign.yaml"
    campaign.write_text(CAMPAIGN + "boards:\n" + "".join(f"  - {file}\n" for file in files))
    words = [str(Path(sys.executable).with_name("farm")), "run", str(campaign), "--seed", "1"]
    env = {**environment(folder / "home"), "FARM_CACHE": str(folder / "cache")}
    before, began, most = _used(), time.monotonic(), 0
    said = folder / "farm.out"
    with said.open("w") as out:
        farm = subprocess.Popen(words, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT)
    while farm.poll() is None:
        most = max(most, _pss([farm.pid, *children(farm.pid)]))
        time.sleep(_SAMPLE_S)
    wall = time.monotonic() - began
    cpu = _used() - before
    if farm.returncode:
        print(said.read_text()[-3000:])
    database = folder / "home" / "farm.db"
    if not database.exists():
        return Cost(len(files), cpu, most, wall, 0, 0)
    with sqlite3.connect(database) as db:
        boots = db.execute("SELECT count(*) FROM boot WHERE status = 'ok'").fetchone()[0]
        trials = db.execute("SELECT count(*) FROM trial WHERE status = 'ok'").fetchone()[0]
    return Cost(len(files), cpu, most, wall, boots, trials)


def cost(boards: int, boot_s: float) -> Cost:
    """One size, in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        with stand_in(folder, boards, boot_s) as files:
            return run(folder, files)


def misses(found: Sequence[Cost]) -> Iterator[str]:
    """What missed its limit, in words."""
    fleet = [one for one in found if one.boards >= FLEET]
    for one in found:
        if not one.complete:
            yield f"{one.boards} boards: only {one.boots} boots and {one.trials} trials are stored"
    for one in fleet:
        if one.cpu_per_boot > CPU_S:
            yield f"{one.boards} boards: {one.cpu_per_boot:.3f} CPU seconds per boot, limit {CPU_S}"
        if one.pss / one.boards > PSS:
            yield f"{one.boards} boards: {one.pss / one.boards / 1e6:.1f} MB per board, limit {PSS / 1e6:.0f}"
    for small, large in pairwise(fleet):
        for what, less, more in (
            ("CPU", small.cpu_s, large.cpu_s),
            ("memory", float(small.pss), float(large.pss)),
        ):
            growth = more / less / (large.boards / small.boards)
            if growth > LINEAR:
                yield f"{what} grows {growth:.2f} times faster than boards from {small.boards} to {large.boards}"
    if found[0].boards == 1:
        for one in found[1:]:
            if one.wall_s > WALL * found[0].wall_s:
                yield f"{one.boards} boards take {one.wall_s / found[0].wall_s:.2f} times as long as one, limit {WALL}"


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, nargs="+", default=BOARDS)
    parser.add_argument("--boot-seconds", type=float, default=BOOT_S)
    asked = parser.parse_args()
    print(
        f"STAND-IN, FOR SCALE ONLY: scripted consoles, {asked.boot_seconds:g} s a boot, {BOOTS} boots per board"
    )
    print("boards  CPU s per board and boot  MB PSS per board  wall s  boots  trials")
    found = []
    for boards in sorted(asked.boards):
        one = cost(boards, asked.boot_seconds)
        found.append(one)
        print(
            f"{boards:6}  {one.cpu_per_boot:24.3f}  {one.pss / boards / 1e6:16.1f}  {one.wall_s:6.1f}  {one.boots:5}  "
            f"{one.trials:6}",
            flush=True,
        )
    missed = list(misses(found))
    for sentence in missed:
        print(f"MISSED: {sentence}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
