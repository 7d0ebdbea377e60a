"""Places of labgrid's coordinator: what there is, who holds it, taking and giving back.

Every call opens a session of its own, because a lock belongs to a name and not to a connection.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel

from farm import yamlfile
from farm.errors import BoardError
from farm.virtual.state import start_time

_T = TypeVar("_T")
_DEADLINE_S = 20.0
_REGAIN_S = 60.0
_OURS = re.compile(r"farm-([0-9a-f]{8})-(\d+)-(\d+)-(\d+)")


class Declared(BaseModel):
    """One place as envs/lab/places.yaml declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    matches: tuple[str, ...]
    tags: Mapping[str, str] = {}

    def tagged(self, tags: Mapping[str, str]) -> Declared:
        """The same with more tags, those of the board's env file."""
        return self.model_copy(update={"tags": {**self.tags, **tags}})


class PlacesFile(RootModel[Mapping[str, Declared]]):
    """Places by name."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True)
class Place:
    """A place as the coordinator has it; `resources` are there now.

    `holder` is the `HOST/USER` that acquired it, or else that it is reserved for; empty where it is free.
    """

    name: str
    tags: Mapping[str, str]
    holder: str
    resources: frozenset[str]


def read(path: Path) -> Mapping[str, Declared]:
    """The places that a file declares. Raises UserError with file, line and key."""
    return yamlfile.load(path, PlacesFile).root


def hostname() -> str:
    """What labgrid calls this machine."""
    return os.environ.get("LG_HOSTNAME") or socket.gethostname()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def owner() -> str:
    """`HOST/USER` under which this process takes places; it names a process for good, so that it can be proven gone.

    Workers go by the name of their controller, which is in their environment.
    """
    if _OURS.fullmatch(os.environ.get("LG_USERNAME", "")):
        return f"{hostname()}/{os.environ['LG_USERNAME']}"
    pid = os.getpid()
    return f"{hostname()}/farm-{_boot()}-{_namespace()}-{pid}-{start_time(pid)}"


def gone(holder: str) -> bool:
    """Whether the holder of a place was a farm process of this very machine and boot that does not run any more.

    Holders of other hosts, earlier boots, other containers, and people are never said to be gone.
    """
    host, _, user = holder.partition("/")
    found = _OURS.fullmatch(user)
    if found is None or host != hostname():
        return False
    boot, namespace, pid, started = found[1], int(found[2]), int(found[3]), int(found[4])
    return boot == _boot() and namespace == _namespace() and start_time(pid) != started


def use(address: str) -> None:
    """Have labgrid in this process and its children talk to that coordinator, under this process's own name."""
    os.environ["LG_COORDINATOR"] = address
    os.environ["LG_HOSTNAME"], _, os.environ["LG_USERNAME"] = owner().partition("/")


def _talk(address: str, what: Callable[[Any], Awaitable[_T]]) -> _T:
    """Run `what` with a session of labgrid's client. Raises BoardError where the coordinator does not answer or refuses."""
    import asyncio  # here: most runs talk to no coordinator

    import grpc  # here: it must not be loaded in a process that forks
    from labgrid.remote.client import ClientSession, Error

    host, user = owner().split("/", 1)

    class Session(ClientSession):  # type: ignore[misc]
        """The name on the session is the name on the lock."""

        def gethostname(self) -> str:
            return host

        def getuser(self) -> str:
            return user

    async def talk() -> _T:
        session = Session(address, asyncio.get_running_loop())
        try:
            await session.start()
            return await what(session)
        finally:
            session.stopping.set()
            await session.stop()
            await session.close()

    quiet = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # labgrid logs what is raised as well
    try:
        return asyncio.run(asyncio.wait_for(talk(), _DEADLINE_S))
    except TimeoutError:
        raise BoardError(
            f"the coordinator {address} does not answer within {_DEADLINE_S:.0f} s", step="coordinator"
        ) from None
    except grpc.aio.AioRpcError as problem:
        raise BoardError(
            f"the coordinator {address} refuses: {problem.details()}", step="coordinator"
        ) from None
    except (Error, OSError) as problem:
        raise BoardError(f"no coordinator at {address} ({problem})", step="coordinator") from None
    finally:
        logging.disable(quiet)


