"""The ports of the JSONL backend: each call crosses to the thread of its session and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from loom_ia.adapters.files import folder_key, make_folder, reported
from loom_ia.adapters.io import Lane
from loom_ia.adapters.storage.jsonl.blobs import JsonlBlobs
from loom_ia.adapters.storage.jsonl.leases import this_process
from loom_ia.adapters.storage.jsonl.shelf import Shelf, Tenants
from loom_ia.core.ports import Append, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry

LANES = 4
"""Threads among which the sessions of a store are shared."""

Seat = tuple[Lane, Shelf]


class _Seats:
    """Threads of a store; a session always falls to the same one."""

    def __init__(self, data: Path, clock: Callable[[], datetime]) -> None:
        self.data = data
        self.tenants = Tenants(data, this_process(), clock)
        self.all = [(Lane(f"loom-jsonl-{n}"), Shelf(self.tenants)) for n in range(LANES)]
        self.side = Lane("loom-jsonl-side")
        """For what belongs to no session."""

    def of(self, tenant_id: str, session_id: str) -> Seat:
        """Thread of a session."""
        return self.all[hash((tenant_id, session_id)) % LANES]


class JsonlJournal:
    """Events of sessions, one file for each."""

    durable = True

    def __init__(self, seats: _Seats) -> None:
        self._seats = seats

    async def append(self, write: Append) -> Page:
        lane, shelf = self._seats.of(write.ref.tenant_id, write.ref.session_id)
        return await lane.call(partial(shelf.append, write))

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        lane, shelf = self._seats.of(ref.tenant_id, ref.session_id)
        return await lane.call(partial(shelf.read, ref, after))

    async def session(self, tenant_id: str, session_id: str, *, after: int = 0) -> Page:
        lane, shelf = self._seats.of(tenant_id, session_id)
        return await lane.call(partial(shelf.session, tenant_id, session_id, after))

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        lane, shelf = self._seats.of(tenant_id, session_id)
        return await lane.call(partial(shelf.repair, tenant_id, session_id))


class JsonlIndex:
    """Runs of every session."""

    def __init__(self, seats: _Seats) -> None:
        self._seats = seats

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        found = await self._seats.side.call(partial(self._locate, tenant_id, run_id))
        if found is None:
            return None
        lane, shelf = self._seats.of(tenant_id, found.session_id)
        return await lane.call(partial(shelf.confirm, found))

    async def runs(self, tenant_id: str, session_id: str | None = None) -> Sequence[RunEntry]:
        if session_id is not None:
            return await self._entries(tenant_id, [session_id], due=False)
        return await self._entries(
            tenant_id, await self._sessions(tenant_id, going=False), due=False
        )

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        return await self._entries(tenant_id, await self._sessions(tenant_id, going=True), due=True)

    def _locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        tenant = self._seats.tenants.get(tenant_id)
        with reported(tenant.folder):
            return tenant.index.locate(run_id)

    async def _sessions(self, tenant_id: str, *, going: bool) -> list[str]:
        return await self._seats.side.call(partial(self._listed, tenant_id, going=going))

    def _listed(self, tenant_id: str, *, going: bool) -> list[str]:
        tenant = self._seats.tenants.get(tenant_id)
        with reported(tenant.folder):
            return tenant.index.sessions(going=going)

    async def _entries(
        self, tenant_id: str, sessions: Iterable[str], *, due: bool
    ) -> list[RunEntry]:
        calls: list[asyncio.Task[list[RunEntry]]] = []
        async with asyncio.TaskGroup() as group:
            for session_id in sessions:
                lane, shelf = self._seats.of(tenant_id, session_id)
                job = partial(shelf.entries, tenant_id, session_id, due=due)
                calls.append(group.create_task(lane.call(job)))
        entries = [entry for call in calls for entry in call.result()]
        return sorted(entries, key=lambda entry: entry.started_at)


class JsonlLeases:
    """Leases, in small files."""

    def __init__(self, seats: _Seats) -> None:
        self._seats = seats

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        lane, shelf = self._seats.of(ref.tenant_id, ref.session_id)
        return await lane.call(partial(shelf.claim, ref, ttl, holder, steal=steal))

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        lane, shelf = self._seats.of(lease.ref.tenant_id, lease.ref.session_id)
        return await lane.call(partial(shelf.renew, lease, ttl))

    async def release(self, lease: Lease, *, position: int, waiting: bool) -> bool:
        lane, shelf = self._seats.of(lease.ref.tenant_id, lease.ref.session_id)
        return await lane.call(partial(shelf.release, lease, position, waiting=waiting))


class JsonlStore:
    """Journal, index, leases and blobs of a folder; several processes may share it."""

    blobs: JsonlBlobs

    def __init__(self, data: Path, clock: Callable[[], datetime]) -> None:
        self._data, self._clock = data, clock
        self._side = Lane("loom-jsonl-open")

    async def start(self) -> None:
        """Make the folder ready.

        Raises:
            StoreUnavailableError: it cannot be used.

        """
        key, seats = await self._side.call(self._prepare)
        self._seats = seats
        self.journal = JsonlJournal(seats)
        self.index = JsonlIndex(seats)
        self.leases = JsonlLeases(seats)
        self.blobs = JsonlBlobs(self._data, key, seats.side)

    def _prepare(self) -> tuple[bytes, _Seats]:
        self._data = self._data.absolute()  # the working directory may change
        with reported(self._data):
            make_folder(self._data, top=self._data)
            return folder_key(self._data), _Seats(self._data, self._clock)

    async def aclose(self) -> None:
        """Finish what was asked, then close files and threads."""
        seats = getattr(self, "_seats", None)
        for lane, shelf in seats.all if seats is not None else ():
            await lane.aclose(shelf.close)
        if seats is not None:
            await seats.side.aclose(_nothing)
        await self._side.aclose(_nothing)


def _nothing() -> None:
    return
