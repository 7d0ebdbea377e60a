"""Tests of boards with pytest and labgrid's own plugin: `pytest --lg-env envs/BOARD.yaml DIRECTORY`.

labgrid's fixtures `env`, `target` and `strategy` do what they always do. This adds `farm_board`, `farm_facts` and
`measure`, the marker `farm_variant`, and says board trouble as such. It does nothing at all, and imports nothing, unless
the env file given has a `farm:` block.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from farm.board.facts import Facts
    from farm.campaign import Variant
    from farm.fleet.env import BoardEnv
    from farm.runner.desk import Desk, Measured

Measure = Callable[..., "Measured"]

_VIRTUAL = re.compile(r"\$\{?(LG_VIRTUAL_[A-Z]+)")


class _Bench:
    """What a session knows of its board: its env from the start, its desk once a test wants labgrid's env."""

    def __init__(self, board: BoardEnv, coordinator: str | None) -> None:
        self.board, self.coordinator = board, coordinator
        self.variants: dict[str, Variant] = {}
        self.desk: Desk | None = None
        self.held = ExitStack()  # the board, for this process alone
        self.notes: list[str] = []


_BENCH = pytest.StashKey[_Bench]()


def pytest_configure(config: pytest.Config) -> None:
    """Before labgrid reads the env file: give it what virtual boards need, and check the `farm:` block."""
    config.addinivalue_line(
        "markers",
        "farm_variant(name, *, baseline=False, kernel=None, dtb=None, initrd=None, modules=None, args='', knobs={}, "
        "expect={}): what the board runs when the test measures, with the keys of a campaign's variants",
    )
    file = getattr(config.option, "lg_env", None) or os.environ.get("LG_ENV")
    text = _text(Path(file)) if file else ""
    if not file or not re.search(r"^farm:", text, re.MULTILINE):
        return
    from farm.errors import FarmError
    from farm.fleet import boards, choice, env
    from farm.paths import home

    before = dict(os.environ)
    config.add_cleanup(lambda: _restore(before))
    coordinator = getattr(config.option, "lg_coordinator", None) or os.environ.get("LG_COORDINATOR")
    try:
        if set(_VIRTUAL.findall(text)) <= os.environ.keys():
            board = env.load(file)
        else:
            (board,) = boards.ready([file], home(), start=False, say=lambda line: None)
        if coordinator and board.place:
            (board,) = choice.remote([board])
    except FarmError as problem:
        raise pytest.UsageError(str(problem)) from None
    config.stash[_BENCH] = _Bench(board, coordinator if board.target == "remote" else None)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # labgrid says so


