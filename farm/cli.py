"""The command line: parse, call, print. What the commands do stands elsewhere."""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from farm import __version__, interrupt
from farm.errors import BoardError, FarmError, StoreError, UserError, said_of_system
from farm.paths import database, home

app = typer.Typer(
    help="farm: does this kernel change make eMMC/SD storage faster or slower, on which board and card?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
virtual = typer.Typer(
    help="The virtual lab: QEMU boards that are driven like hardware.", no_args_is_help=True
)
app.add_typer(virtual, name="virtual")
coordinator = typer.Typer(
    help="labgrid's coordinator and exporter for the virtual lab, as a farm of real boards has them.",
    no_args_is_help=True,
)
app.add_typer(coordinator, name="coordinator")


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"farm {__version__}\n")
        raise typer.Exit


@app.callback()
def _farm(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of farm itself; its commands are below."""


out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
CampaignFile = Annotated[
    Path, typer.Argument(metavar="CAMPAIGN", help="A campaign file, such as envs/campaigns/readahead.yaml.")
]
Boards = Annotated[
    list[str] | None,
    typer.Option(
        "--board",
        "-b",
        metavar="BOARD",
        help="Board to use instead of the campaign's, by name, path or tag (board=rk3568); may be repeated. Equal boards "
        "of a tag share the blocks; each board that is named runs all.",
    ),
]
Count = Annotated[
    int | None, typer.Option(min=1, help="How many boards of a tag to take; default is all that are free.")
]


def _address(text: str | None) -> str | None:
    if text is not None and not text.strip():  # a variable that is not set must not bypass the coordinator
        raise UserError("--coordinator: is empty; give HOST:PORT, or leave it out for boards of this machine")
    return text


Through = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        callback=_address,
        help="Take boards from labgrid's coordinator; `lab` is the virtual lab's own.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0, max=2**63 - 1, help="Seed of the boots' order; default is the campaign's, else a new one."
    ),
]


class FailOn(StrEnum):
    """Findings that can end a command with exit code 1."""

    slower = "slower"
    unstable = "unstable"


CompareFormat = Literal["terminal", "markdown", "mail", "json"]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the start of one, or `latest`.")]


def _say(text: str) -> None:
    err.print(text, markup=False)


def _print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")


def _print(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


def _database() -> Path:
    return database(home())


@app.command(epilog="Example: farm plan envs/campaigns/readahead.yaml --board board=rk3568 --count 3")
def plan(
    campaign: CampaignFile,
    board: Boards = None,
    count: Count = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Show blocks, boots, trials, time, and what would be written where, without touching a board."""
    from farm.analysis.noise import Calibrations
    from farm.campaign import load_campaign
    from farm.fleet import boards as fleet
    from farm.fleet import choice
    from farm.plan import plan_dict
    from farm.report import calibration
    from farm.report.plan import render_plan
    from farm.runner.planning import check_boards, missing, plan_run
    from farm.schedule import seed_of
    from farm.store.db import Store

    loaded = load_campaign(campaign)
    if not board:
        check_boards(loaded)
    wishes = choice.wishes(board or loaded.boards, loaded.count if count is None and not board else count)
    asked = choice.planned(wishes, home())
    envs = fleet.load(asked, home())
    names = [env.name for env in envs]
    known: Calibrations = {name: {} for name in names}
    facts: Mapping[str, Mapping[str, object]] = {}
    if _database().exists():
        with Store.open(_database()) as store:
            known, facts = calibration.newest(store, loaded, names), store.health.facts(names)
    calibration.check(loaded, known)
    made = plan_run(loaded, envs, seed_of(seed, loaded.seed), known, choice.shares(asked, envs), facts)
    for sentence in missing(loaded, envs):
        _say(sentence)
    if as_json:
        _print_json(plan_dict(made))
    else:
        render_plan(made, out)


def _seconds(option: str, text: str) -> float:
    from farm.quantity import duration

    try:
        return duration(text)
    except ValueError as problem:
        raise UserError(f"{option}: {problem}") from None


@app.command(epilog="Example: farm run envs/campaigns/kernels.yaml --board board=rk3568 --count 3 --check")
def run(
    campaign: CampaignFile,
    board: Boards = None,
    count: Count = None,
    wait: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long to wait for boards that are busy, such as 30s or 2h."),
    ] = "0s",
    check: Annotated[
        bool,
        typer.Option("--check", help="Check each board's health first; a pass ends a quarantine."),
    ] = False,
    coordinator: Through = None,
    seed: Seed = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run that was cut short.")
    ] = None,
    start_virtual: Annotated[
        bool, typer.Option("--start-virtual", help="Bring virtual boards up first.")
    ] = False,
    aa: Annotated[
        bool,
        typer.Option(
            "--aa",
            help="Measure the baseline against itself: how much noise there is, for `band: measured` and plan.",
        ),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Measure what is slower again, with fresh boots, before it is called so."
        ),
    ] = False,
    fail_on: Annotated[
        list[FailOn] | None, typer.Option(help="End with exit code 1 if a verdict is this; may be repeated.")
    ] = None,
    branch: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Branch of the kernels, such as next; `farm trend` keeps branches apart."
        ),
    ] = "",
    commit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIANT=SHA", help="Commit that a variant's kernel was built from; may be repeated."
        ),
    ] = None,
) -> None:
    """Run a campaign: flash, boot, prove, measure; every boot is stored as it ends."""
    from farm.runner import forks
    from farm.runner.purpose import Purpose, commits
    from farm.runner.session import run_campaign

    forks.start()
    purpose = Purpose(aa, confirm, branch, commits(commit or ()), frozenset(fail_on or ()))
    code = run_campaign(
        campaign,
        boards=board,
        seed=seed,
        resume=resume,
        start=start_virtual,
        out=out,
        err=err,
        count=count,
        wait_s=_seconds("--wait", wait),
        check=check,
        through=coordinator,
        purpose=purpose,
    )
    raise typer.Exit(code)