@dataclass(frozen=True)
class _Booked:
    """A reservation of one place by its name, as labgrid's scheduler has it."""

    token: str
    owner: str
    place: str
    ours_now: bool  # the place is kept for its owner, and not only waited for


async def _bookings(session: Any) -> list[_Booked]:
    from labgrid.remote.common import Reservation, ReservationState
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

    answer = await session.stub.GetReservations(pb.GetReservationsRequest())
    found = []
    for one in map(Reservation.from_pb2, answer.reservations):
        kept = one.state in (ReservationState.allocated, ReservationState.acquired)
        if kept or one.state is ReservationState.waiting:
            names = one.allocations.get("main") or [one.filters.get("main", {}).get("name", "")]
            found.append(_Booked(one.token, one.owner, names[0], kept))
    return found


async def _seen(session: Any) -> dict[str, Place]:
    kept = {one.place: one.owner for one in await _bookings(session) if one.ours_now}
    there = [
        (exporter, group, entry.cls, name)
        for exporter, groups in session.resources.items()
        for group, entries in groups.items()
        for name, entry in entries.items()
        if entry.data.get("avail")  # empty where the exporter is gone
    ]
    return {
        place.name: Place(
            place.name,
            dict(place.tags),
            place.acquired or kept.get(place.name, ""),
            frozenset("/".join(path) for path in there if place.hasmatch(path)),
        )
        for place in session.places.values()
    }


def seen(address: str) -> dict[str, Place]:
    """All places of a coordinator by name. Raises BoardError."""
    return _talk(address, _seen)


def ensure(address: str, declared: Mapping[str, Declared]) -> None:
    """Have these places, with their matches and tags. Raises BoardError."""

    async def make(session: Any) -> None:
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        for name, wanted in declared.items():
            place = session.places.get(name)
            if place is None:
                await session.stub.AddPlace(pb.AddPlaceRequest(name=name))
            for pattern in wanted.matches:
                if place is None or not place.hasmatch(pattern.split("/")):
                    await session.stub.AddPlaceMatch(pb.AddPlaceMatchRequest(placename=name, pattern=pattern))
            await session.stub.SetPlaceTags(pb.SetPlaceTagsRequest(placename=name, tags=dict(wanted.tags)))

    _talk(address, make)


def main(argv: Sequence[str]) -> None:
    """Have the places of the JSON file `argv[1]` at the coordinator `argv[0]`, as soon as it answers.

    For a coordinator that was killed: it writes its places down every 15 seconds only, and may come back without.
    """
    declared = PlacesFile.model_validate_json(Path(argv[1]).read_text()).root
    end = time.monotonic() + _REGAIN_S
    while True:
        try:
            return ensure(argv[0], declared)
        except BoardError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def acquire(address: str, names: tuple[str, ...], *, queue: bool = False) -> None:
    """Reserve and take all these places or none, after reaping what holders left behind that are provably gone.

    With `queue` this process keeps its turn in labgrid's queue for a place that somebody else has, as long as this is
    called again within a minute. Raises BoardError naming the place and who holds it, or that no exporter serves it.
    """

    async def take(session: Any) -> None:
        from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

        known = {place.name: place for place in session.places.values()}
        taken: list[str] = []
        try:
            for name in names:
                if name not in known:
                    there = ", ".join(sorted(known)) or "none"
                    raise BoardError(f"the coordinator has no place {name} (there: {there})", board=name)
                if not (await _seen(session))[name].resources:
                    raise BoardError("offline: no exporter serves it", board=name, step="acquire")
                await _reap(session, name)
                if not await _reserve(session, name):
                    if not queue:
                        await _cancel(session, (name,))
                    holder = (await _seen(session))[name].holder
                    raise BoardError(f"is held by {holder or 'others'}", board=name, step="acquire")
                await session.stub.AcquirePlace(pb.AcquirePlaceRequest(placename=name))
                taken.append(name)
        except BaseException:
            await _give_back(session, tuple(taken))
            raise

    _talk(address, take)


