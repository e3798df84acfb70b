"""What changes the database: many writes in one transaction, each judged on its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from loom_ia.adapters.io import BlockedError, Synced
from loom_ia.adapters.storage.ledger import Track, moving
from loom_ia.adapters.storage.process import Process
from loom_ia.adapters.storage.sqlite.database import Database, held, refused
from loom_ia.adapters.storage.sqlite.erasure import bury, cleared
from loom_ia.adapters.storage.sqlite.repair import repaired
from loom_ia.adapters.storage.sqlite.rows import SHIFT, changing, encoded, line_of, micros
from loom_ia.adapters.storage.sqlite.shelf import Run, Session, Shelf
from loom_ia.adapters.storage.sqlite.sql import ask, insert, queries
from loom_ia.core.errors import LoomError, RunExistsError
from loom_ia.core.events import Event
from loom_ia.core.ports import Append, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry, Tombstone


class _Group:
    """One transaction; its callers are answered once it is committed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.events: list[tuple[object, ...]] = []
        self.names: list[tuple[int, str]] = []
        self.changed: dict[int, tuple[Run, Track]] = {}
        self.taken = 0
        self.sync = False
        self.failure: Exception | None = None

    def flush(self) -> None:
        """Commit, and put it on the disk if one of the writes asks for it."""
        if self.failure is not None:
            raise self.failure
        self._writer.commit(self)

    def close(self) -> None:
        """Nothing is held."""


