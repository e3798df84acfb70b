"""The memory backend: no operation of it suspends."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from loom_ia.adapters.files import KEY_BYTES, keyed_digest
from loom_ia.adapters.storage.ledger import Ledger
from loom_ia.core.errors import RunExistsError
from loom_ia.core.events import Event
from loom_ia.core.ports import Append, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry

Clock = Callable[[], datetime]


@dataclass(slots=True, eq=False)
class _Session:
    tenant_id: str
    session_id: str
    ledger: Ledger = field(default_factory=Ledger)
    events: list[Event] = field(default_factory=list[Event])
    runs: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])


@dataclass(slots=True, eq=False)
class _Tenant:
    sessions: dict[str, _Session] = field(default_factory=dict[str, _Session])
    runs: dict[str, _Session] = field(default_factory=dict[str, _Session])
    """Session of each run."""


class _Shelves:
    """All sessions of all tenants."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tenants: dict[str, _Tenant] = {}
        self.nothing = _Session("", "")

    def tenant(self, tenant_id: str) -> _Tenant:
        """Sessions of a tenant; asking for them changes nothing."""
        return self.tenants.get(tenant_id) or _Tenant()

    def session(self, tenant_id: str, session_id: str) -> _Session:
        """A session, or the empty one."""
        return self.tenant(tenant_id).sessions.get(session_id) or self.nothing


class MemoryJournal:
    """Events of sessions, in lists."""

    durable = False

    def __init__(self, shelves: _Shelves) -> None:
        self._shelves = shelves

    async def append(self, write: Append) -> Page:
        ref, shelves = write.ref, self._shelves
        tenant = shelves.tenant(ref.tenant_id)
        session = tenant.sessions.get(ref.session_id) or _Session(ref.tenant_id, ref.session_id)
        ledger = session.ledger
        now = ledger.now(shelves.clock())
        start = write.fence.kind == "start"
        if start and tenant.runs.get(ref.run_id, session) is not session:
            raise RunExistsError(run_id=ref.run_id)
        ledger.judge(write, now)
        events = ledger.stamp(write, write.drafts, now)
        if start:
            shelves.tenants[ref.tenant_id] = tenant
            tenant.sessions[ref.session_id] = tenant.runs[ref.run_id] = session
            session.runs[ref.run_id] = []
        for event in events:
            ledger.apply(event)
        session.events += events
        session.runs[ref.run_id] += events
        return Page(events, now)

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        session = self._shelves.session(ref.tenant_id, ref.session_id)
        events = session.runs.get(ref.run_id, [])
        return Page(events[after:], session.ledger.now(self._shelves.clock()))

    async def session(self, tenant_id: str, session_id: str, *, after: int = 0) -> Page:
        session = self._shelves.session(tenant_id, session_id)
        return Page(session.events[after:], session.ledger.now(self._shelves.clock()))

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:  # noqa: ARG002
        return ()


class MemoryIndex:
    """Runs of every session."""

    def __init__(self, shelves: _Shelves) -> None:
        self._shelves = shelves

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        session = self._shelves.tenant(tenant_id).runs.get(run_id)
        entry = None if session is None else session.ledger.entry(run_id)
        if entry is None:
            return None
        return RunRef(tenant_id, entry.session_id, run_id, entry.root_id)

    async def runs(self, tenant_id: str, session_id: str | None = None) -> Sequence[RunEntry]:
        tenant = self._shelves.tenant(tenant_id)
        if session_id is not None:
            return list(self._shelves.session(tenant_id, session_id).ledger.roots())
        entries = [e for s in tenant.sessions.values() for e in s.ledger.roots()]
        return sorted(entries, key=lambda entry: entry.started_at)

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        instant = self._shelves.clock()
        found = [
            track.entry
            for session in self._shelves.tenant(tenant_id).sessions.values()
            for track in session.ledger.open.values()
            if track.entry.due(session.ledger.now(instant))
        ]
        return sorted(found, key=lambda entry: entry.started_at)


class MemoryLeases:
    """Leases, kept in the entries of the runs."""

    def __init__(self, shelves: _Shelves) -> None:
        self._shelves = shelves

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        ledger, now = self._at(ref)
        lease, entry = ledger.claim(ref, now + ttl, holder, steal=steal, now=now)
        ledger.tracks[entry.run_id].entry = entry
        return lease

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        ledger, now = self._at(lease.ref)
        until = now + ttl
        entry = ledger.renewed(lease, until)
        if entry is None:
            return lease
        ledger.tracks[entry.run_id].entry = entry
        return Lease(lease.ref, lease.epoch, until, now, lease.crashed)

    async def release(self, lease: Lease, *, position: int, waiting: bool) -> bool:
        ledger, _ = self._at(lease.ref)
        entry = ledger.released(lease, position, waiting=waiting)
        if entry is None:
            return False
        ledger.tracks[entry.run_id].entry = entry
        return True

    def _at(self, ref: RunRef) -> tuple[Ledger, datetime]:
        ledger = self._shelves.session(ref.tenant_id, ref.session_id).ledger
        return ledger, ledger.now(self._shelves.clock())


class MemoryBlobs:
    """Contents by tenant and digest."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        self._kept: dict[tuple[str, str], bytes] = {}

    def digest(self, tenant_id: str, data: bytes) -> str:
        return keyed_digest(self._key, tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        digest = self.digest(tenant_id, data)
        self._kept[tenant_id, digest] = data
        return digest

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        return self._kept.get((tenant_id, digest))


class MemoryStore:
    """Journal, index, leases and blobs of one process."""

    def __init__(self, clock: Clock) -> None:
        shelves = _Shelves(clock)
        self.journal = MemoryJournal(shelves)
        self.index = MemoryIndex(shelves)
        self.leases = MemoryLeases(shelves)
        self.blobs = MemoryBlobs()
