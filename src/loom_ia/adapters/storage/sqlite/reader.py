"""What is read from the database, on a connection that no write waits for."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

from loom_ia.adapters.storage.ledger import BLOB_GRACE
from loom_ia.adapters.storage.process import Process
from loom_ia.adapters.storage.sqlite.database import Database
from loom_ia.adapters.storage.sqlite.rows import (
    AGES,
    SEQ,
    LineRow,
    Row,
    SessionRow,
    SummaryRow,
    entry_of,
    event_of,
    instant,
    living,
    micros,
    session_of,
    tombstone,
)
from loom_ia.adapters.storage.sqlite.spending import counters
from loom_ia.adapters.storage.sqlite.sql import ask
from loom_ia.core.budget import Counters
from loom_ia.core.errors import JournalDamagedError
from loom_ia.core.events import Event, UndecodableError
from loom_ia.core.ports import Listed, Page, Paging, RunFilter, RunRef
from loom_ia.core.ports.listing import newest, page, place, run_key, session_key
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone

logger = logging.getLogger("loom_ia.journal")


class Reader:
    """Used by one thread."""

    def __init__(self, database: Database, here: Process, clock: Callable[[], datetime]) -> None:
        self._database, self._here, self.clock = database, here, clock
        self._connection = database.connect()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, name: str, *values: object) -> sqlite3.Cursor:
        """Rows of a statement."""
        return ask(self._connection, name, *values)

    # --- events

    def read(self, ref: RunRef, after: int) -> Page:
        """Events of a run (see `Journal.read`)."""
        key = (ref.tenant_id, ref.session_id)
        rows: list[LineRow] = self.ask("run_lines", *key, ref.run_id, after).fetchall()
        events: list[Event] = []
        for row in rows:
            try:
                events.append(event_of(row, *key))
            except UndecodableError:
                raise self._damage(row, ref.session_id) from None
        return Page(events, self._now(*key))

    def session(self, tenant_id: str, session_id: str, after: int, limit: int | None) -> Page:
        """Events of a session (see `Journal.session`)."""
        most = -1 if limit is None else limit
        asked = self.ask("session_lines", after, tenant_id, session_id, most)
        rows: list[LineRow] = asked.fetchall()
        events: list[Event] = []
        for row in rows:
            try:
                events.append(event_of(row, tenant_id, session_id))
            except UndecodableError:
                logger.warning("%s", self._damage(row, session_id))
        return Page(events, self._now(tenant_id, session_id))

    def _now(self, tenant_id: str, session_id: str) -> datetime:
        """The store's instant; asked last, so that it follows every event that was read."""
        clock = self.clock()
        rows: list[SessionRow] = self.ask("find_session", tenant_id, session_id).fetchall()
        last = rows[0][2] if rows else None
        return clock if last is None else max(clock, instant(last))

    def _damage(self, row: LineRow, session_id: str) -> JournalDamagedError:
        path = str(self._database.path)
        return JournalDamagedError(path=path, line=row[0] & SEQ, session_id=session_id)

    # --- index

    def locate(self, tenant_id: str, run_id: str) -> RunRef | None:
        """Address of a run (see `RunIndex.locate`)."""
        rows: list[Row] = self.ask("find_run", tenant_id, run_id).fetchall()
        return RunRef(tenant_id, rows[0][4], run_id, rows[0][2]) if rows else None

    def runs(self, tenant_id: str, which: RunFilter, paging: Paging) -> Listed[RunEntry]:
        """Entries of root runs (see `RunIndex.runs`)."""
        start = place(paging.after)
        behind = (AGES, 0, "") if start is None else (micros(start[0]), *start[1:])
        if which.session_id is None:
            rows = self.ask("runs", tenant_id, *behind)
        else:
            rows = self.ask("runs_of_session", tenant_id, which.session_id, *behind)
        clock = self.clock()
        entries = (entry for entry, _ in map(self._entry, rows) if which.takes(entry))
        return page(entries, run_key, paging, clock)

    def due(self, tenant_id: str) -> Sequence[RunEntry]:
        """Root runs that have something to do (see `RunIndex.due`)."""
        rows: list[Row] = self.ask("due", tenant_id).fetchall()
        return [entry for entry, now in map(self._entry, rows) if entry.due(now)]

    def counters(self, ref: RunRef) -> Counters:
        """What a run must be held against (see `RunIndex.counters`)."""
        return counters(self._connection, ref, self.clock())

    def _entry(self, row: Row) -> tuple[RunEntry, datetime]:
        """Entry of a run, and the instant of its session."""
        now = max(self.clock(), instant(row[20]))
        return living(entry_of(row), row[17], self._here, now), now

    def sessions(
        self, tenant_id: str, session_id: str | None, paging: Paging
    ) -> Listed[SessionEntry]:
        """Entries of sessions (see `RunIndex.sessions`)."""
        start, clock = place(paging.after), self.clock()
        if session_id is None:
            behind = (AGES, "") if start is None else (micros(start[0]), start[2])
            asked = self.ask("sessions", tenant_id, *behind, paging.limit + 1)
        else:
            asked = self.ask("session", tenant_id, session_id)
        rows: list[SummaryRow] = asked.fetchall()
        return newest(map(session_of, rows), session_key, paging, clock)

    def erased(self, tenant_id: str, session_id: str | None) -> Sequence[Tombstone]:
        """Tombstones (see `RunIndex.erased`)."""
        if session_id is None:
            pending: list[tuple[str, int, str, int]] = self.ask("pending", tenant_id).fetchall()
            tombs = [tombstone(*row) for row in pending]
        else:
            rows: list[SessionRow] = self.ask("find_session", tenant_id, session_id).fetchall()
            tombs = [tombstone(session_id, *row[3:]) for row in rows]
        return [tomb for tomb in tombs if tomb is not None]

    # --- contents

    def blob(self, tenant_id: str, digest: str) -> bytes | None:
        """A content (see `Blobs.get`)."""
        rows: list[tuple[bytes]] = self.ask("blob", tenant_id, digest).fetchall()
        return rows[0][0] if rows else None

    def parts(self, tenant_id: str, session_id: str) -> Sequence[bytes]:
        """A snapshot (see `Snapshots.load`)."""
        rows: list[tuple[bytes]] = self.ask("parts", tenant_id, session_id).fetchall()
        return [part for (part,) in rows]

    def fresh(self, tenant_id: str, digest: str) -> bool:
        """True for a content that is kept, and that no deletion takes before a while."""
        rows: list[tuple[int]] = self.ask("blob_put_at", tenant_id, digest).fetchall()
        return bool(rows) and self.clock() - instant(rows[0][0]) <= BLOB_GRACE / 2
