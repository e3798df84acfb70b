"""The sessions that a writer knows, each with the ledger that judges its writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from loom_ia.adapters.storage.ledger import Ledger, Track, erased
from loom_ia.adapters.storage.process import Process
from loom_ia.adapters.storage.sqlite.rows import (
    SEQ,
    Row,
    SessionRow,
    entry_of,
    instant,
    living,
    tombstone,
)
from loom_ia.adapters.storage.sqlite.sql import ask
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.index import Tombstone

SESSIONS = 4096
"""Sessions that a shelf remembers."""


@dataclass(slots=True, eq=False)
class Run:
    """What the row of a run says beside its entry."""

    number: int
    opened: int
    process: str


@dataclass(slots=True, eq=False)
class Session:
    """A session, with those of its runs that were looked at, and all that are open."""

    tenant_id: str
    session_id: str
    number: int = 0
    """0 for a session that was never written."""
    tomb: Tombstone | None = None
    ledger: Ledger = field(default_factory=Ledger)
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    named: set[str] = field(default_factory=set[str])
    """Contents that are known to be named."""


class Shelf:
    """Sessions read within a transaction, and kept as long as nobody else writes."""

    def __init__(self, connection: sqlite3.Connection, here: Process) -> None:
        self._connection, self._here = connection, here
        self._known: dict[tuple[str, str], Session] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def trim(self) -> None:
        """Forget everything, once that is much."""
        if len(self._known) > SESSIONS:
            self._known.clear()

    def session(self, tenant_id: str, session_id: str) -> Session:
        """A session, erased ones and those that do not exist included."""
        key = (tenant_id, session_id)
        session = self._known.get(key)
        if session is None:
            session = self._known[key] = self._loaded(*key)
        return session

    def forget(self, session: Session) -> None:
        """Read a session again when it is asked for."""
        self._known.pop((session.tenant_id, session.session_id), None)

    def living(self, ref: RunRef) -> Session:
        """The session of a run, with the run and its root if they exist.

        Raises:
            SessionErasedError: the session was erased.

        """
        session = self.session(ref.tenant_id, ref.session_id)
        if session.tomb is not None:
            raise erased(session.tomb)
        for run_id in (ref.run_id, ref.root_id):
            if session.number and run_id not in session.runs:
                for row in self._entries("find_run", ref.tenant_id, run_id):
                    if row[19] == session.number:
                        _take(session, row)
        return session

    def taken(self, ref: RunRef) -> bool:
        """True when a run of this tenant has this id, whatever its session."""
        return bool(self._entries("find_run", ref.tenant_id, ref.run_id))

    def refresh(self, session: Session, now: datetime) -> None:
        """End the leases of the session whose processes are no more."""
        for run_id, track in session.ledger.open.items():
            track.entry = living(track.entry, session.runs[run_id].process, self._here, now)

    def _loaded(self, tenant_id: str, session_id: str) -> Session:
        session = Session(tenant_id, session_id)
        asked = ask(self._connection, "find_session", tenant_id, session_id)
        found: list[SessionRow] = asked.fetchall()
        for number, place, at, *_ in found:
            session.number, session.tomb = number, tombstone(session_id, *found[0][3:])
            if place is not None and at is not None:
                session.ledger.seq, session.ledger.last = place & SEQ, instant(at)
            for row in self._entries("open_runs", tenant_id, number):
                _take(session, row)
        return session

    def _entries(self, name: str, *values: object) -> Sequence[Row]:
        return ask(self._connection, name, *values).fetchall()


def _take(session: Session, row: Row) -> None:
    entry, ledger = entry_of(row), session.ledger
    track = ledger.tracks[entry.run_id] = Track(entry)
    session.runs[entry.run_id] = Run(row[0], row[18], row[17])
    if entry.run_id == entry.root_id and entry.ended is None:
        ledger.open[entry.run_id] = track
