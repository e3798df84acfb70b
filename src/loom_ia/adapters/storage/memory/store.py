"""The memory backend: no operation of it suspends."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from loom_ia.adapters.files import KEY_BYTES, keyed_digest
from loom_ia.adapters.storage.ledger import BLOB_GRACE, Ledger, erased
from loom_ia.adapters.storage.memory.packed import Packed
from loom_ia.core.admission import admit
from loom_ia.core.budget import Counters
from loom_ia.core.errors import RunExistsError
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
from loom_ia.core.ports.listing import event_key, newest, oldest, run_key, session_key
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone, summed
from loom_ia.core.projections.spending import Spending, counted

Clock = Callable[[], datetime]


@dataclass(slots=True, eq=False)
class _Session:
    tenant_id: str
    session_id: str
    ledger: Ledger = field(default_factory=Ledger)
    groups: list[Packed] = field(default_factory=list[Packed])
    runs: dict[str, list[Packed]] = field(default_factory=dict[str, list[Packed]])
    snapshot: list[bytes] = field(default_factory=list[bytes])

    def named(self) -> Iterator[str]:
        """Blobs that its facts name."""
        for group in self.groups:
            for draft in group.group().drafts:
                yield from draft.payload.blobs


@dataclass(slots=True, eq=False)
class _Tenant:
    sessions: dict[str, _Session] = field(default_factory=dict[str, _Session])
    runs: dict[str, _Session] = field(default_factory=dict[str, _Session])
    """Session of each run."""
    tombs: dict[str, Tombstone] = field(default_factory=dict[str, Tombstone])
    left: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Blobs of erased sessions, too young to go with them."""
    spending: Spending = field(default_factory=Spending)

    def entries(self) -> Iterator[RunEntry]:
        """Root runs of every session."""
        for session in self.sessions.values():
            yield from session.ledger.roots()

    def named(self) -> Iterator[str]:
        """Blobs that a session names."""
        for session in self.sessions.values():
            yield from session.named()


