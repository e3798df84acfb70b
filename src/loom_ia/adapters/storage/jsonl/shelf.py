"""The sessions of a store: every operation on them, one at a time, each under its file lock."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from loom_ia.adapters.files import make_folder, replace_file, write_all
from loom_ia.adapters.io import HASTE, BlockedError, Synced, UnhurriedError
from loom_ia.adapters.storage.jsonl.graves import erase_file, tombstone
from loom_ia.adapters.storage.jsonl.leases import LeaseFiles
from loom_ia.adapters.storage.jsonl.log import Log, logger
from loom_ia.adapters.storage.jsonl.logs import Logs
from loom_ia.adapters.storage.jsonl.repair import repaired
from loom_ia.adapters.storage.jsonl.sync import LogSync
from loom_ia.adapters.storage.jsonl.tenants import Tenant, Tenants
from loom_ia.adapters.storage.ledger import erased
from loom_ia.adapters.system import SystemIds
from loom_ia.core.errors import LoomError, RunNotFoundError
from loom_ia.core.events import Event, RunResumed, TailHealed, UndecodableError, decode, status_of
from loom_ia.core.ports import Append, Draft, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry, indexed
from loom_ia.core.projections.spending import paid, standing

T = TypeVar("T")

new_id = SystemIds().new


class Shelf:
    """Logs of sessions, used by one thread."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._logs = Logs(tenants)
        self._session = self._logs.session
        self._haste = False

    def hurried(self, job: Callable[[], T]) -> T:
        """Result of a job that is to be brief: no sync, little read, little written.

        Raises:
            UnhurriedError: it would not be; nothing was changed.

        """
        self._haste = self._logs.haste = True
        try:
            return job()
        finally:
            self._haste = self._logs.haste = False

    def close(self) -> None:
        """Close every file."""
        self._logs.close()

    def append(self, write: Append) -> Page | Synced[Page]:
        """Judge and write (see `Journal.append`)."""
        tenant = self._tenants.get(write.ref.tenant_id)
        if self._haste and _indexed(write):
            with tenant.index.hurried():
                return self._append(tenant, write)
        return self._append(tenant, write)

    def _append(self, tenant: Tenant, write: Append) -> Page | Synced[Page]:
        ref, kind = write.ref, write.fence.kind
        create = kind == "start"
        with self._session(ref.tenant_id, ref.session_id, create=create, change=True) as log:
            if log is None:
                raise self._missing(ref)
            log.heal()
            ledger = log.ledger
            if self._haste and not create and ref.root_id not in ledger.open:
                raise UnhurriedError
            now = ledger.now(self._tenants.clock())
            self._refresh_leases(tenant.leases, log, write, now)
            ledger.judge(write, now)
            self._count(tenant, write, now)
            events = self._stamped(log, write, now)
            lines = [event.encode() for event in events]
            if self._haste and sum(map(len, lines)) > HASTE:
                raise UnhurriedError
            if kind == "start":
                tenant.index.announce(indexed(None, events[0]))
                log.announced += 1
            else:
                self._reopen(tenant, log, ref, events)
            log.write(events, lines)
            self._close_ended(tenant, log, ref, written=events[-1].epoch if events else 0)
            page = Page(events, now)
            if not write.sync:
                return page
            return Synced(page, log, LogSync(log, tenant.index))

    def _count(self, tenant: Tenant, write: Append, now: datetime) -> None:
        """Judge what a tenant may spend, and count what the facts say, before they are written."""
        facts = [draft.payload for draft in write.drafts]
        admission = None if write.guard is None else write.guard.admission
        if admission is None and not any(paid(fact) or standing(fact) for fact in facts):
            return
        with tenant.spending.hold(haste=self._haste):
            if admission is not None:
                tenant.spending.admit(write.ref, admission, now)
            tenant.spending.record(write.ref, facts, now)

    def _missing(self, ref: RunRef) -> LoomError:
        """What is raised to who writes in a session that has no file."""
        grave = self._tenants.get(ref.tenant_id).graves.find(ref.session_id)
        if grave is None:
            return RunNotFoundError(run_id=ref.run_id)
        return erased(tombstone(grave, pending=False))

    def _refresh_leases(self, leases: LeaseFiles, log: Log, write: Append, now: datetime) -> None:
        tracks, ref = log.ledger.tracks, write.ref
        track = tracks.get(ref.run_id)
        root_id = ref.root_id if track is None else track.entry.root_id
        root = tracks.get(root_id)
        if root is not None and write.fence.kind in {"plan", "outcome"}:
            leases.refresh(root, now, living=False)
        if write.guard is not None and write.guard.session_idle:
            self._refresh_others(leases, log, root_id, now)

    def _refresh_others(self, leases: LeaseFiles, log: Log, root_id: str, now: datetime) -> None:
        for run_id, track in log.ledger.open.items():
            if run_id != root_id:
                leases.refresh(track, now, living=True)

    def _stamped(self, log: Log, write: Append, now: datetime) -> list[Event]:
        drafts = list(write.drafts)
        if not log.removed:
            return log.ledger.stamp(write, drafts, now)
        place = 1 if write.fence.kind == "start" else 0
        drafts.insert(place, Draft(new_id(), TailHealed(removed=log.removed)))
        events = log.ledger.stamp(write, drafts, now)
        events[place] = events[place].model_copy(update={"epoch": 0, "skippable": True})
        return events

    def _reopen(self, tenant: Tenant, log: Log, ref: RunRef, events: Sequence[Event]) -> None:
        """Before anything is written behind the end of a run, or ends it in the same write."""
        root = log.ledger.tracks[ref.run_id]
        if root.entry.root_id != ref.run_id:
            return
        resumed = any(isinstance(event.payload, RunResumed) for event in events)
        if root.entry.ended is None and not (resumed and any(status_of(e.payload) for e in events)):
            return
        if resumed:
            tenant.leases.end(root, written=0)
        tenant.index.announce(root.entry)
        root.listed = True

    def _close_ended(self, tenant: Tenant, log: Log, ref: RunRef, *, written: int) -> None:
        """Once a run has ended; what is not done here is done by whoever finds it open."""
        root = log.ledger.tracks.get(ref.root_id)
        if root is None or root.entry.ended is None or not root.listed:
            return
        root.listed = False
        try:
            tenant.leases.end(root, written=written)
            tenant.index.close(root.entry)
        except (OSError, BlockedError) as error:  # the events are written: nothing is done again
            why = error.refusal if isinstance(error, BlockedError) else error
            logger.warning("run %s ended; its index is late: %s", ref.root_id, why)

    def read(self, ref: RunRef, after: int) -> Page:
        """Events of a run (see `Journal.read`)."""
        with self._session(ref.tenant_id, ref.session_id) as log:
            if log is None:
                return Page((), self._tenants.clock())
            if self._haste and log.unread(ref.run_id, after) > HASTE:
                raise UnhurriedError
            now = log.ledger.now(self._tenants.clock())
            return Page(log.read(ref.run_id, after), now)

    def session(self, tenant_id: str, session_id: str, after: int, limit: int | None) -> Page:
        """Events of a session (see `Journal.session`)."""
        events: list[Event] = []
        with self._session(tenant_id, session_id) as log:
            if log is None:
                return Page((), self._tenants.clock())
            first, step = bisect_right(log.seqs, after), limit or len(log.seqs)
            while first < len(log.seqs) and (limit is None or len(events) < limit):
                lines = range(first, min(first + step, len(log.seqs)))
                for index, line in log.lines(lines):
                    try:
                        events.append(decode(line))
                    except UndecodableError:
                        if line:
                            logger.warning("%s", log.damage(index))
                first += step
            return Page(events[:limit], log.ledger.now(self._tenants.clock()))

    def repair(self, tenant_id: str, session_id: str) -> Sequence[int]:
        """Set damaged lines aside (see `Journal.repair`)."""
        with self._session(tenant_id, session_id) as log:
            if log is None:
                return ()
            lines = repaired(log, tenant_id, new_id)
        if lines:
            self._logs.forget((tenant_id, session_id))
            self._tenants.get(tenant_id).snapshot(session_id).unlink(missing_ok=True)
        return lines

    def claim(self, ref: RunRef, ttl: timedelta, holder: str, *, steal: bool) -> Lease:
        """Take a lease (see `Leases.claim`)."""
        leases = self._tenants.get(ref.tenant_id).leases
        if self._haste and not leases.ready:
            raise UnhurriedError
        with self._leased(ref) as (log, now):
            root = log.ledger.root(ref)
            leases.refresh(root, now, living=True)
            self._refresh_others(leases, log, root.entry.run_id, now)
            lease, entry = log.ledger.claim(ref, now + ttl, holder, steal=steal, now=now)
            if lease.epoch > 1:
                self._rest(lease.ref, going=True)
            leases.store(root, entry)
            return lease

    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        """Make a lease longer (see `Leases.renew`)."""
        leases = self._tenants.get(lease.ref.tenant_id).leases
        with self._leased(lease.ref) as (log, now):
            root = log.ledger.root(lease.ref)
            leases.refresh(root, now, living=False)
            entry = log.ledger.renewed(lease, now + ttl)
            if entry is None:
                return lease
            leases.store(root, entry)
            return replace(lease, until=now + ttl, now=now)

    def release(
        self, lease: Lease, position: int, *, waiting: bool, until: datetime | None
    ) -> bool:
        """Give a lease back (see `Leases.release`)."""
        leases = self._tenants.get(lease.ref.tenant_id).leases
        with self._leased(lease.ref) as (log, now):
            root = log.ledger.root(lease.ref)
            leases.refresh(root, now, living=False)
            entry = log.ledger.released(lease, position, waiting=waiting, until=until)
            if entry is None:
                return False
            if entry.ended is None:
                if waiting:
                    self._rest(lease.ref, going=False)
                leases.store(root, entry)
            return True

    def _rest(self, ref: RunRef, *, going: bool) -> None:
        """A run that reserved something waits, or goes on."""
        spending = self._tenants.get(ref.tenant_id).spending
        with spending.hold(haste=self._haste):
            spending.rest(ref, going=going)

    @contextmanager
    def _leased(self, ref: RunRef) -> Generator[tuple[Log, datetime]]:
        with self._session(ref.tenant_id, ref.session_id, change=True) as log:
            if log is None:
                raise self._missing(ref)
            yield log, log.ledger.now(self._tenants.clock())

    def entries(self, tenant_id: str, session_id: str, *, due: bool) -> list[RunEntry]:
        """Root runs of a session, or those that have something to do.

        Raises:
            JournalDamagedError: nothing of it can be read, and all its runs are asked for.

        """
        tenant = self._tenants.get(tenant_id)
        with self._session(tenant_id, session_id) as log:
            if log is None:
                return []
            now = log.ledger.now(self._tenants.clock())
            for track in log.ledger.open.values():
                tenant.leases.refresh(track, now, living=True)
            for track in log.ledger.tracks.values():
                if track.listed and track.ended is not None:
                    ref = RunRef(tenant_id, session_id, track.root_id, track.root_id)
                    self._close_ended(tenant, log, ref, written=0)
            if not due:
                if log.damages and not log.ledger.tracks:
                    raise log.damage(log.damages[0].line)
                return list(log.ledger.roots())
            return [t.entry for t in log.ledger.open.values() if t.entry.due(now)]

    def keep(self, tenant_id: str, session_id: str, part: bytes, *, first: bool) -> None:
        """Add to the snapshot of a session, if it is there (see `Snapshots.add`)."""
        tenant = self._tenants.get(tenant_id)
        path = tenant.snapshot(session_id)
        with self._session(tenant_id, session_id) as log:
            if log is None:
                return
            if first or not path.exists():
                make_folder(path.parent, top=self._tenants.data)
                replace_file(path, part + b"\n", sync=False)
                return
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                write_all(fd, part + b"\n")
            finally:
                os.close(fd)

    def bury(self, tenant_id: str, session_id: str, by: str) -> None:
        """Erase the file of a session and its runs from the index (see `Journal.delete`)."""
        tenant = self._tenants.get(tenant_id)
        with self._session(tenant_id, session_id) as log:
            if log is None:
                return
            now = log.ledger.now(self._tenants.clock())
            for track in log.ledger.open.values():
                tenant.leases.refresh(track, now, living=True)
            log.ledger.refuse_held(session_id, now)
            tenant.graves.dig(log, now, by)
            with tenant.spending.hold(haste=False):
                tenant.spending.erase(session_id)
            tenant.index.erase(session_id)
            erase_file(log)
        self._logs.forget((tenant_id, session_id))

    def confirm(self, ref: RunRef) -> RunRef | None:
        """The address that the index gives, if the run was written."""
        with self._session(ref.tenant_id, ref.session_id) as log:
            entry = None if log is None else log.ledger.entry(ref.run_id)
            return None if entry is None else replace(ref, root_id=entry.root_id)


def _indexed(write: Append) -> bool:
    """True for a write that the index is told of."""
    if write.fence.kind == "start":
        return True
    facts = [draft.payload for draft in write.drafts]
    return any(status_of(fact) or isinstance(fact, RunResumed) for fact in facts)
