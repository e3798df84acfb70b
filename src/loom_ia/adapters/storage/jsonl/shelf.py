"""The sessions of a store: every operation on them, one at a time, each under its file lock."""

from __future__ import annotations

import os
import resource
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from loom_ia.adapters.files import make_folder, replace_file, reported, write_all
from loom_ia.adapters.io import BlockedError, Synced
from loom_ia.adapters.storage.jsonl.graves import erase_file, tombstone
from loom_ia.adapters.storage.jsonl.leases import LeaseFiles
from loom_ia.adapters.storage.jsonl.log import Log, MovedError, logger
from loom_ia.adapters.storage.jsonl.repair import repaired
from loom_ia.adapters.storage.jsonl.tenants import Tenant, Tenants
from loom_ia.adapters.storage.ledger import erased
from loom_ia.adapters.system import SystemIds
from loom_ia.core.errors import LoomError, RunNotFoundError, StoreUnavailableError
from loom_ia.core.events import Event, RunResumed, TailHealed, UndecodableError, decode, status_of
from loom_ia.core.ports import Append, Draft, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry, indexed
from loom_ia.core.text import Text

LOGS = 4096
"""Sessions that a shelf remembers; those with a closed file and no run going on go first."""


def files_allowed() -> int:
    """Files that a store may keep open: a quarter of what this process may, within reason."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1024 if soft == resource.RLIM_INFINITY else max(16, min(soft // 4, 1024))


new_id = SystemIds().new


class Shelf:
    """Logs of sessions, used by one thread."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._files = files_allowed()
        self._logs: OrderedDict[tuple[str, str], Log] = OrderedDict()
        self._open: OrderedDict[tuple[str, str], Log] = OrderedDict()

    def close(self) -> None:
        """Close every file."""
        for log in self._open.values():
            log.close()
        self._open.clear()
        self._logs.clear()

    @contextmanager
    def _session(
        self, tenant_id: str, session_id: str, *, create: bool = False, change: bool = False
    ) -> Generator[Log | None]:
        """A session under its lock, None when there is none.

        Raises:
            StoreUnavailableError: it cannot be opened.
            SessionErasedError: it is to `change` and was erased.

        """
        key = (tenant_id, session_id)
        log = self._logs.get(key) or self._unread(tenant_id, session_id)
        path = log.path
        with reported(path):
            log = self._found(key, log, create=create)
            while log is not None:
                try:
                    with log.locked():
                        yield log
                        return
                except MovedError:
                    log.close()
                    log = self._found(key, log, create=False)
                except FileNotFoundError:
                    if path.exists():
                        raise
                    self._forget(key)
                    log = None
                    if change:
                        raise self._erased(tenant_id, session_id, path) from None
        yield None

    def _erased(self, tenant_id: str, session_id: str, path: Path) -> StoreUnavailableError:
        """What is raised for a session whose file is gone."""
        grave = self._tenants.get(tenant_id).graves.find(session_id)
        if grave is not None:
            return erased(tombstone(grave, pending=False))
        reason = Text("the session was erased; choose another id")
        return StoreUnavailableError(path=str(path), reason=reason)

    def _unread(self, tenant_id: str, session_id: str) -> Log:
        return Log(self._tenants.get(tenant_id).path(session_id), session_id)

    def _found(self, key: tuple[str, str], log: Log, *, create: bool) -> Log | None:
        """The log with its file open, None when there is no file and none is to be made."""
        if log.fd >= 0:
            self._open.move_to_end(key)
            return log
        try:
            log.open(create=False)
        except FileNotFoundError:
            self._forget(key)
            if not create:
                return None
            self._create(log, *key)
        self._keep(key, log)
        return log

    def _create(self, log: Log, tenant_id: str, session_id: str) -> None:
        tenant = self._tenants.get(tenant_id)
        make_folder(tenant.folder, top=self._tenants.data)
        known = tenant.index.names(session_id) or tenant.graves.find(session_id) is not None
        try:
            log.open(create=not known)
        except FileNotFoundError:
            raise self._erased(tenant_id, session_id, log.path) from None

    def _keep(self, key: tuple[str, str], log: Log) -> None:
        self._logs[key] = self._open[key] = log
        self._logs.move_to_end(key)
        if len(self._open) > self._files:
            idle, old = self._open.popitem(last=False)
            old.close()
            if not old.ledger.open:
                self._logs.pop(idle, None)
        if len(self._logs) > LOGS:
            gone, old = self._logs.popitem(last=False)
            self._open.pop(gone, None)
            old.close()

    def _forget(self, key: tuple[str, str]) -> None:
        self._open.pop(key, None)
        log = self._logs.pop(key, None)
        if log is not None:
            log.close()

    def append(self, write: Append) -> Page | Synced[Page]:
        """Judge and write (see `Journal.append`)."""
        ref, kind = write.ref, write.fence.kind
        tenant = self._tenants.get(ref.tenant_id)
        create = kind == "start"
        with self._session(ref.tenant_id, ref.session_id, create=create, change=True) as log:
            if log is None:
                raise self._missing(ref)
            log.heal()
            ledger = log.ledger
            now = ledger.now(self._tenants.clock())
            self._refresh_leases(tenant.leases, log, write, now)
            ledger.judge(write, now)
            events = self._stamped(log, write, now)
            if kind == "start":
                tenant.index.announce(indexed(None, events[0]))
                log.announced += 1
            else:
                self._reopen(tenant, log, ref, events)
            log.write(events)
            self._close_ended(tenant, log, ref, written=events[-1].epoch if events else 0)
            page = Page(events, now)
            if not write.sync:
                return page
            return Synced(page, log, log.sync(tenant.index))

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
            self._forget((tenant_id, session_id))
            self._tenants.get(tenant_id).snapshot(session_id).unlink(missing_ok=True)
        return lines

    def claim(self, ref: RunRef, ttl: timedelta, holder: str, *, steal: bool) -> Lease:
        """Take a lease (see `Leases.claim`)."""
        leases = self._tenants.get(ref.tenant_id).leases
        with self._leased(ref) as (log, now):
            root = log.ledger.root(ref)
            leases.refresh(root, now, living=True)
            self._refresh_others(leases, log, root.entry.run_id, now)
            lease, entry = log.ledger.claim(ref, now + ttl, holder, steal=steal, now=now)
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

    def release(self, lease: Lease, position: int, *, waiting: bool) -> bool:
        """Give a lease back (see `Leases.release`)."""
        leases = self._tenants.get(lease.ref.tenant_id).leases
        with self._leased(lease.ref) as (log, now):
            root = log.ledger.root(lease.ref)
            leases.refresh(root, now, living=False)
            entry = log.ledger.released(lease, position, waiting=waiting)
            if entry is None:
                return False
            if entry.ended is None:
                leases.store(root, entry)
            return True

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
            tenant.index.erase(session_id)
            erase_file(log)
        self._forget((tenant_id, session_id))

    def confirm(self, ref: RunRef) -> RunRef | None:
        """The address that the index gives, if the run was written."""
        with self._session(ref.tenant_id, ref.session_id) as log:
            entry = None if log is None else log.ledger.entry(ref.run_id)
            return None if entry is None else replace(ref, root_id=entry.root_id)
