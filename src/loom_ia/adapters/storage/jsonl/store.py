"""The ports of the JSONL backend: each call crosses to the writer's thread and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from loom_ia.adapters.files import folder_key, make_folder, read_file, reported
from loom_ia.adapters.io import Lane, Synced
from loom_ia.adapters.storage.jsonl.blobs import JsonlBlobs
from loom_ia.adapters.storage.jsonl.log import logger
from loom_ia.adapters.storage.jsonl.search import Search, grouped, listed, places
from loom_ia.adapters.storage.jsonl.shelf import Shelf
from loom_ia.adapters.storage.jsonl.tenants import Tenant, Tenants
from loom_ia.adapters.storage.process import this_process
from loom_ia.core.budget import Counters
from loom_ia.core.errors import JournalDamagedError, StoreUnavailableError
from loom_ia.core.events import Event
from loom_ia.core.ports import (
    Append,
    EventFilter,
    Lease,
    Listed,
    Page,
    Paging,
    RunFilter,
    RunRef,
)
from loom_ia.core.ports.journal import ALL_RUNS, FIRST
from loom_ia.core.ports.listing import page, place, run_key, session_key
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone, summed

T = TypeVar("T")

SYNCERS = 4
"""Threads that wait for the disk."""


class _Desk:
    """Threads of a store.

    All sessions share one writer: several would only pass the interpreter's lock to each other.
    """

    def __init__(self, data: Path, clock: Callable[[], datetime]) -> None:
        self.data = data
        self.tenants = Tenants(data, this_process(), clock)
        self.shelf = Shelf(self.tenants)
        self.lane = Lane("loom-jsonl", syncers=SYNCERS)
        self.side = Lane("loom-jsonl-side")
        """For contents, and for what reads whole folders."""

    async def brief(self, job: Callable[[], T | Synced[T]]) -> T:
        """Result of a job that is done in place when it is brief."""
        return await self.lane.call(job, partial(self.shelf.hurried, job))

    async def read(self, tenant: Tenant, job: Callable[[], T]) -> T:
        """Result of a job on the folder of a tenant, that no append waits for."""

        def run() -> T:
            with reported(tenant.folder):
                return job()

        return await self.side.call(run)


class JsonlJournal:
    """Events of sessions, one file for each."""

    durable = True

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def append(self, write: Append) -> Page:
        return await self._desk.brief(partial(self._desk.shelf.append, write))

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        return await self._desk.brief(partial(self._desk.shelf.read, ref, after))

    async def session(
        self, tenant_id: str, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Page:
        job = partial(self._desk.shelf.session, tenant_id, session_id, after, limit)
        return await self._desk.lane.call(job)

    async def query(self, tenant_id: str, which: EventFilter, paging: Paging) -> Listed[Event]:
        desk = self._desk
        tenant = desk.tenants.get(tenant_id)
        search = Search(tenant, which, paging)
        for where in await desk.read(tenant, partial(places, tenant, which)):
            if not search.wants(where):
                break
            await desk.read(tenant, partial(search.look, where))
        return search.page(desk.tenants.clock())

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.repair, tenant_id, session_id))

    async def delete(
        self, tenant_id: str, session_id: str, *, by: str, complete: bool = False
    ) -> Tombstone | None:
        desk = self._desk
        await desk.lane.call(partial(desk.shelf.bury, tenant_id, session_id, by))
        tenant, now = desk.tenants.get(tenant_id), desk.tenants.clock()
        clear = partial(tenant.graves.clear, session_id, now, complete=complete)
        return await desk.read(tenant, clear)


class JsonlIndex:
    """Runs of every session."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        desk = self._desk
        tenant = desk.tenants.get(tenant_id)
        found = await desk.read(tenant, partial(tenant.index.locate, run_id))
        if found is None:
            return None
        return await desk.lane.call(partial(desk.shelf.confirm, found))

    async def runs(
        self, tenant_id: str, which: RunFilter = ALL_RUNS, paging: Paging = FIRST
    ) -> Listed[RunEntry]:
        start, desk = place(paging.after), self._desk
        tenant = desk.tenants.get(tenant_id)
        roots = await desk.read(tenant, partial(listed, tenant, which.session_id))
        live: dict[str, Mapping[str, RunEntry]] = {}
        found: list[RunEntry] = []
        for entry in sorted(roots, key=run_key, reverse=True):
            if len(found) > paging.limit or (start is not None and run_key(entry) >= start):
                continue
            known: RunEntry | None = entry
            if entry.ended is None:
                session_id = entry.session_id
                if session_id not in live:
                    live[session_id] = await self._live(tenant_id, session_id, roots)
                known = live[session_id].get(entry.run_id)
            if known is not None and which.takes(known):
                found.append(known.evolve(started_at=entry.started_at))
        return page(found, run_key, paging, desk.tenants.clock())

    async def sessions(
        self, tenant_id: str, session_id: str | None = None, paging: Paging = FIRST
    ) -> Listed[SessionEntry]:
        start, desk = place(paging.after), self._desk
        tenant = desk.tenants.get(tenant_id)
        roots = await desk.read(tenant, partial(listed, tenant, session_id))
        found: list[SessionEntry] = []
        for entry in sorted(grouped(roots), key=session_key, reverse=True):
            if len(found) > paging.limit or (start is not None and session_key(entry) >= start):
                continue
            known: SessionEntry | None = entry
            if entry.open:
                known = summed((await self._live(tenant_id, entry.session_id, roots)).values())
            if known is not None:
                found.append(replace(known, started_at=entry.started_at))
        return page(found, session_key, paging, desk.tenants.clock())

    async def counters(self, tenant_id: str, session_id: str, run_id: str) -> Counters:
        desk = self._desk
        tenant, now = desk.tenants.get(tenant_id), desk.tenants.clock()
        return await desk.read(tenant, partial(tenant.spending.counters, session_id, run_id, now))

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        desk = self._desk
        tenant = desk.tenants.get(tenant_id)
        entries: list[RunEntry] = []
        for session_id in await desk.read(tenant, tenant.index.going):
            job = partial(desk.shelf.entries, tenant_id, session_id, due=True)
            try:
                entries += await desk.lane.call(job)  # one at a time: appends go between them
            except StoreUnavailableError as error:
                logger.error("session %s is left out: %s", session_id, error)
        return sorted(entries, key=run_key)

    async def erased(self, tenant_id: str, session_id: str | None = None) -> Sequence[Tombstone]:
        tenant = self._desk.tenants.get(tenant_id)
        return await self._desk.read(tenant, partial(tenant.graves.tombstones, session_id))

    async def _live(
        self, tenant_id: str, session_id: str, known: Iterable[RunEntry]
    ) -> Mapping[str, RunEntry]:
        """Root runs of a session that has open ones; those the index knows if it cannot be read."""
        desk = self._desk
        job = partial(desk.shelf.entries, tenant_id, session_id, due=False)
        try:
            entries = await desk.lane.call(job)
        except (JournalDamagedError, StoreUnavailableError) as error:
            logger.error("session %s is listed as its index knows it: %s", session_id, error)
            entries = [entry for entry in known if entry.session_id == session_id]
        return {entry.run_id: entry for entry in entries}


