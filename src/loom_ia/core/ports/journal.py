"""What the core asks of a store: an append-only journal, its run index, its leases and blobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from loom_ia.core.admission import Admission
from loom_ia.core.budget import Counters
from loom_ia.core.events import Event, Payload
from loom_ia.core.ports.listing import EventFilter, Listed, Paging, RunFilter
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone

ALL_RUNS = RunFilter()
FIRST = Paging()

FenceKind = Literal["start", "plan", "outcome", "decision", "report"]


@dataclass(frozen=True, slots=True)
class RunRef:
    """Address of a run. `root_id` equals `run_id` for a root."""

    tenant_id: str
    session_id: str
    run_id: str
    root_id: str


@dataclass(slots=True)
class Draft:
    """A fact and what its writer chose of the envelope; the store adds positions and instant."""

    id: str
    payload: Payload
    span_id: str = ""


@dataclass(slots=True)
class Fence:
    """How an append is judged, in the critical section of the store (see `core.fencing`).

    `start`: the run must not exist. `plan`: plans and intents, at the expected position and epoch,
    while the root neither ended nor has a cancel request (`stop=True` excepted). `outcome`: at the
    expected position and epoch, while the run has not ended. `decision`: at the expected position,
    whatever the epoch. `report`: always.
    """

    kind: FenceKind
    position: int = 0
    epoch: int = 0
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on more than the run, judged in the same critical section."""

    session_idle: bool = False
    """No root run of the session is queued or driven; paused and expired ones do not count."""
    before: datetime | None = None
    """The facts are stamped before this instant of the store."""
    admission: Admission | None = None
    """Of a `start`: the tenant has room for one more run."""


@dataclass(slots=True)
class Append:
    """One write: all its facts, or none."""

    ref: RunRef
    drafts: Sequence[Draft]
    fence: Fence
    guard: Guard | None = None
    sync: bool = False
    """True: on the disk when it returns; false: handed to the operating system."""


@dataclass(slots=True)
class Page:
    """Events in order of position, and the store's instant."""

    events: Sequence[Event]
    now: datetime