@app.command(epilog="Example: farm demo --board virt-rk3568")
def demo(
    board: Annotated[
        list[str] | None,
        typer.Option("--board", "-b", metavar="BOARD", help="Only this twin of the three; may be repeated."),
    ] = None,
    influx: Annotated[
        bool,
        typer.Option("--influx", help="Send results to an influxd (Debian's 1.x) that ends with the demo."),
    ] = False,
) -> None:
    """The main job on three virtual boards through labgrid's coordinator: readahead 128 against 1024, flashed, proven,
    measured, compared."""
    from contextlib import nullcontext

    from farm.influx.local import LocalInflux
    from farm.runner import forks
    from farm.runner.session import run_campaign

    forks.start()
    file = Path(__file__).parents[1] / "envs" / "campaigns" / "readahead.yaml"
    server = LocalInflux(home() / "influx") if influx else None
    with server or nullcontext():
        if server is not None:
            os.environ.update(INFLUXDB_V2_URL=server.url, INFLUXDB_V2_BUCKET=server.database)
        code = run_campaign(
            file, boards=board, seed=None, resume=None, start=True, out=out, err=err, through="lab"
        )
        if server is not None:
            for series in server.query('SELECT count("bw_bytes") FROM "trial" GROUP BY "board", "variant"'):
                tags = series["tags"]
                _print(f"influxd: {series['values'][0][1]} bandwidths of {tags['board']}, {tags['variant']}")
    raise typer.Exit(code)


@app.command(epilog="Example: farm runs --json")
def runs(as_json: Json = False) -> None:
    """List the runs in the database."""
    from farm.report import terminal
    from farm.store.db import Store

    with Store.open(_database()) as store:
        if as_json:
            _print_json(terminal.runs_data(store))
        else:
            terminal.print_runs(store, out)


@app.command(epilog="Example: farm show 17")
def show(
    trial: Annotated[
        int,
        typer.Argument(metavar="TRIAL", help="A trial's number, as `farm compare` and `farm runs` print it."),
    ],
    as_json: Json = False,
) -> None:
    """Show one trial: command line, facts, samples, complete raw output."""
    from farm.report import terminal
    from farm.store.db import Store

    with Store.open(_database()) as store:
        if as_json:
            _print_json(terminal.trial_data(store, trial))
        else:
            terminal.print_trial(store, trial, out)


@app.command(epilog="Example: farm compare latest --format mail")
def compare(
    run: RunName = "latest",
    form: Annotated[CompareFormat, typer.Option("--format", help="How to say it.")] = "terminal",
    as_json: Json = False,
    fail_on: Annotated[
        list[FailOn] | None, typer.Option(help="End with exit code 1 if a verdict is this; may be repeated.")
    ] = None,
) -> None:
    """Compare the variants of a run: verdicts, medians, intervals, n, spread and proof per board and workload."""
    from farm.report import study as studies
    from farm.store.db import Store

    with Store.open(_database()) as store:
        study = studies.study(store, run)
    if as_json or form == "json":
        _print_json(studies.as_dict(study))
    elif form == "terminal":
        from farm.report import terminal

        terminal.print_study(study, out)
    else:
        from farm.report import text

        sys.stdout.write(text.mail(study) if form == "mail" else text.markdown(study))
    if fail_on:
        from farm.report.content import failed

        if said := failed(study, fail_on):
            _say(said)
            raise typer.Exit(1)