async def _reap(session: Any, name: str) -> None:
    """Take a place, and what is booked for it, from holders that are provably gone, and from nobody else."""
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

    for one in await _bookings(session):
        if one.place == name and gone(one.owner):
            await session.stub.CancelReservation(pb.CancelReservationRequest(token=one.token))
    holder = session.places[name].acquired
    if holder and gone(holder):
        # only from the holder that is gone: somebody else may have been faster
        await session.stub.ReleasePlace(pb.ReleasePlaceRequest(placename=name, fromuser=holder))


async def _reserve(session: Any, name: str) -> bool:
    """Whether labgrid's scheduler keeps this place for this process now; if not, this process is in its queue."""
    from labgrid.remote.common import Reservation, ReservationState
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

    token = next((one.token for one in await _own(session) if one.place == name), None)
    if token is None:
        wanted = {"main": pb.Reservation.Filter(filter={"name": name})}
        made = await session.stub.CreateReservation(pb.CreateReservationRequest(filters=wanted, prio=0.0))
        token = made.reservation.token
    answer = await session.stub.PollReservation(pb.PollReservationRequest(token=token))
    return Reservation.from_pb2(answer.reservation).state is ReservationState.allocated


async def _own(session: Any) -> list[_Booked]:
    return [one for one in await _bookings(session) if one.owner == owner()]


async def _cancel(session: Any, names: Collection[str]) -> None:
    import grpc
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

    for one in await _own(session):
        if one.place in names:
            with suppress(grpc.aio.AioRpcError):  # it lapsed this very moment
                await session.stub.CancelReservation(pb.CancelReservationRequest(token=one.token))


async def _release(session: Any, name: str) -> None:
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb

    # from ourselves only: after a restart of the coordinator it may be somebody else's
    await session.stub.ReleasePlace(pb.ReleasePlaceRequest(placename=name, fromuser=owner()))


async def _give_back(session: Any, names: tuple[str, ...]) -> None:
    await _cancel(session, names)  # first, or the place would be kept for us another minute
    for name in names:
        await _release(session, name)


def release(address: str, names: tuple[str, ...]) -> None:
    """Give back what `acquire` took; a place that is not ours any more is left alone. Raises BoardError."""

    async def give(session: Any) -> None:
        await _give_back(session, names)

    _talk(address, give)


def leave_queues(address: str, but: Collection[str]) -> None:
    """Give up this process's turn at every place but these. What cannot be told to the coordinator lapses in a minute."""

    async def leave(session: Any) -> None:
        await _cancel(session, {one.place for one in await _own(session)} - set(but))

    with suppress(BoardError):
        _talk(address, leave)


def regain(address: str, name: str) -> None:
    """Give a place back and take it again, which makes its exporter start a fresh serial line.

    It stays reserved meanwhile. Coordinator and exporter are given time to come back. Raises BoardError with what was in
    the way at last.
    """

    async def let_go(session: Any) -> None:
        await _release(session, name)

    end = time.monotonic() + _REGAIN_S
    while True:
        try:
            _talk(address, let_go)
            before = seen(address).get(name)
            time.sleep(1)
            if seen(address).get(name) == before:  # else the exporter is still telling what it has
                acquire(address, (name,))
                return
        except BoardError:
            if time.monotonic() > end:
                raise
            time.sleep(1)


@contextmanager
def taken(address: str, names: tuple[str, ...], *, queue: bool = False) -> Iterator[None]:
    """Hold these places; they are given back however the block ends. Raises BoardError as `acquire` does."""
    acquire(address, names, queue=queue)
    try:
        yield
    finally:
        with suppress(
            BoardError
        ):  # a coordinator that is gone has forgotten the lock, and must not hide an error
            release(address, names)


if __name__ == "__main__":
    main(sys.argv[1:])