class JsonlLeases:
    """Leases, in small files."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        desk = self._desk
        return await desk.brief(partial(desk.shelf.claim, ref, ttl, holder, steal=steal))

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.renew, lease, ttl))

    async def release(
        self, lease: Lease, *, position: int, waiting: bool, until: datetime | None = None
    ) -> bool:
        desk = self._desk
        job = partial(desk.shelf.release, lease, position, waiting=waiting, until=until)
        return await desk.brief(job)


class JsonlSnapshots:
    """Snapshots of sessions, one file for each."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def load(self, tenant_id: str, session_id: str) -> Sequence[bytes]:
        tenant = self._desk.tenants.get(tenant_id)
        data = await self._desk.read(tenant, partial(read_file, tenant.snapshot(session_id)))
        return (data or b"").splitlines()

    async def add(self, tenant_id: str, session_id: str, part: bytes, *, first: bool) -> None:
        desk = self._desk
        job = partial(desk.shelf.keep, tenant_id, session_id, part, first=first)
        await desk.lane.call(job)


class JsonlStore:
    """Journal, index, leases, blobs and snapshots of a folder; several processes may share it."""

    blobs: JsonlBlobs

    def __init__(self, data: Path, clock: Callable[[], datetime]) -> None:
        self._data, self._clock = data, clock
        self._side = Lane("loom-jsonl-open")

    async def start(self) -> None:
        """Make the folder ready.

        Raises:
            StoreUnavailableError: it cannot be used.

        """
        key, desk = await self._side.call(self._prepare)
        self._desk = desk
        self.journal = JsonlJournal(desk)
        self.index = JsonlIndex(desk)
        self.leases = JsonlLeases(desk)
        self.snapshots = JsonlSnapshots(desk)
        self.blobs = JsonlBlobs(self._data, key, desk.side, self._clock)

    def _prepare(self) -> tuple[bytes, _Desk]:
        self._data = self._data.absolute()  # the working directory may change
        with reported(self._data):
            make_folder(self._data, top=self._data)
            return folder_key(self._data), _Desk(self._data, self._clock)

    async def aclose(self) -> None:
        """Finish what was asked, then close files and threads."""
        desk = getattr(self, "_desk", None)
        if desk is not None:
            await desk.lane.aclose(desk.shelf.close)
            await desk.side.aclose(_nothing)
        await self._side.aclose(_nothing)


def _nothing() -> None:
    return