class Writer:
    """The only connection of this process that writes, used by one thread.

    What it knows of sessions is forgotten as soon as another process writes.
    """

    def __init__(
        self,
        database: Database,
        connection: sqlite3.Connection,
        here: Process,
        clock: Callable[[], datetime],
    ) -> None:
        self._database, self._connection = database, connection
        self._me, self._clock = encoded(here), clock
        self._shelf = Shelf(connection, here)
        self._version = 0
        self._group: _Group | None = None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._database.close()

    # --- transactions

    @contextmanager
    def _turn(self) -> Generator[_Group]:
        """One write within the present transaction; when it raises, it has changed nothing.

        Raises:
            sqlite3.Error: another process is writing, or the file cannot be used.

        """
        group = self._group or self._begun()
        try:
            yield group
        except LoomError:
            if not group.taken:
                self._roll_back()  # nobody will commit it
            raise
        except BaseException as error:
            self._drop(group, error)
            raise
        group.taken += 1

    def _begun(self) -> _Group:
        self._database.check()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            version: tuple[int] = ask(self._connection, "data_version").fetchone()
        except BaseException:
            self._roll_back()
            raise
        if version[0] != self._version:
            self._shelf.clear()
            self._version = version[0]
        self._shelf.trim()
        self._group = _Group(self)
        return self._group

    def _roll_back(self) -> None:
        self._group = None
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _drop(self, group: _Group, error: BaseException) -> Exception:
        """Undo a transaction and forget what was learnt from it; what its callers are told."""
        self._roll_back()
        self._shelf.clear()
        refusal = refused(self._database.path, error)
        group.failure = refusal.refusal if isinstance(refusal, BlockedError) else refusal
        return group.failure

    def _write(self, group: _Group) -> None:
        """Hand over what the writes of a transaction add: few statements for many of them."""
        write, statements = self._connection.executemany, queries()
        if group.changed:
            changes = [
                (*changing(track.entry), run.process, run.opened, run.number)
                for run, track in group.changed.values()
            ]
            write(statements["change_run"], changes)
            group.changed.clear()
        if group.events:
            insert(self._connection, "add_event", group.events)
            group.events.clear()
        if group.names:
            write(statements["add_name"], group.names)
            group.names.clear()

    def commit(self, group: _Group) -> None:
        """End a transaction.

        Raises:
            StoreUnavailableError: nothing of it was written, or it may not outlive the machine.

        """
        try:
            self._write(group)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._drop(group, error) from error
        self._group = None
        if group.sync:
            self._database.sync()

    def rebuild(self) -> None:
        """Leave no trace of what was erased in the file: its pages keep copies of rows that moved.

        Raises:
            sqlite3.Error, BlockedError: a transaction of this process or of another is open.

        """
        self._refuse_open()
        ask(self._connection, "rebuild")

    def empty_log(self) -> None:
        """Leave no trace of what was erased in the log.

        Raises:
            sqlite3.Error, BlockedError: a transaction of this process or of another is open.

        """
        self._refuse_open()
        busy: tuple[int, int, int] = ask(self._connection, "empty_log").fetchone()
        if busy[0]:
            raise held(self._database.path)

    def _refuse_open(self) -> None:
        if self._group is not None:
            raise held(self._database.path)

    # --- events

    def append(self, write: Append) -> Synced[Page]:
        """Judge and write (see `Journal.append`)."""
        with self._turn() as group:
            ref = write.ref
            session = self._shelf.living(ref)
            ledger = session.ledger
            now = ledger.now(self._clock())
            if write.guard is not None and write.guard.session_idle:
                self._shelf.refresh(session, now)
            new = write.fence.kind == "start" and ref.run_id not in ledger.tracks
            if new and self._shelf.taken(ref):
                raise RunExistsError(run_id=ref.run_id)
            ledger.judge(write, now)
            events = ledger.stamp(write, write.drafts, now)
            lines = [line_of(event) for event in events]
            if events:
                self._apply(group, session, events)
                self._keep(group, session, events, lines)
            group.sync = group.sync or write.sync
            return Synced(Page(events, now), group, group)

    def _apply(self, group: _Group, session: Session, events: Sequence[Event]) -> None:
        ledger = session.ledger
        for event in events:
            run_id = event.run_id
            closed = run_id not in ledger.open
            ledger.apply(event)
            self._name(group, session, event)
            if not moving(type(event.payload)):
                continue
            run = session.runs.get(run_id)
            if run is None:
                run = session.runs[run_id] = self._added(session, event)
            elif closed and run_id in ledger.open:
                run.opened = event.seq
            group.changed[run.number] = (run, ledger.tracks[run_id])

    def _name(self, group: _Group, session: Session, event: Event) -> None:
        """Note which contents an event names, so that a deletion keeps them."""
        for digest in event.payload.blobs:
            if digest not in session.named:
                session.named.add(digest)
                group.names.append((session.number, digest))

    def _added(self, session: Session, event: Event) -> Run:
        """The row of a run, and that of its session if it is the first one."""
        entry = session.ledger.tracks[event.run_id].entry
        started = micros(entry.started_at)
        if not session.number:
            session.number = self._insert(
                "add_session", session.tenant_id, session.session_id, started
            )
        ids = (entry.tenant_id, entry.run_id, session.number, entry.root_id)
        about = (entry.agent, entry.ordinal, started)
        values = (*ids, *about, *changing(entry), "", event.seq)
        return Run(self._insert("add_run", *values), event.seq, "")

    def _insert(self, name: str, *values: object) -> int:
        return self._connection.execute(queries()[name], values).lastrowid or 0

    def _keep(
        self, group: _Group, session: Session, events: Sequence[Event], lines: Sequence[bytes]
    ) -> None:
        base, at = session.number << SHIFT, micros(events[0].at)
        number = session.runs[events[0].run_id].number
        group.events += [
            (base + event.seq, number, event.position, at, line)
            for event, line in zip(events, lines, strict=True)
        ]

    def repair(self, tenant_id: str, session_id: str) -> Synced[Sequence[int]]:
        """Set damaged lines aside (see `Journal.repair`)."""
        with self._turn() as group:
            self._write(group)
            numbers = repaired(self._connection, self._database.path, (tenant_id, session_id))
            group.sync = group.sync or bool(numbers)
            return Synced(numbers, group, group)

    def delete(
        self, tenant_id: str, session_id: str, by: str
    ) -> Synced[tuple[Tombstone | None, bool]]:
        """Erase a session; its tombstone, and whether nothing is left (see `Journal.delete`)."""
        with self._turn() as group:
            session = self._shelf.session(tenant_id, session_id)
            now = session.ledger.now(self._clock())
            if session.number and session.tomb is None:
                self._shelf.refresh(session, now)
                session.ledger.refuse_held(session_id, now)
                self._write(group)
                bury(self._connection, session, now, by)
                session = self._again(session)
            self._write(group)
            empty = session.tomb is None or cleared(self._connection, session, now)
            group.sync = True
            return Synced((session.tomb, empty), group, group)

    def settle(self, tenant_id: str, session_id: str) -> Synced[Tombstone | None]:
        """Note that nothing is left of an erased session; its tombstone."""
        with self._turn() as group:
            ask(self._connection, "settle", tenant_id, session_id)
            session = self._again(self._shelf.session(tenant_id, session_id))
            group.sync = True
            return Synced(session.tomb, group, group)

    def _again(self, session: Session) -> Session:
        self._shelf.forget(session)
        return self._shelf.session(session.tenant_id, session.session_id)

    # --- leases

    def claim(self, ref: RunRef, ttl: timedelta, holder: str, *, steal: bool) -> Synced[Lease]:
        """Take a lease (see `Leases.claim`)."""
        with self._turn() as group:
            session, now = self._at(ref)
            self._shelf.refresh(session, now)
            ledger = session.ledger
            lease, entry = ledger.claim(ref, now + ttl, holder, steal=steal, now=now)
            self._hold(group, session, entry)
            return Synced(lease, group, group)

    def renew(self, lease: Lease, ttl: timedelta) -> Synced[Lease]:
        """Make a lease longer (see `Leases.renew`)."""
        with self._turn() as group:
            session, now = self._at(lease.ref)
            entry = session.ledger.renewed(lease, now + ttl)
            if entry is not None:
                self._hold(group, session, entry)
                lease = replace(lease, until=now + ttl, now=now)
            return Synced(lease, group, group)

    def release(self, lease: Lease, position: int, *, waiting: bool) -> Synced[bool]:
        """Give a lease back (see `Leases.release`)."""
        with self._turn() as group:
            session, _ = self._at(lease.ref)
            entry = session.ledger.released(lease, position, waiting=waiting)
            if entry is not None:
                self._hold(group, session, entry)
            return Synced(entry is not None, group, group)

    def _at(self, ref: RunRef) -> tuple[Session, datetime]:
        session = self._shelf.living(ref)
        return session, session.ledger.now(self._clock())

    def _hold(self, group: _Group, session: Session, entry: RunEntry) -> None:
        """Keep a lease, held by this process if it is by anyone."""
        run, track = session.runs[entry.run_id], session.ledger.tracks[entry.run_id]
        track.entry = entry
        run.process = "" if entry.lease_until is None else self._me
        group.changed[run.number] = (run, track)

    # --- contents

    def put(self, tenant_id: str, digest: str, data: bytes) -> Synced[str]:
        """Keep a content (see `Blobs.put`)."""
        with self._turn() as group:
            ask(self._connection, "put_blob", tenant_id, digest, micros(self._clock()), data)
            group.sync = True
            return Synced(digest, group, group)

    def add_part(
        self, tenant_id: str, session_id: str, part: bytes, *, first: bool
    ) -> Synced[None]:
        """Keep a part of a snapshot (see `Snapshots.add`)."""
        with self._turn() as group:
            session = self._shelf.session(tenant_id, session_id)
            if session.number and session.tomb is None:
                if first:
                    ask(self._connection, "erase_snapshot", session.number)
                ask(self._connection, "add_part", session.number, part)
            return Synced(None, group, group)