@app.command(epilog="Example: farm report latest -o run.html")
def report(
    run: RunName = "latest",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML file to write; - is standard output.")
    ] = Path("report.html"),
) -> None:
    """Write a run as one HTML file that needs no network: verdicts, plots, boards, what does not count and why."""
    from farm.report import html
    from farm.report import study as studies
    from farm.store.db import Store

    if output.resolve() == _database().resolve():
        raise UserError("is the database of the results; give another file", file=output)
    with Store.open(_database()) as store:
        study = studies.study(store, run)
        text = html.page(study, studies.latencies(store, study))
    if str(output) == "-":
        sys.stdout.buffer.write(text.encode())  # the page says that it is UTF-8, whatever the locale says
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UserError(f"cannot be written ({problem.strerror}); give another file", file=output) from None
    _print(f"{output}: {len(text.encode()) / 1000:.0f} kB, run {study.run.id}")


_MAX_IMPORT = 256 << 20
"""Bytes of a console log that are read; /dev/zero has more."""


def _read(file: Path) -> bytes:
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(_MAX_IMPORT + 1)
        else:
            # not waiting for a writer: a pipe such as <(command) has one, a forgotten one never gets one
            number = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
            with open(number, "rb") as opened:  # noqa: PTH123 - a descriptor
                os.set_blocking(number, True)
                data = opened.read(_MAX_IMPORT + 1)
    except OSError as problem:
        raise UserError(f"cannot be read ({problem.strerror}); give a text file", file=file) from None
    if len(data) > _MAX_IMPORT:
        raise UserError(f"is larger than {_MAX_IMPORT >> 20} MiB; cut out what was measured", file=file)
    return data


@app.command(
    name="import",
    epilog="Example: farm import --json mail.txt; farm import --as before --board rk3568 mail.txt",
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Saved console logs or pasted mails; - reads from standard input."
        ),
    ],
    as_json: Json = False,
    variant: Annotated[
        str | None, typer.Option("--as", metavar="VARIANT", help="Store the samples under this variant.")
    ] = None,
    board: Annotated[str | None, typer.Option("--board", help="The board that they come from.")] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Imported run to add to; default is a new one.")
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples", help="Numbers of the samples to store, such as 1-12, as the list shows them."
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Name of the workload, where the text names it badly.")
    ] = None,
    card: Annotated[str | None, typer.Option("--card", help="Name of the card.")] = None,
    soc: Annotated[str | None, typer.Option("--soc", help="Name of the SoC.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Baseline of a new run; default is the first variant.")
    ] = None,
) -> None:
    """Read measurements out of console logs and mails; with --as, store them as a run to compare and report."""
    from farm.parse.importing import import_object
    from farm.report.imported import print_imported

    data = [(str(file), _read(file)) for file in files]
    if variant is None:
        if any(one is not None for one in (board, run, samples, workload, card, soc, baseline)):
            raise UserError("nothing is stored without --as VARIANT; add it, or leave the other options out")
        read = [import_object(name, content) for name, content in data]
        if as_json:
            for one in read:
                sys.stdout.write(json.dumps(one, ensure_ascii=True) + "\n")
        else:
            print_imported(read, out)
        if not any(one["samples"] or one["facts"] for one in read):
            raise UserError("nothing usable was found; the problems are listed above")
        return
    from farm import importing
    from farm.store.db import Store
    from farm.store.records import new_run_id

    if board is None:
        raise UserError("--as needs the board that was measured; add --board NAME")
    importing.check_names(
        **{"as": variant, "board": board, "run": run, "workload": workload, "card": card, "soc": soc},
        baseline=baseline,
    )
    source = importing.Source(variant, board, workload, importing.sample_numbers(samples), card, soc)
    run = run or f"{new_run_id('imported')}-{secrets.token_hex(3)}"  # several may begin within a second
    with Store.open(_database(), create=True) as store:
        stored = importing.import_files(store, run, source, data, baseline=baseline)
    if as_json:
        _print_json({"run": run, "samples": stored})
    else:
        _print(f"{stored} samples of {variant} on {board} are in run {run}; add others with --run {run}")


