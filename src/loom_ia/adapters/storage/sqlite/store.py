"""The ports of the SQLite backend: writes cross to one thread, reads to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from loom_ia.adapters.files import keyed_digest
from loom_ia.adapters.io import Lane, Result
from loom_ia.adapters.storage.process import this_process
from loom_ia.adapters.storage.sqlite.database import Database, guarded, key_of
from loom_ia.adapters.storage.sqlite.reader import Reader
from loom_ia.adapters.storage.sqlite.search import Search
from loom_ia.adapters.storage.sqlite.writer import Writer
from loom_ia.core.budget import Counters
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
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone

T = TypeVar("T")


class _Desk:
    """The two threads of a store, and what each uses."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._database, self._clock = Database(path), clock
        self._writing, self._reading = Lane("loom-sqlite", syncers=1), Lane("loom-sqlite-read")

    async def read(self, job: Callable[[], T]) -> T:
        """Answer of the reader."""
        return await self._reading.call(partial(self._guarded, job))

    async def write(self, job: Callable[[], Result[T]]) -> T:
        """Answer of the writer, once it is committed."""
        return await self._writing.call(partial(self._guarded, job))

    async def brief(self, job: Callable[[], Result[T]]) -> T:
        """The same, in place when it is brief."""
        guarded_job = partial(self._guarded, job)
        return await self._writing.call(guarded_job, partial(self.writer.hurried, guarded_job))

    def _guarded(self, job: Callable[[], T]) -> T:
        with guarded(self._database.path):
            return job()

    def open(self) -> None:
        """Open the file, for both threads."""
        here, connection = this_process(), self._database.start()
        try:
            self.key = key_of(connection)
            self.reader = Reader(self._database, here, self._clock)
        except BaseException:
            connection.close()
            self._database.close()
            raise
        self.writer = Writer(self._database, connection, here, self._clock)

    async def close(self) -> None:
        """Finish what was asked, then close connections and threads."""
        opened = hasattr(self, "writer")
        await self._reading.aclose(self.reader.close if opened else _nothing)
        await self._writing.aclose(self.writer.close if opened else _nothing)


class SqliteJournal:
    """Events of sessions, in one table."""

    durable = True

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def append(self, write: Append) -> Page:
        desk = self._desk
        return await desk.brief(partial(desk.writer.append, write))

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        desk = self._desk
        return await desk.read(partial(desk.reader.read, ref, after))

    async def session(
        self, tenant_id: str, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Page:
        desk = self._desk
        return await desk.read(partial(desk.reader.session, tenant_id, session_id, after, limit))

    async def query(self, tenant_id: str, which: EventFilter, paging: Paging) -> Listed[Event]:
        desk = self._desk
        search = Search(desk.reader, tenant_id, which, paging)
        for where in await desk.read(search.places):
            if not search.wants(where):
                break
            await desk.read(partial(search.look, where))  # other reads go between them
        return search.page()

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        desk = self._desk
        return await desk.write(partial(desk.writer.repair, tenant_id, session_id))

    async def delete(
        self, tenant_id: str, session_id: str, *, by: str, complete: bool = False
    ) -> Tombstone | None:
        desk = self._desk
        tomb, empty = await desk.write(partial(desk.writer.delete, tenant_id, session_id, by))
        if tomb is None or not tomb.pending or not (complete and empty):
            return tomb
        await desk.write(desk.writer.rebuild)
        await desk.write(desk.writer.empty_log)
        return await desk.write(partial(desk.writer.settle, tenant_id, session_id))


class SqliteIndex:
    """Runs of every session."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        desk = self._desk
        return await desk.read(partial(desk.reader.locate, tenant_id, run_id))

    async def runs(
        self, tenant_id: str, which: RunFilter = ALL_RUNS, paging: Paging = FIRST
    ) -> Listed[RunEntry]:
        desk = self._desk
        return await desk.read(partial(desk.reader.runs, tenant_id, which, paging))

    async def sessions(
        self, tenant_id: str, session_id: str | None = None, paging: Paging = FIRST
    ) -> Listed[SessionEntry]:
        desk = self._desk
        return await desk.read(partial(desk.reader.sessions, tenant_id, session_id, paging))

    async def erased(self, tenant_id: str, session_id: str | None = None) -> Sequence[Tombstone]:
        desk = self._desk
        return await desk.read(partial(desk.reader.erased, tenant_id, session_id))

    async def counters(self, tenant_id: str, session_id: str, run_id: str) -> Counters:
        desk, ref = self._desk, RunRef(tenant_id, session_id, run_id, run_id)
        return await desk.read(partial(desk.reader.counters, ref))

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        desk = self._desk
        return await desk.read(partial(desk.reader.due, tenant_id))


class SqliteLeases:
    """Leases, in the rows of the runs."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        desk = self._desk
        return await desk.brief(partial(desk.writer.claim, ref, ttl, holder, steal=steal))

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        desk = self._desk
        return await desk.write(partial(desk.writer.renew, lease, ttl))

    async def release(
        self, lease: Lease, *, position: int, waiting: bool, until: datetime | None = None
    ) -> bool:
        desk = self._desk
        job = partial(desk.writer.release, lease, position, waiting=waiting, until=until)
        return await desk.brief(job)


class SqliteBlobs:
    """Contents by tenant and digest."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    def digest(self, tenant_id: str, data: bytes) -> str:
        return keyed_digest(self._desk.key, tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        desk, digest = self._desk, self.digest(tenant_id, data)
        # What names a content is written behind it: no sync keeps the name and not the content.
        if await desk.read(partial(desk.reader.fresh, tenant_id, digest)):
            return digest
        return await desk.write(partial(desk.writer.put, tenant_id, digest, data))

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        desk = self._desk
        return await desk.read(partial(desk.reader.blob, tenant_id, digest))


class SqliteSnapshots:
    """Snapshots of sessions, in rows beside theirs."""

    def __init__(self, desk: _Desk) -> None:
        self._desk = desk

    async def load(self, tenant_id: str, session_id: str) -> Sequence[bytes]:
        desk = self._desk
        return await desk.read(partial(desk.reader.parts, tenant_id, session_id))

    async def add(self, tenant_id: str, session_id: str, part: bytes, *, first: bool) -> None:
        desk = self._desk
        job = partial(desk.writer.add_part, tenant_id, session_id, part, first=first)
        await desk.write(job)


class SqliteStore:
    """Journal, index, leases, blobs and snapshots of a database; several processes may share it."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._desk = _Desk(path, clock)
        self.journal = SqliteJournal(self._desk)
        self.index = SqliteIndex(self._desk)
        self.leases = SqliteLeases(self._desk)
        self.blobs = SqliteBlobs(self._desk)
        self.snapshots = SqliteSnapshots(self._desk)

    async def start(self) -> None:
        """Make the file ready.

        Raises:
            StoreUnavailableError: it cannot be used.

        """
        await self._desk.write(self._desk.open)

    async def aclose(self) -> None:
        """Finish what was asked, then close."""
        await self._desk.close()


def _nothing() -> None:
    return
