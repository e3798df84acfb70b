"""Stores that behave as real ones do under a test: they suspend, and their process may die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal, Protocol

from loom_ia.core.budget import Counters
from loom_ia.core.events import Event
from loom_ia.core.ports import (
    Append,
    Artifacts,
    Blobs,
    EventFilter,
    Journal,
    Lease,
    Leases,
    Listed,
    Page,
    Paging,
    RunFilter,
    RunIndex,
    RunRef,
    Snapshots,
    Store,
)
from loom_ia.core.ports.journal import ALL_RUNS, FIRST
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone

Operation = Literal["append", "claim", "renew", "release", "put", "read"]
"""`read` is any operation that changes nothing."""


class Cut(BaseException):
    """The process dies: nothing catches it, and its store answers nothing any more."""


class Gate(Protocol):
    """What each operation passes on its way in, and again on its way out."""

    async def enter(self, operation: Operation) -> None:
        """Before the operation; what it raises prevents it."""
        ...

    async def leave(self, operation: Operation) -> None:
        """After it; what it raises hides its result."""
        ...


class Suspending:
    """Lets the event loop turn around each operation, as often as drawn beforehand."""

    def __init__(self, turns: Iterable[int], *, then: int = 1) -> None:
        self._turns = iter(turns)
        self._then = then

    async def enter(self, operation: Operation) -> None:  # noqa: ARG002  any of them
        await self._pause()

    async def leave(self, operation: Operation) -> None:  # noqa: ARG002  any of them
        await self._pause()

    async def _pause(self) -> None:
        for _ in range(next(self._turns, self._then)):
            await asyncio.sleep(0)


class Cutting:
    """Dies around an operation, counted from 0 among those named, and stays dead."""

    def __init__(
        self, at: int, *, kept: bool, among: Sequence[Operation] = ("append", "claim", "release")
    ) -> None:
        self._left = at
        self._kept = kept
        self._among = among
        self.dead = False

    async def enter(self, operation: Operation) -> None:
        """Die before it when its turn has come and it must not be kept."""
        if operation in self._among:
            self._left -= 1
        self.dead = self.dead or (self._left < 0 and not self._kept)
        if self.dead:
            raise Cut

    async def leave(self, operation: Operation) -> None:
        """Die after it when its turn has come."""
        if self.dead or (operation in self._among and self._left < 0):
            self.dead = True
            raise Cut


class Gated:
    """A store seen through gates; `acknowledged` holds the events whose append returned."""

    artifacts: Artifacts

    def __init__(self, store: Store, *gates: Gate) -> None:
        self._gates = gates
        self.acknowledged: list[Event] = []
        self.appends: list[Append] = []
        """Those that were asked, refused ones included."""
        self.journal: Journal = _Journal(store.journal, self)
        self.leases: Leases = _Leases(store.leases, self)
        self.blobs: Blobs = _Blobs(store.blobs, self)
        self.snapshots: Snapshots = store.snapshots
        self.index: RunIndex = _Index(store.index, self)

    @asynccontextmanager
    async def through(self, operation: Operation) -> AsyncGenerator[None]:
        """One operation, between its two passages."""
        for gate in self._gates:
            await gate.enter(operation)
        yield
        for gate in self._gates:
            await gate.leave(operation)


class _Journal:
    def __init__(self, inner: Journal, store: Gated) -> None:
        self._inner, self._store = inner, store

    @property
    def durable(self) -> bool:
        return self._inner.durable

    async def append(self, write: Append) -> Page:
        async with self._store.through("append"):
            self._store.appends.append(write)
            page = await self._inner.append(write)
        self._store.acknowledged += page.events
        return page

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        async with self._store.through("read"):
            page = await self._inner.read(ref, after=after)
            return Page(tuple(page.events), page.now)

    async def session(
        self, tenant_id: str, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Page:
        async with self._store.through("read"):
            page = await self._inner.session(tenant_id, session_id, after=after, limit=limit)
            return Page(tuple(page.events), page.now)

    async def query(self, tenant_id: str, which: EventFilter, paging: Paging) -> Listed[Event]:
        async with self._store.through("read"):
            return await self._inner.query(tenant_id, which, paging)

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        async with self._store.through("append"):
            return await self._inner.repair(tenant_id, session_id)

    async def delete(
        self, tenant_id: str, session_id: str, *, by: str, complete: bool = False
    ) -> Tombstone | None:
        async with self._store.through("append"):
            return await self._inner.delete(tenant_id, session_id, by=by, complete=complete)


class _Leases:
    def __init__(self, inner: Leases, store: Gated) -> None:
        self._inner, self._store = inner, store

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        async with self._store.through("claim"):
            return await self._inner.claim(ref, ttl=ttl, holder=holder, steal=steal)

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        async with self._store.through("renew"):
            return await self._inner.renew(lease, ttl=ttl)

    async def release(
        self, lease: Lease, *, position: int, waiting: bool, until: datetime | None = None
    ) -> bool:
        async with self._store.through("release"):
            return await self._inner.release(lease, position=position, waiting=waiting, until=until)


class _Blobs:
    def __init__(self, inner: Blobs, store: Gated) -> None:
        self._inner, self._store = inner, store

    def digest(self, tenant_id: str, data: bytes) -> str:
        return self._inner.digest(tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        async with self._store.through("put"):
            return await self._inner.put(tenant_id, data)

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        async with self._store.through("read"):
            return await self._inner.get(tenant_id, digest)


class _Index:
    def __init__(self, inner: RunIndex, store: Gated) -> None:
        self._inner, self._store = inner, store

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        async with self._store.through("read"):
            return await self._inner.locate(tenant_id, run_id)

    async def runs(
        self, tenant_id: str, which: RunFilter = ALL_RUNS, paging: Paging = FIRST
    ) -> Listed[RunEntry]:
        async with self._store.through("read"):
            return await self._inner.runs(tenant_id, which, paging)

    async def sessions(
        self, tenant_id: str, session_id: str | None = None, paging: Paging = FIRST
    ) -> Listed[SessionEntry]:
        async with self._store.through("read"):
            return await self._inner.sessions(tenant_id, session_id, paging)

    async def erased(self, tenant_id: str, session_id: str | None = None) -> Sequence[Tombstone]:
        async with self._store.through("read"):
            return await self._inner.erased(tenant_id, session_id)

    async def counters(self, tenant_id: str, session_id: str, run_id: str) -> Counters:
        async with self._store.through("read"):
            return await self._inner.counters(tenant_id, session_id, run_id)

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        async with self._store.through("read"):
            return await self._inner.due(tenant_id)