@app.command(epilog="Example: farm check virt-rk3568")
def check(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="Name or path of an env file.")],
    coordinator: Through = None,
) -> None:
    """Power, console, bootloader, golden image, disk, bus, clock and wear; a pass lets a board back from quarantine."""
    from farm.fleet import boards as fleet
    from farm.fleet import choice, health
    from farm.fleet import coordinator as labs
    from farm.fleet.crew import Crew
    from farm.runner import checkup
    from farm.store.db import Store

    elsewhere = coordinator not in (None, "lab")
    (env,) = fleet.ready([board], home(), start=False, say=_say, elsewhere=elsewhere)
    address = labs.up(home()) if coordinator == "lab" else coordinator
    if address:
        choice.remote([env])
    log = home() / "logs" / "check" / f"{env.name}.log"
    log.unlink(missing_ok=True)

    def show(step: checkup.Step) -> None:
        _print(f"{'ok  ' if step.ok else 'FAIL'} {step.name:<14} {step.seconds:5.1f} s  {step.text}")

    with (
        Store.open(_database(), create=True) as store,
        Crew(
            choice.wishes([board], None),
            home(),
            store,
            what="farm check",
            say=_say,
            address=address,
            check=True,
        ) as crew,
    ):
        (env,) = crew.gather()
        last = store.health.last_good(env.name)
        record = checkup.examine(env, checkup.open_strategy(env), log, last.facts if last else None, show)
        health.note(store, env, record)
    _print(f"console log: {log}")
    raise typer.Exit(0 if record.ok else 3)


@app.command(epilog="Example: farm boards --json")
def boards(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[BOARD]...", help="Names or paths of env files.")
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", envvar="LG_COORDINATOR", help="labgrid's coordinator of the real boards."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List every board: free, busy (by whom), quarantined (why), offline; its card, wear and last good boot."""
    from farm.fleet import inventory
    from farm.report.fleet import print_boards

    found = inventory.rows(home(), names, coordinator)
    if as_json:
        _print_json([row.as_dict() for row in found])
    else:
        print_boards(found, out)


@app.command(epilog="Example: farm console virt-rk3568   (Ctrl-] ends it)")
def console(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="Name or path of an env file.")],
) -> None:
    """Sit at a board's serial console; Ctrl-] ends it."""
    from farm.fleet import boards as fleet
    from farm.runner.terminal import attach

    (env,) = fleet.ready([board], home(), start=False, say=_say)
    attach(env)


@app.command(epilog="Example: farm trend --board virt-rk3568 --metric lat_p99_ns")
def trend(
    metric: Annotated[str, typer.Option(help="Metric, such as bw_bytes or lat_p99_ns.")] = "bw_bytes",
    campaign: Annotated[str | None, typer.Option(help="Only runs of this campaign.")] = None,
    branch: Annotated[str | None, typer.Option(help="Only runs of this branch.")] = None,
    board: Annotated[str | None, typer.Option(help="Only this board.")] = None,
    as_json: Json = False,
) -> None:
    """Find change points over nightly runs: since which run and kernel, by how much."""
    from farm.report.trend import print_trends
    from farm.runner.trends import find
    from farm.store.db import Store

    with Store.open(_database()) as store:
        found = find(store, metric=metric, campaign=campaign, branch=branch, board=board)
    if as_json:
        _print_json([one.to_dict() for one in found])
    else:
        print_trends(found, out)