def _restore(before: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(before):
        if name.startswith("LG_"):
            del os.environ[name]
    os.environ.update({name: value for name, value in before.items() if name.startswith("LG_")})


def pytest_sessionstart(session: pytest.Session) -> None:
    """One env file serves desk and coordinator: labgrid sees only the target that is meant, under the name `main`.

    Its fixtures take `main`, and they open every target of a file; two ways to one board would be in each other's way.
    """
    bench = session.config.stash.get(_BENCH, None)
    if bench is None:
        return
    from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

    environment = session.config.stash[LABGRID_ENV_KEY]
    assert environment is not None
    environment.config.data["targets"] = {"main": environment.config.get_targets()[bench.board.target]}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the variants of all tests before any board is touched."""
    bench = config.stash.get(_BENCH, None)
    if bench is None:
        return
    from farm.errors import UserError
    from farm.runner.desk import GOLDEN

    wrong: list[str] = []
    for item in items:
        markers: list[pytest.Mark | None] = list(item.iter_markers("farm_variant"))
        if not markers and "measure" in getattr(item, "fixturenames", ()):
            markers = [None]
        for marker in markers:
            try:
                variant = _variant(item, marker)
                if bench.variants.setdefault(variant.name, variant) != variant:
                    said = (
                        f"variant {variant.name} means something else in another test; give it another name"
                    )
                    raise UserError(said, file=item.path, line=_place(item)[1])
            except UserError as problem:
                wrong.append(str(problem))
    named = [one.name for one in bench.variants.values() if one.baseline and one is not GOLDEN]
    if len(named) > 1:
        wrong.append(f"farm_variant: {' and '.join(named)} are both baselines; keep baseline=True on one")
    if wrong:
        raise pytest.UsageError("\n".join(wrong))


def _variant(item: pytest.Item, marker: pytest.Mark | None) -> Variant:
    """The variant that a marker names; the golden image where there is none. Raises UserError."""
    from farm import yamlfile
    from farm.campaign import Variant
    from farm.errors import UserError
    from farm.paths import NAME
    from farm.runner.desk import GOLDEN
    from farm.yamlfile import Document

    if marker is None:
        return GOLDEN
    path, line = _place(item)
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or not re.fullmatch(NAME, marker.args[0]):
        raise UserError(
            "farm_variant takes one name of letters, digits, '.', '_' and '-', and then keys of a variant",
            file=path,
            line=line,
        )
    if marker.args[0] == GOLDEN.name:
        raise UserError(
            f"{GOLDEN.name} is the image of tests without farm_variant; give the variant another name",
            file=path,
            line=line,
            key="farm_variant",
        )
    document = Document(path=path, text="", data=None, lines={(): line})
    return yamlfile.validate(document, Variant, {**marker.kwargs, "name": marker.args[0]}, ("farm_variant",))


def _place(item: pytest.Item) -> tuple[Path, int]:
    return item.path, (item.location[1] or 0) + 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """The board is taken when the first test wants labgrid's env, before labgrid opens it."""
    bench = item.config.stash.get(_BENCH, None)
    if bench is not None and bench.desk is None and "env" in getattr(item, "fixturenames", ()):
        from farm.errors import FarmError

        try:
            bench.desk = _open(bench, item.config)
        except FarmError as problem:
            pytest.exit(str(problem), returncode=problem.exit_code)
    yield


def _open(bench: _Bench, config: pytest.Config) -> Desk:
    """Take the board and open it. Raises UserError for an env file that labgrid refuses, BoardError where it is busy."""
    from labgrid.exceptions import NoDriverFoundError
    from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

    from farm.board.strategy import FarmStrategy
    from farm.errors import UserError
    from farm.fleet import busy
    from farm.paths import home
    from farm.runner.desk import Desk

    bench.held.enter_context(busy.hold([bench.board], home(), "pytest"))
    if bench.coordinator and bench.board.place:
        _take(bench, bench.coordinator, bench.board.place)
    environment = config.stash[LABGRID_ENV_KEY]
    assert environment is not None
    try:
        strategy = environment.get_target("main").get_driver(FarmStrategy)
    except NoDriverFoundError as problem:
        raise UserError(f"labgrid finds no FarmStrategy: {problem}", file=bench.board.path) from None
    return Desk(bench.board, strategy, home(), tuple(bench.variants.values()))


def _take(bench: _Bench, address: str, place: str) -> None:
    """Take the place, unless whoever runs this holds it already (labgrid-client acquire). Raises BoardError."""
    from farm.fleet import places

    found = places.seen(address).get(place)
    user = os.environ.get("LG_USERNAME") or getpass.getuser()
    if found is not None and found.holder == f"{places.hostname()}/{user}":
        os.environ["LG_COORDINATOR"] = address
        return
    places.use(address)
    places.acquire(address, (place,))
    bench.held.callback(_give_back, bench, address, place)


def _give_back(bench: _Bench, address: str, place: str) -> None:
    # in a process of its own: beside labgrid's session, which lives as long as this one, gRPC opens no other
    code = "import sys; from farm.fleet import places; places.release(sys.argv[1], (sys.argv[2],))"
    words = [sys.executable, "-c", code, address, place]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2]
        bench.notes.append(f"place {place} was not given back: {why}")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    """The run ends, and the board is given back, when labgrid has closed it."""
    yield
    bench = session.config.stash.get(_BENCH, None)
    if bench is None:
        return
    from farm.errors import FarmError

    with bench.held:
        if (desk := bench.desk) is None:
            return
        try:
            desk.finish("interrupted" if exitstatus == pytest.ExitCode.INTERRUPTED else "done")
        except FarmError as problem:
            bench.notes.append(str(problem))
            session.exitstatus = problem.exit_code
    if desk.boots:
        bench.notes.append(
            f"boots stored: {desk.boots}, trials: {desk.trials}; look at them with: farm compare {desk.run}"
        )
    bench.notes.append(f"console log: {desk.log}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where results and log are."""
    bench = config.stash.get(_BENCH, None)
    if bench is not None and bench.notes:
        terminalreporter.section(f"farm: {bench.board.name}")
        for note in bench.notes:
            terminalreporter.line(note)


@pytest.fixture(scope="session")
def farm_board(env: object, request: pytest.FixtureRequest) -> BoardEnv:
    """The board's env file, validated: name, disk, scratch areas, images."""
    return _bench(request).board


@pytest.fixture
def farm_facts(strategy: object, request: pytest.FixtureRequest) -> Facts:
    """What the booted board says of itself, with the knobs of the test's variant set: kernel, card, bus, queue."""
    __tracebackhide__ = True
    desk, variant = _desk(request), _variant_of(request)
    desk.boot(variant, request.node.path)
    return desk.facts(variant)


@pytest.fixture
def measure(strategy: object, request: pytest.FixtureRequest) -> Measure:
    """Runs a workload on the booted board: `measure(tool="dd", rw="read", bs="1M", size="32M", trials=3)`.

    Takes the keys of a campaign's workloads and returns a farm.runner.desk.Measured. Proof, safety, batch and
    judgement are a campaign's, and so is what is stored; a trial that does not count fails the test with its reason.
    """
    desk, variant = _desk(request), _variant_of(request)

    def run(*, trials: int = 1, **options: object) -> Measured:
        __tracebackhide__ = True
        from farm.errors import UserError
        from farm.runner import desk as desks

        if not isinstance(trials, int) or not 1 <= trials <= 1000:
            raise UserError(f"trials is {trials!r}; give a number from 1 to 1000")
        workload = desks.one_workload(options, *_place(request.node))
        try:
            return desk.measure(variant, workload, trials, request.node.path)
        except desks.NotMeasured as problem:
            reason = str(problem)
        pytest.fail(f"{desk.board.name} {variant.name}: {reason}", pytrace=False)

    return run


def _bench(request: pytest.FixtureRequest) -> _Bench:
    bench = request.config.stash.get(_BENCH, None)
    if bench is None:
        pytest.fail("the env file has no farm: block, which farm's fixtures need", pytrace=False)
    return bench


def _desk(request: pytest.FixtureRequest) -> Desk:
    desk = _bench(request).desk
    assert desk is not None, "made with labgrid's env"
    return desk


def _variant_of(request: pytest.FixtureRequest) -> Variant:
    return _variant(request.node, request.node.get_closest_marker("farm_variant"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A board that failed is an error of the bench and no failure of what was tested; sentences instead of tracebacks."""
    report = yield
    bench = item.config.stash.get(_BENCH, None)
    if bench is None or bench.desk is None or call.excinfo is None:
        return report
    from labgrid.strategy import StrategyError

    from farm.errors import BoardError, FarmError

    value = call.excinfo.value
    if report.failed and isinstance(value, (FarmError, StrategyError)):
        error = bench.desk.explain(value)
        report.longrepr = _Sentences(error, item)  # type: ignore[assignment]
        if isinstance(error, BoardError):
            report.user_properties.append(("board_trouble", f"{error.board}: {error.step}: {error.reason}"))
            report.board_trouble = True  # type: ignore[attr-defined]
    elif report.skipped and (broken := bench.desk.strategy.broken) and "is in broken state" in str(value):
        path, line = _place(item)
        said = str(bench.desk.explain(broken)).partition("\n")[0]
        report.longrepr = (str(path), line, f"Skipped: not run, because the board failed before: {said}")
    return report


class _Sentences:
    """An error as pytest shows it: what it says, with the place of the test."""

    def __init__(self, error: Exception, item: pytest.Item) -> None:
        self.text = str(error)
        self.path, self.lineno = _place(item)
        self.reprcrash = self  # where pytest looks for the line of its short summary
        self.message = self.text.partition("\n")[0]

    def toterminal(self, terminal: Any) -> None:
        for line in str(self).splitlines():
            terminal.line(line)

    def __str__(self) -> str:
        return f"{self.text}\n    in {self.path}:{self.lineno}"


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Board trouble counts among errors, in every phase."""
    if getattr(report, "board_trouble", False):
        return "error", "E", "BOARD TROUBLE"
    return None
