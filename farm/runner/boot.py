"""One boot of one variant on one board: flash, boot, prove, measure; always a record, never a number in doubt."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from farm.board import binary, proof, ssh
from farm.board.batch import BatchResult, Job, Progress, Wire, run_batch
from farm.board.bundle import Bundle
from farm.board.console import BoardDied, ConsoleWire
from farm.board.facts import Fact, Facts, ask
from farm.board.safety import UnsafeError, check_disk, writable
from farm.board.strategy import FarmStrategy, cause, explain
from farm.campaign import Variant
from farm.errors import BoardError, FarmError, UserError
from farm.runner.alone import alone
from farm.runner.judge import judge
from farm.runner.messages import Doing, Message, TrialDone
from farm.runner.task import Task
from farm.schedule import PlannedBoot
from farm.store.records import RECOVERY, SSH, BootRecord, TrialRecord
from farm.workload import command as command_for
from farm.workload.command import Command
from farm.workload.model import FioWorkload, Workload

AROUND = "cat /sys/class/thermal/thermal_zone*/temp /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq 2>/dev/null; :"


def as_failed(record: BootRecord, found: BaseException, error: FarmError, tail: Iterable[str]) -> BootRecord:
    """The record of a boot that broke, with an event for it: `found` is what broke, `error` what people are told."""
    kind = found.kind if isinstance(found, BoardDied) else getattr(found, "step", "") or "board"
    event = {"kind": kind, "line": str(error), "tail": list(tail)}
    reason = error.reason if isinstance(error, BoardError) else str(error)
    return replace(record, status="failed", reason=reason, events=(*record.events, event))


class BootRunner:
    """Runs the boots of one board, one after the other, on one labgrid target."""

    def __init__(self, task: Task, strategy: FarmStrategy, tell: Callable[[Message], None]) -> None:
        self.task, self.strategy, self.tell = task, strategy, tell
        self.baseline_bus: dict[str, Fact] | None = None
        self.ssh_broke = ""  # why a batch over SSH failed: this board's next ones take the serial line

    def run(self, planned: PlannedBoot, attempt: int) -> BootRecord:
        """Do one boot. Whatever the board does ends as a record; only errors of the user's input are raised."""
        task, watch = self.task, self.strategy.watched.watch
        record = BootRecord(
            run_id=task.run_id,
            board=task.board.name,
            index=planned.index,
            block=planned.block,
            variant=planned.variant,
            attempt=attempt,
            status="failed",
            reason="",
            started=time.time(),
            ended=0.0,
            log_path=str(task.logs / task.board.name / f"boot-{planned.index:03d}-{attempt}.log"),
        )
        read_before = watch.bytes_read
        watch.log_to(Path(record.log_path))
        try:
            record = self._measure(planned, record)
        except Exception as problem:
            found = cause(problem)
            error = explain(problem, task.board.name, watch.log_path)
            if isinstance(found, (UserError, UnsafeError)):
                # trying again cannot help, and must not: nothing is written to a disk in doubt
                with suppress(FarmError):  # what is wrong is said, whether or not the switch answers
                    self.strategy.recover()
                raise error from problem
            record = self._recovered(as_failed(record, found, error, watch.tail))
        finally:
            troubles = tuple(asdict(one) for one in watch.troubles.values())
            watch.log_to(None)
        counted = {**record.console_bytes, "boot_total": watch.bytes_read - read_before}
        return replace(record, ended=time.time(), console_bytes=counted, events=(*record.events, *troubles))

    def _recovered(self, record: BootRecord) -> BootRecord:
        """The record of a failed boot behind which the board was switched off, or that says why it could not be."""
        try:
            self.strategy.recover()
        except FarmError as problem:
            tail = list(self.strategy.watched.watch.tail)
            event = {"kind": RECOVERY, "line": str(problem), "tail": tail}
            return replace(record, reason=f"{record.reason}; then {problem}", events=(*record.events, event))
        return record

    def _say(self, planned: PlannedBoot, what: str) -> None:
        self.tell(Doing(self.task.board.name, planned.variant, what))

    def _measure(self, planned: PlannedBoot, record: BootRecord) -> BootRecord:
        strategy = self.strategy
        strategy.bundle = self.task.bundles[planned.variant]
        self._say(planned, "power off")
        strategy.transition("off")
        self._say(planned, "bootloader")
        strategy.transition("bootloader")
        self._say(planned, "flash")
        strategy.transition("flashed")
        self._say(planned, "boot")
        strategy.transition("shell")
        return self.measure(planned, record)

    def measure(self, planned: PlannedBoot, record: BootRecord) -> BootRecord:
        """Prove and measure on the board as it runs now, with its shell up; the record with what came of it.

        Raises BoardError where the board fails or its disk is not the declared one, UserError for what it lacks.
        """
        task, strategy = self.task, self.strategy
        variant = task.campaign.variants[planned.variant]
        bundle = task.bundles[planned.variant]
        report = strategy.report
        record = replace(
            record,
            flash={
                **(report.as_dict() if report else {}),
                "banner": bundle.banner,
                "timings": strategy.timings,
            },
        )
        self._say(planned, "facts")
        serial = ConsoleWire(strategy.watched)
        block = task.board.farm
        facts = ask(serial, block.disk.controller, variant.knobs, block.deadlines.facts)
        record = replace(record, facts=dict(facts.values) | {"mmc_lines": list(facts.mmc_lines)})
        if doubts := self._doubts(variant, bundle, facts):
            # whatever runs there, its disk is none of our business
            _, commands = self._jobs({})
            trials = _unmeasured(commands, doubts)
            return replace(record, status="void", reason="; ".join(doubts), trials=trials)
        targets = self._targets(facts)
        jobs, commands = self._jobs(
            targets, AROUND if {"temperature_c", "cpu_khz"} & set(facts.values) else ""
        )
        if variant.baseline and self.baseline_bus is None:
            self.baseline_bus = {name: facts.values[name] for name in proof.BUS if name in facts.values}
        name = task.board.farm.measure_alone
        started = time.time()

        @contextmanager
        def turn() -> Iterator[None]:
            nonlocal started
            with alone(name, lambda: self._say(planned, f"waits for {name}")):
                started = time.time()
                yield

        with self._way(planned, serial) as (wire, detour):
            if detour:
                record = replace(record, events=(*record.events, {"kind": SSH, "line": detour}))
            self._bring_fio(planned, wire, facts)
            self._say(planned, "measure")
            result = run_batch(
                wire,
                jobs,
                on_progress=lambda step: self._progress(planned, step, len(commands)),
                turn=turn(),
            )
        record = replace(record, console_bytes={"wire": "serial" if wire is serial else "ssh"})
        return self._judge(record, facts, result, commands, started)

    @contextmanager
    def _way(self, planned: PlannedBoot, serial: ConsoleWire) -> Iterator[tuple[Wire, str]]:
        """What carries the batch: SSH where the env has it, else the serial line, and why serial where it has.

        The batch is the same on both. Where one fails over SSH with the board alive, that boot fails and this board's
        other ones take the serial line, so that a network that stalls costs a run one boot.
        """
        driver, detour = self.strategy.ssh, ""
        found: ssh.SshWire | None = None
        if driver is not None and self.ssh_broke:
            detour = f"a batch before failed over SSH: {self.ssh_broke}"
        elif driver is not None:
            self._say(planned, "ssh")
            try:
                found = ssh.connect(driver, serial, self.task.board.farm.deadlines.facts)
            except ssh.NoSsh as problem:
                detour = str(problem)
        if found is None:
            yield serial, f"{detour}; the batch went over serial" if detour else ""
            return
        try:
            yield found, ""
        except BoardDied:
            raise
        except BoardError as problem:
            self.ssh_broke = problem.reason
            raise
        finally:
            found.close()

    def _progress(self, planned: PlannedBoot, step: Progress, total: int) -> None:
        self.tell(TrialDone(self.task.board.name, planned.variant, step.done, total, step.rc == 0))

    def _doubts(self, variant: Variant, bundle: Bundle, facts: Facts) -> list[str]:
        doubts = proof.check_banner(facts, bundle.banner)
        doubts += proof.check_args(facts, bundle.args)
        doubts += [f"knob {knob}" for knob in facts.refused_knobs]
        doubts += proof.check_expect(facts, variant.expect)
        if self.baseline_bus is not None:
            doubts += proof.check_bus(facts, self.baseline_bus, variant.expect)
        return doubts

    def _targets(self, facts: Facts) -> dict[str, str]:
        """Where each kind of workload goes on this boot, checked on the board as found right now."""
        block, wanted = self.task.board.farm, self.task.campaign.workloads
        check_disk(block.disk, facts.disk)
        targets = {}
        if any(one.target == "raw" for one in wanted):
            assert block.scratch.raw is not None, "checked before power was touched"
            targets["raw"] = writable(block.scratch.raw, block.disk, facts.disk)
        if any(one.target == "file" for one in wanted):
            assert block.scratch.files is not None, "checked before power was touched"
            targets["files"] = writable(block.scratch.files, block.disk, facts.disk)
        return targets

    def _bring_fio(self, planned: PlannedBoot, wire: Wire, facts: Facts) -> None:
        """A board without fio gets the one that its env names by digest; without one the campaign cannot run."""
        if "fio" in facts.tools or not any(
            isinstance(one, FioWorkload) for one in self.task.campaign.workloads
        ):
            return
        board = self.task.board
        if board.farm.fio is None:
            raise UserError(
                f"board {board.name} has no fio; install it, name a static one under farm.fio, or use dd workloads",
                file=board.path,
                key="farm.fio",
            )
        self._say(planned, "bring fio")
        data = binary.read(board.image(board.farm.fio.path, beside=board.path.parent), board.farm.fio.sha256)
        binary.install(wire, "fio", data, board.farm.deadlines.facts)

    def _jobs(
        self, targets: Mapping[str, str], around: str = ""
    ) -> tuple[list[Job], list[tuple[Workload, int, Command]]]:
        """What is run on these targets, `raw` and `files`; without them what would have been."""
        area = self.task.board.farm.scratch.files
        folder = area.mount if area is not None else None
        mount: tuple[str, ...] = ()
        if area is not None and folder is not None and "files" in targets:
            mount = (_mount_line(targets["files"], area.filesystem or "", folder),)
        jobs: list[Job] = []
        commands: list[tuple[Workload, int, Command]] = []
        for rep in range(self.task.campaign.trials):
            for workload in self.task.campaign.workloads:
                if workload.target == "raw":
                    command = command_for(workload, targets.get("raw", "RAW"))
                else:
                    command = command_for(workload, f"{folder}/farm-{workload.needed_bytes}.img")
                before = (*(mount if workload.target == "file" else ()), *command.prepare)
                # only there when the board had no fio of its own
                run = (
                    f"PATH=$PATH:{binary.FOLDER}; {command.run}" if self.task.board.farm.fio else command.run
                )
                jobs.append(
                    Job(
                        f"{len(jobs)}",
                        run,
                        before,
                        command.timeout_s,
                        around,
                        command.prepare_timeout_s,
                    )
                )
                commands.append((workload, rep, command))
        return jobs, commands

    def _judge(
        self,
        record: BootRecord,
        facts: Facts,
        result: BatchResult,
        commands: list[tuple[Workload, int, Command]],
        started: float,
    ) -> BootRecord:
        node = facts.disk.node.removeprefix("/dev/")
        by_id = {job.id: job for job in result.jobs}
        trials, events = [], list(record.events)
        first = min((job.started for job in result.jobs), default=0.0)
        for number, (workload, rep, command) in enumerate(commands):
            if (job := by_id.get(f"{number}")) is None:
                trials.append(
                    TrialRecord(workload.name, rep, "void", "its result was lost", command.run, started, 0.0)
                )
                continue
            judged = judge(workload, rep, job, command.run, started + job.started - first, node)
            trials.append(judged.trial)
            events += judged.events
        return replace(
            record,
            status="ok",
            trials=tuple(trials),
            events=tuple(events),
            console_bytes={
                **record.console_bytes,
                "batch_up": result.bytes_up,
                "batch_down": result.bytes_down,
                "frames": result.frames,
                "frame_bytes": result.frame_bytes,
                "silent": result.silent,
                "digest": result.digest,
                "refetched": result.refetched,
                "encoding": result.encoding,
                "compression": result.compression,
            },
        )


def _unmeasured(commands: list[tuple[Workload, int, Command]], doubts: list[str]) -> tuple[TrialRecord, ...]:
    reason = "; ".join(doubts)
    return tuple(
        TrialRecord(workload.name, rep, "void", reason, command.run, time.time(), 0.0)
        for workload, rep, command in commands
    )


def _mount_line(node: str, filesystem: str, mount: str) -> str:
    """Mount the scratch file system, making it where there is none; doing it twice does nothing."""
    device, point = shlex.quote(node), shlex.quote(mount)
    make = {"ext2": "mkfs.ext2", "ext4": "mkfs.ext4 -q -F", "vfat": "mkfs.vfat", "f2fs": "mkfs.f2fs -f"}[
        filesystem
    ]
    attach = f"mount -t {filesystem} {device} {point}"
    return (
        f"grep -q ' '{point}' ' /proc/mounts || "
        f"{{ mkdir -p {point} && {{ {attach} 2>/dev/null || {{ {make} {device} >/dev/null && {attach}; }}; }}; }}"
    )