@app.command(epilog="Example: farm push --all")
def push(
    everything: Annotated[
        bool, typer.Option("--all", help="Send everything again; the server's data stays the same.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="influxdb-client's own kind of file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send to InfluxDB what was not sent yet."""
    from farm.influx.command import push_command, report_data, report_lines

    report, code = push_command(_database(), everything=everything, config_file=config, say=_say)
    if as_json:
        _print_json(report_data(report))
    else:
        for line in report_lines(report):
            out.print(line, markup=False, soft_wrap=True)
    raise typer.Exit(code)


@app.command(epilog="Example: farm doctor")
def doctor(as_json: Json = False) -> None:
    """Say what is missing on this machine and how to get it."""
    from dataclasses import asdict

    from farm.doctor import look

    findings = look()
    if as_json:
        _print_json([asdict(one) for one in findings])
    else:
        for one in findings:
            remedy = f"; {one.remedy} (needed for: {one.needed_for})" if one.remedy else ""
            out.print(
                f"{'ok     ' if one.ok else 'MISSING'} {one.name}: {one.found}{remedy}",
                markup=False,
                soft_wrap=True,
            )
    raise typer.Exit(0 if all(one.ok for one in findings) else 3)


VirtualNames = Annotated[
    list[str] | None, typer.Argument(metavar="[BOARD]...", help="Names of virtual boards; default is all.")
]


def _virtual_names(names: Iterable[str] | None) -> list[str]:
    from farm.fleet import boards as fleet

    if names:
        return list(names)
    return [one.name for one in fleet.virtual(home())]


@virtual.command(name="up", epilog="Example: farm virtual up virt-rk3568")
def virtual_up(
    names: VirtualNames = None,
    previous: Annotated[
        bool, typer.Option("--previous", help="Build the kernels named kernel-...-previous, too.")
    ] = False,
) -> None:
    """Bring virtual boards up: power switch and serial line; the boards themselves stay off."""
    from farm.fleet import boards as fleet

    asked = _virtual_names(names)
    for board in fleet.load(asked, home()):
        if board.farm.virtual is None:
            raise UserError(
                "is the env of a real board; add a block virtual: or name a virtual board",
                file=board.path,
                key="farm.virtual",
            )
    fleet.ready(asked, home(), start=True, say=_say, previous=previous)
    virtual_status(as_json=False)


@virtual.command(name="down", epilog="Example: farm virtual down")
def virtual_down() -> None:
    """End the virtual lab and everything in it, its coordinator too; what was flashed and written stays."""
    from farm.fleet import coordinator
    from farm.virtual import lab

    if coordinator.down(home()):
        out.print("the coordinator is down")
    out.print("the virtual lab is down" if lab.down(home()) else "no virtual lab was running")


@virtual.command(name="status", epilog="Example: farm virtual status --json")
def virtual_status(as_json: Json = False) -> None:
    """Say which virtual boards are up."""
    from farm.virtual import lab

    boards = lab.status(home())
    if as_json:
        _print_json([{**vars(one), "console": str(one.console), "tftp": str(one.tftp)} for one in boards])
        return
    for one in boards:
        out.print(
            f"{one.name}  power {'on' if one.powered else 'off'}  console {one.console}",
            markup=False,
            soft_wrap=True,
        )
    if not boards:
        out.print("no virtual lab is running; start it with: farm virtual up")


@virtual.command(
    name="env",
    epilog='Example: eval "$(farm virtual env)" && labgrid-client -c envs/virt-rk3568.yaml power get',
)
def virtual_env() -> None:
    """Print the variables that env files of virtual boards need in labgrid's own tools."""
    import shlex

    from farm.fleet import coordinator as remote
    from farm.virtual import lab

    variables = lab.environment(home())
    if address := remote.running(home()):
        variables["LG_COORDINATOR"] = address
    for name, value in variables.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


@coordinator.command(name="up", epilog="Example: farm virtual up && farm coordinator up")
def coordinator_up() -> None:
    """Start labgrid-coordinator and labgrid-exporter for the virtual lab that runs, with its places."""
    from farm.fleet import coordinator as remote

    out.print(f"coordinator at {remote.up(home())}", markup=False)


@coordinator.command(name="down", epilog="Example: farm coordinator down")
def coordinator_down() -> None:
    """End coordinator and exporter; boards and the virtual lab stay."""
    from farm.fleet import coordinator as remote

    out.print("the coordinator is down" if remote.down(home()) else "no coordinator was running")


def _mute() -> None:
    """Let nothing more go to a standard output that cannot take it: at exit Python would try once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point: every error becomes a sentence on stderr and an exit code."""
    # The products here are too small for threads, which would wait for each other on a machine that runs boards.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started farm, as `farm runs >&-` does
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the end
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # a name that the terminal has no signs for, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            interrupt.in_order()
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk still becomes a sentence
            interrupt.at_once()
            interrupt.forget()
    except FarmError as problem:
        err.print(f"farm: {problem}", markup=False)
        sys.exit(problem.exit_code)
    except OSError as problem:
        _mute()
        err.print(f"farm: {said_of_system(problem)}", markup=False)
        sys.exit(StoreError.exit_code if problem.filename else BoardError.exit_code)
    except KeyboardInterrupt:
        err.print(interrupt.SENTENCE)
        sys.exit(interrupt.EXIT_CODE)
    except SystemExit as ended:
        if ended.code == interrupt.EXIT_CODE:  # typer's, for Ctrl-C, without a word
            err.print(interrupt.SENTENCE)
        raise
