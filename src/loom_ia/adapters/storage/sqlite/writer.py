"""What changes the database: many writes in one transaction, each judged on its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from loom_ia.adapters.io import HASTE, BlockedError, Synced, UnhurriedError, Written
from loom_ia.adapters.storage.ledger import Track, moving
from loom_ia.adapters.storage.process import Process
from loom_ia.adapters.storage.sqlite.database import Database, LogSync, held, refused
from loom_ia.adapters.storage.sqlite.erasure import bury, cleared
from loom_ia.adapters.storage.sqlite.repair import repaired
from loom_ia.adapters.storage.sqlite.rows import SHIFT, changing, encoded, line_of, micros
from loom_ia.adapters.storage.sqlite.shelf import Run, Session, Shelf
from loom_ia.adapters.storage.sqlite.spending import admitted, note, spend, sums
from loom_ia.adapters.storage.sqlite.sql import ask, insert, queries
from loom_ia.core.errors import LoomError, RunExistsError
from loom_ia.core.events import Event
from loom_ia.core.ports import Append, Lease, Page, RunRef
from loom_ia.core.projections.index import RunEntry, Tombstone

T = TypeVar("T")

CHECKPOINT = 1000
"""Pages written to the log, by a rough count, after which it is copied to the database."""


class _Group:
    """One transaction; its callers are answered once it is committed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.events: list[tuple[object, ...]] = []
        self.names: list[tuple[int, str]] = []
        self.changed: dict[int, tuple[Run, Track]] = {}
        self.spent = sums()
        self.taken = self.size = 0
        self.failure: Exception | None = None

    def commit(self) -> None:
        """Hand all of it to the system, or nothing."""
        if self.failure is not None:
            raise self.failure
        self._writer.commit(self)

    def kept(self, value: T) -> Written[T]:
        """A result that counts once it is committed."""
        return Written(value, self)

    def synced(self, value: T) -> Written[T]:
        """A result that counts once it is on the disk."""
        return Written(Synced(value, "log", LogSync(self._writer.database)), self)


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
        self.database, self._connection = database, connection
        self._me, self._clock = encoded(here), clock
        self._shelf = Shelf(connection, here)
        self._version = 0
        self._group: _Group | None = None
        self._pages = 0
        self._haste = False

    def hurried(self, job: Callable[[], T]) -> T:
        """Result of a job that is to be brief: little written, and no checkpoint, which syncs.

        Raises:
            UnhurriedError: it would not be; nothing was changed.

        """
        if self._pages > CHECKPOINT:
            raise UnhurriedError
        self._haste = True
        try:
            return job()
        finally:
            self._haste = False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self.database.close()

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
        except (LoomError, UnhurriedError):
            if not group.taken:
                self._roll_back()  # nobody will commit it
            raise
        except BaseException as error:
            self._drop(group, error)
            raise
        group.taken += 1

    def _begun(self) -> _Group:
        self.database.check()
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
        refusal = refused(self.database.path, error)
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
        if group.spent:
            spend(self._connection, group.spent)

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
        self._pages += 4 + group.size // 1024
        if self._pages > CHECKPOINT and not self._haste:
            self._pages = 0
            with suppress(sqlite3.Error):  # another process is at it, or reads: the next one will
                ask(self._connection, "checkpoint").fetchall()

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
            raise held(self.database.path)

    def _refuse_open(self) -> None:
        if self._group is not None:
            raise held(self.database.path)

    # --- events

    def append(self, write: Append) -> Written[Page]:
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
            if write.guard is not None and write.guard.admission is not None:
                self._write(group)
                admitted(self._connection, ref, write.guard.admission, now)
            events = ledger.stamp(write, write.drafts, now)
            lines = [line_of(event) for event in events]
            size = sum(map(len, lines))
            if self._haste and size > HASTE:
                raise UnhurriedError
            group.size += size
            if events:
                self._apply(group, session, events)
                self._keep(group, session, events, lines)
                note(group.spent, ref, events)
            page = Page(events, now)
            return group.synced(page) if write.sync else group.kept(page)

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

    def repair(self, tenant_id: str, session_id: str) -> Written[Sequence[int]]:
        """Set damaged lines aside (see `Journal.repair`)."""
        with self._turn() as group:
            self._write(group)
            numbers = repaired(self._connection, self.database.path, (tenant_id, session_id))
            return group.synced(numbers) if numbers else group.kept(numbers)

    def delete(
        self, tenant_id: str, session_id: str, by: str
    ) -> Written[tuple[Tombstone | None, bool]]:
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
            return group.synced((session.tomb, empty))

    def settle(self, tenant_id: str, session_id: str) -> Written[Tombstone | None]:
        """Note that nothing is left of an erased session; its tombstone."""
        with self._turn() as group:
            ask(self._connection, "settle", tenant_id, session_id)
            session = self._again(self._shelf.session(tenant_id, session_id))
            return group.synced(session.tomb)

    def _again(self, session: Session) -> Session:
        self._shelf.forget(session)
        return self._shelf.session(session.tenant_id, session.session_id)

    # --- leases

    def claim(self, ref: RunRef, ttl: timedelta, holder: str, *, steal: bool) -> Written[Lease]:
        """Take a lease (see `Leases.claim`)."""
        with self._turn() as group:
            session, now = self._at(ref)
            self._shelf.refresh(session, now)
            ledger = session.ledger
            lease, entry = ledger.claim(ref, now + ttl, holder, steal=steal, now=now)
            self._hold(group, session, entry)
            return group.kept(lease)

    def renew(self, lease: Lease, ttl: timedelta) -> Written[Lease]:
        """Make a lease longer (see `Leases.renew`)."""
        with self._turn() as group:
            session, now = self._at(lease.ref)
            entry = session.ledger.renewed(lease, now + ttl)
            if entry is not None:
                self._hold(group, session, entry)
                lease = replace(lease, until=now + ttl, now=now)
            return group.kept(lease)

    def release(
        self, lease: Lease, position: int, *, waiting: bool, until: datetime | None
    ) -> Written[bool]:
        """Give a lease back (see `Leases.release`)."""
        with self._turn() as group:
            session, _ = self._at(lease.ref)
            entry = session.ledger.released(lease, position, waiting=waiting, until=until)
            if entry is not None:
                self._hold(group, session, entry)
            return group.kept(entry is not None)

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

    def put(self, tenant_id: str, digest: str, data: bytes) -> Written[str]:
        """Keep a content (see `Blobs.put`)."""
        with self._turn() as group:
            group.size += len(data)
            ask(self._connection, "put_blob", tenant_id, digest, micros(self._clock()), data)
            return group.synced(digest)

    def add_part(
        self, tenant_id: str, session_id: str, part: bytes, *, first: bool
    ) -> Written[None]:
        """Keep a part of a snapshot (see `Snapshots.add`)."""
        with self._turn() as group:
            session = self._shelf.session(tenant_id, session_id)
            if session.number and session.tomb is None:
                if first:
                    ask(self._connection, "erase_snapshot", session.number)
                ask(self._connection, "add_part", session.number, part)
            return group.kept(None)