class _Shelves:
    """All sessions of all tenants."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tenants: dict[str, _Tenant] = {}
        self.blobs: dict[tuple[str, str], tuple[bytes, datetime]] = {}
        """Contents, and when each was put last."""
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
        if (tomb := tenant.tombs.get(ref.session_id)) is not None:
            raise erased(tomb)
        start = write.fence.kind == "start"
        if start and tenant.runs.get(ref.run_id, session) is not session:
            raise RunExistsError(run_id=ref.run_id)
        ledger.judge(write, now)
        if write.guard is not None and write.guard.admission is not None:
            counters = tenant.spending.counters(ref.session_id, ref.run_id, now)
            starts = tenant.spending.starts
            admit(ref.tenant_id, write.guard.admission, counters, starts, now)
        group = ledger.group(write, write.drafts, now)
        if start:
            shelves.tenants[ref.tenant_id] = tenant
            tenant.sessions[ref.session_id] = tenant.runs[ref.run_id] = session
            session.runs[ref.run_id] = []
        ledger.take(group)
        for draft in group.drafts:
            counted(tenant.spending, ref, draft.payload, now)
        packed = Packed.of(group)
        session.groups.append(packed)
        session.runs[ref.run_id].append(packed)
        return Page(group, now)

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        session = self._shelves.session(ref.tenant_id, ref.session_id)
        events = _behind(session.runs.get(ref.run_id, []), _position, after)
        return Page(events, session.ledger.now(self._shelves.clock()))

    async def session(
        self, tenant_id: str, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Page:
        session = self._shelves.session(tenant_id, session_id)
        events = _behind(session.groups, _seq, after)
        return Page(events[:limit], session.ledger.now(self._shelves.clock()))

    async def query(self, tenant_id: str, which: EventFilter, paging: Paging) -> Listed[Event]:
        shelves = self._shelves
        sessions = shelves.tenant(tenant_id).sessions.values()
        events = (event for s in sessions for group in s.groups for event in group)
        found = [event for event in events if which.takes(event)]
        return oldest(found, event_key, paging, shelves.clock())

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:  # noqa: ARG002
        return ()  # nothing is ever damaged here

    async def delete(
        self, tenant_id: str, session_id: str, *, by: str, complete: bool = False
    ) -> Tombstone | None:
        shelves = self._shelves
        tenant, now = shelves.tenant(tenant_id), shelves.clock()
        session = tenant.sessions.get(session_id)
        if session is not None:
            now = session.ledger.now(now)
            session.ledger.refuse_held(session_id, now)
            tenant.tombs[session_id] = Tombstone(session_id=session_id, at=now, by=by)
            tenant.left[session_id] = set(session.named())
            tenant.spending.erase(session_id)
            del tenant.sessions[session_id]
            for run_id in session.runs:
                del tenant.runs[run_id]
        tomb = tenant.tombs.get(session_id)
        if tomb is None or not tomb.pending:
            return tomb
        left = self._dropped(tenant_id, tenant, tenant.left[session_id], now)
        tenant.left[session_id] = left
        tenant.tombs[session_id] = tomb = replace(tomb, pending=bool(left) or not complete)
        return tomb

    def _dropped(
        self, tenant_id: str, tenant: _Tenant, digests: set[str], now: datetime
    ) -> set[str]:
        """Drop the blobs that nobody names; those that are too young are left."""
        left: set[str] = set()
        blobs = self._shelves.blobs
        for digest in digests.difference(tenant.named()):
            _, at = blobs.get((tenant_id, digest), (b"", datetime.min.replace(tzinfo=UTC)))
            if now - at < BLOB_GRACE:
                left.add(digest)
            else:
                blobs.pop((tenant_id, digest), None)
        return left


def _behind(
    groups: Sequence[Packed], place: Callable[[Packed | Event], int], after: int
) -> list[Event]:
    """Events of what stands behind a place."""
    first = bisect_right(groups, after, key=lambda group: place(group) + len(group) - 1)
    events = [event for group in groups[first:] for event in group]
    return [event for event in events if place(event) > after]


def _position(of: Packed | Event) -> int:
    return of.position


def _seq(of: Packed | Event) -> int:
    return of.seq


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

    async def runs(
        self, tenant_id: str, which: RunFilter = ALL_RUNS, paging: Paging = FIRST
    ) -> Listed[RunEntry]:
        found = [e for e in self._shelves.tenant(tenant_id).entries() if which.takes(e)]
        return newest(found, run_key, paging, self._shelves.clock())

    async def sessions(
        self, tenant_id: str, session_id: str | None = None, paging: Paging = FIRST
    ) -> Listed[SessionEntry]:
        found = [
            entry
            for session in self._shelves.tenant(tenant_id).sessions.values()
            if session_id in {None, session.session_id}
            and (entry := summed(session.ledger.roots())) is not None
        ]
        return newest(found, session_key, paging, self._shelves.clock())

    async def erased(self, tenant_id: str, session_id: str | None = None) -> Sequence[Tombstone]:
        tombs = self._shelves.tenant(tenant_id).tombs.values()
        if session_id is None:
            return [tomb for tomb in tombs if tomb.pending]
        return [tomb for tomb in tombs if tomb.session_id == session_id]

    async def counters(self, tenant_id: str, session_id: str, run_id: str) -> Counters:
        shelves = self._shelves
        return shelves.tenant(tenant_id).spending.counters(session_id, run_id, shelves.clock())

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
        self._shelves.tenant(ref.tenant_id).spending.going(entry.run_id, going=True)
        return lease

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        ledger, now = self._at(lease.ref)
        until = now + ttl
        entry = ledger.renewed(lease, until)
        if entry is None:
            return lease
        ledger.tracks[entry.run_id].entry = entry
        return Lease(lease.ref, lease.epoch, until, now, lease.crashed)

    async def release(
        self, lease: Lease, *, position: int, waiting: bool, until: datetime | None = None
    ) -> bool:
        ledger, _ = self._at(lease.ref)
        entry = ledger.released(lease, position, waiting=waiting, until=until)
        if entry is None:
            return False
        ledger.tracks[entry.run_id].entry = entry
        if waiting:
            self._shelves.tenant(lease.ref.tenant_id).spending.going(entry.run_id, going=False)
        return True

    def _at(self, ref: RunRef) -> tuple[Ledger, datetime]:
        if (tomb := self._shelves.tenant(ref.tenant_id).tombs.get(ref.session_id)) is not None:
            raise erased(tomb)
        ledger = self._shelves.session(ref.tenant_id, ref.session_id).ledger
        return ledger, ledger.now(self._shelves.clock())


class MemoryBlobs:
    """Contents by tenant and digest."""

    def __init__(self, shelves: _Shelves) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        self._shelves = shelves

    def digest(self, tenant_id: str, data: bytes) -> str:
        return keyed_digest(self._key, tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        digest = self.digest(tenant_id, data)
        self._shelves.blobs[tenant_id, digest] = data, self._shelves.clock()
        return digest

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        data, _ = self._shelves.blobs.get((tenant_id, digest), (None, None))
        return data


class MemorySnapshots:
    """Snapshots of sessions, that go with them."""

    def __init__(self, shelves: _Shelves) -> None:
        self._shelves = shelves

    async def load(self, tenant_id: str, session_id: str) -> Sequence[bytes]:
        return list(self._shelves.session(tenant_id, session_id).snapshot)

    async def add(self, tenant_id: str, session_id: str, part: bytes, *, first: bool) -> None:
        session = self._shelves.tenant(tenant_id).sessions.get(session_id)
        if session is not None:
            session.snapshot = [part] if first else [*session.snapshot, part]


class MemoryStore:
    """Journal, index, leases, blobs and snapshots of one process."""

    def __init__(self, clock: Clock) -> None:
        shelves = _Shelves(clock)
        self.journal = MemoryJournal(shelves)
        self.index = MemoryIndex(shelves)
        self.leases = MemoryLeases(shelves)
        self.blobs = MemoryBlobs(shelves)
        self.snapshots = MemorySnapshots(shelves)
