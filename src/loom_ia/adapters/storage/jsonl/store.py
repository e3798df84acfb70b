"""The ports of the JSONL backend: each call crosses to the writer's thread and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from loom_ia.adapters.files import folder_key, make_folder, reported
from loom_ia.adapters.io import Lane
from loom_ia.adapters.storage.jsonl.blobs import JsonlBlobs
from loom_ia.adapters.storage.jsonl.leases import this_process
from loom_ia.adapters.storage.jsonl.log import logger
from loom_ia.adapters.storage.jsonl.shelf import Shelf, Tenants
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.ports import Append, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry

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


class JsonlJournal:
    """Events of sessions, one file for each."""

    durable = True

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def append(self, write: Append) -> Page:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.append, write))

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.read, ref, after))

    async def session(self, tenant_id: str, session_id: str, *, after: int = 0) -> Page:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.session, tenant_id, session_id, after))

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.repair, tenant_id, session_id))


class JsonlIndex:
    """Runs of every session."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        found = await self._desk.side.call(partial(self._locate, tenant_id, run_id))
        if found is None:
            return None
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.confirm, found))

    async def runs(self, tenant_id: str, session_id: str | None = None) -> Sequence[RunEntry]:
        if session_id is not None:
            desk = self._desk
            return await desk.lane.call(
                partial(desk.shelf.entries, tenant_id, session_id, due=False)
            )
        return await self._entries(
            tenant_id, await self._sessions(tenant_id, going=False), due=False
        )

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        return await self._entries(tenant_id, await self._sessions(tenant_id, going=True), due=True)

    def _locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        tenant = self._desk.tenants.get(tenant_id)
        with reported(tenant.folder):
            return tenant.index.locate(run_id)

    async def _sessions(self, tenant_id: str, *, going: bool) -> list[str]:
        return await self._desk.side.call(partial(self._listed, tenant_id, going=going))

    def _listed(self, tenant_id: str, *, going: bool) -> list[str]:
        tenant = self._desk.tenants.get(tenant_id)
        with reported(tenant.folder):
            return tenant.index.sessions(going=going)

    async def _entries(
        self, tenant_id: str, sessions: Iterable[str], *, due: bool
    ) -> list[RunEntry]:
        desk = self._desk
        entries: list[RunEntry] = []
        for session_id in sessions:
            job = partial(desk.shelf.entries, tenant_id, session_id, due=due)
            try:
                entries += await desk.lane.call(job)  # one at a time: appends go between them
            except StoreUnavailableError as error:
                logger.error("session %s is left out: %s", session_id, error)
        return sorted(entries, key=lambda entry: entry.started_at)


class JsonlLeases:
    """Leases, in small files."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.claim, ref, ttl, holder, steal=steal))

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.renew, lease, ttl))

    async def release(self, lease: Lease, *, position: int, waiting: bool) -> bool:
        desk = self._desk
        return await desk.lane.call(partial(desk.shelf.release, lease, position, waiting=waiting))


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
        key, desk = await self._side.call(self._prepare)
        self._desk = desk
        self.journal = JsonlJournal(desk)
        self.index = JsonlIndex(desk)
        self.leases = JsonlLeases(desk)
        self.blobs = JsonlBlobs(self._data, key, desk.side)

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
