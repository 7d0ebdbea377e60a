"""A boot with eight trials of five seconds: farm against a plain pexpect script, and the bytes on the console.

Run by `make bench`, or alone: python -m tests.bench.boot_cost
Both boot twice, in turn, on the same virtual board with the same kernel, TFTP and commands; the script throws its
output away, farm proves, keeps and stores it. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from farm.campaign import load_campaign
from farm.fleet import env as envs
from farm.runner.task import make_bundle
from farm.workload import command as command_for
from tests.lab import BOARD, LabHome, in_real_time, lab_of

RATIO = 1.15
BYTES = 1000
NODE = "/dev/mmcblk0p1"
CAMPAIGN = f"""\
name: boot-cost
boards: [{BOARD}]
boots: 2
trials: 1
variants: {{only: {{baseline: true}}}}
workloads:
  - {{tool: fio, rw: [read, randread, write, randwrite], bs: [4k, 64k], size: 64M, runtime: 5s}}
"""


def _netboot(folder: Path) -> Path:
    """The board's env with flash method netboot: power-on, TFTP and boot are then the same on both sides."""
    text = in_real_time(BOARD)  # trials last five seconds of the host then
    block = "  flash:\n    method: netboot\n    load: {kernel: 0x40400000, initrd: 0x48000000}\n"
    changed, count = re.subn(r"  flash:\n(?:    .*\n)+", block, text)
    assert count == 1
    (folder / f"{BOARD}.yaml").write_text(changed)
    return folder / f"{BOARD}.yaml"


def _plain(lab: LabHome, folder: Path, env_file: Path, variables: dict[str, str]) -> float:
    campaign = load_campaign(folder / "campaign.yaml")
    board = envs.load(str(env_file), variables)
    bundle = make_bundle(board, campaign, campaign.variants["only"], folder)
    commands = []
    for workload in campaign.workloads:
        made = command_for(workload, NODE)
        commands.append(" && ".join([*made.prepare, made.run]))
    (folder / "commands").write_text("\n".join(commands) + "\n")
    tftp = Path(variables["LG_VIRTUAL_DIR"]) / BOARD / "tftp"
    names = []
    for part in bundle.parts:
        link = tftp / f"plain-{part.name}"
        link.unlink(missing_ok=True)
        link.symlink_to(part.path.resolve())
        names.append(str(link))
    pdu = f"{variables['LG_VIRTUAL_PDU']}/{BOARD}/1"
    console = str(Path(variables["LG_VIRTUAL_DIR"]) / BOARD / "console")
    script = str(Path(__file__).with_name("plain_pexpect.py"))
    words = [sys.executable, script, pdu, console, *names, bundle.args, str(folder / "commands")]
    began = time.monotonic()
    subprocess.run(words, check=True, env=lab.env, timeout=300)
    return time.monotonic() - began


def main() -> int:
    """Measure and print; the exit code."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        env_file = _netboot(folder)
        with lab_of(str(env_file), home=folder / "home") as lab:
            said = lab.farm("virtual", "env").stdout
            pairs = (tuple(word.split("=", 1)) for word in shlex.split(said) if "=" in word)
            variables = dict(pairs)
            (folder / "campaign.yaml").write_text(CAMPAIGN)
            plain = _plain(lab, folder, env_file, variables)
            began = time.monotonic()
            lab.farm(
                "run", str(folder / "campaign.yaml"), "--board", str(env_file), "--seed", "1", timeout=600
            )
            ours = time.monotonic() - began
            plain += _plain(lab, folder, env_file, variables)
            with sqlite3.connect(lab.path / "farm.db") as db:
                boots = [
                    (json.loads(text), at) for text, at in db.execute("SELECT console_bytes, id FROM boot")
                ]
                trials = db.execute("SELECT count(*) FROM trial WHERE status = 'ok'").fetchone()[0]
    total = sum(one["batch_up"] + one["batch_down"] for one, _ in boots) / trials
    frames = sum(one["frame_bytes"] for one, _ in boots) / len(boots)
    ratio = ours / plain
    print(
        f"boot: farm {ours / 2:.1f} s a boot, plain pexpect {plain / 2:.1f} s, ratio {ratio:.3f} (limit {RATIO})"
    )
    print(f"boot: {total:.0f} bytes over the console per trial, both ways, {trials} trials (limit {BYTES})")
    print(f"boot: the frames of a boot need {frames * 10 / 115200:.2f} s at 115200 baud ({frames:.0f} bytes)")
    return int(ratio > RATIO or total > BYTES or trials != 16)


if __name__ == "__main__":
    sys.exit(main())