class Journal(Protocol):
    """Ordered events of sessions. Methods are finished, not cut, when their caller is cancelled."""

    @property
    def durable(self) -> bool:
        """True when what is acknowledged outlives the process."""
        ...

    async def append(self, write: Append) -> Page:
        """Write the facts and return their events (a store may put `journal.healed` before them).

        Raises:
            JournalMovedError: others wrote to the run first.
            EpochStaleError: another driver claimed it.
            RunStoppedError: it has ended, or is being cancelled.
            RunExistsError, SessionBusyError, RunQuotaError, TenantBudgetError: a `start`, or its
                guard, is refused.
            RequestExpiredError: the instant of the guard is past.
            SessionErasedError: the session was erased.
            StoreUnavailableError: nothing was written; or maybe it was, and the caller looks its
                ids up.

        """
        ...

    async def read(self, ref: RunRef, *, after: int = 0) -> Page:
        """Events of one run behind position `after`; empty for a run that does not exist.

        Raises:
            JournalDamagedError: a line of the run cannot be read.

        """
        ...

    async def session(
        self, tenant_id: str, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Page:
        """Events of every run of a session behind session position `after`; damaged lines are
        left out and logged.
        """
        ...

    async def query(self, tenant_id: str, which: EventFilter, paging: Paging) -> Listed[Event]:
        """Events of a tenant, oldest first; damaged lines are left out.

        Raises:
            InvalidCursorError: the cursor is not one of this list.

        """
        ...

    async def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        """Set damaged lines aside, each behind a placeholder that keeps its position; their
        numbers, from 1. Does nothing to a sound session.
        """
        ...

    async def delete(
        self, tenant_id: str, session_id: str, *, by: str, complete: bool = False
    ) -> Tombstone | None:
        """Erase a session behind a tombstone: events, index, leases, and the blobs that no other
        session of the tenant names; None for a session that never was.

        The same when asked again: what a crash left is erased, and the tombstone is still the
        first one. It is pending until `complete` says that what the store does not keep is erased
        too, and until no blob is left: those put within the last minute wait, somebody may be
        about to name them.

        Raises:
            SessionHeldError: a living driver holds one of its runs; nothing was done.

        """
        ...


class RunIndex(Protocol):
    """What is known of runs without opening their journals; same backend and critical section."""

    async def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        """Address of a run of this tenant."""
        ...

    async def runs(
        self, tenant_id: str, which: RunFilter = ALL_RUNS, paging: Paging = FIRST
    ) -> Listed[RunEntry]:
        """Entries of root runs, newest first.

        Raises:
            InvalidCursorError: the cursor is not one of this list.

        """
        ...

    async def sessions(
        self, tenant_id: str, session_id: str | None = None, paging: Paging = FIRST
    ) -> Listed[SessionEntry]:
        """Sessions that have a run, newest first, or one of them.

        Raises:
            InvalidCursorError: the cursor is not one of this list.

        """
        ...

    async def erased(self, tenant_id: str, session_id: str | None = None) -> Sequence[Tombstone]:
        """Tombstone of a session if it was erased; without one, those that are pending."""
        ...

    async def counters(self, tenant_id: str, session_id: str, run_id: str) -> Counters:
        """What a run must be held against; a call counts in the day, in UTC, of its stamp."""
        ...

    async def due(self, tenant_id: str) -> Sequence[RunEntry]:
        """Root runs that nobody drives and that have something to do, or whose driver died."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a run tree until `until`; the store allots the epoch."""

    ref: RunRef
    epoch: int
    until: datetime
    now: datetime
    crashed: bool
    """True when the previous lease had been neither released nor ended."""


class Leases(Protocol):
    """Who drives. Comfort, never safety: the fence is what refuses."""

    async def claim(
        self, ref: RunRef, *, ttl: timedelta, holder: str, steal: bool = False
    ) -> Lease:
        """Take the root's lease under a new epoch.

        A lease whose holder is a dead process of this machine is taken at once.

        Raises:
            RunHeldError: a living driver holds it (`steal` takes it all the same).
            SessionBusyError: another run of the session is driven, and this one is not to be
                cancelled.

        """
        ...

    async def renew(self, lease: Lease, *, ttl: timedelta) -> Lease:
        """Push the end of the lease.

        Raises:
            EpochStaleError: somebody else claimed the run.

        """
        ...

    async def release(
        self, lease: Lease, *, position: int, waiting: bool, until: datetime | None = None
    ) -> bool:
        """Give the lease back if the run is at `position`; False when it moved, nothing done.

        `waiting`: nothing can be done before a human decides, so the run is not due, or not
        before `until`.
        """
        ...


class Blobs(Protocol):
    """Contents named by a keyed digest, one copy for each tenant and content."""

    def digest(self, tenant_id: str, data: bytes) -> str:
        """Digest of a content, 32 hexadecimal characters, that only this store can compute."""
        ...

    async def put(self, tenant_id: str, data: bytes) -> str:
        """Keep a content, on the disk when it returns; its digest.

        It is put again, which is cheap, before each drive that names it: a deletion takes the
        contents that nobody named within a minute.
        """
        ...

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        """The content, or None."""
        ...


class Snapshots(Protocol):
    """What can be made again from the journal of a session, kept beside it; erased with it."""

    async def load(self, tenant_id: str, session_id: str) -> Sequence[bytes]:
        """The parts that were added, in order; some may be damaged or missing."""
        ...

    async def add(self, tenant_id: str, session_id: str, part: bytes, *, first: bool) -> None:
        """Put a part, without newlines, behind the others, or in their place when it is the first.

        Nothing is kept of a session that has no event.
        """
        ...


class Artifacts(Protocol):
    """Files of sessions, outside the journal, at `artifact://<tenant>/<session>/<digest>.<ext>`."""

    async def put(self, tenant_id: str, session_id: str, data: bytes, media_type: str) -> str:
        """Keep a file; its address."""
        ...

    async def get(self, uri: str) -> bytes | None:
        """The file, or None."""
        ...

    async def drop(self, tenant_id: str, session_id: str) -> None:
        """Erase the files of a session."""
        ...


class Store(Protocol):
    """One backend: everything that shares its critical section."""

    @property
    def journal(self) -> Journal: ...
    @property
    def index(self) -> RunIndex: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def blobs(self) -> Blobs: ...
    @property
    def snapshots(self) -> Snapshots: ...
