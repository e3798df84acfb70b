"""Rows of the database as entries of the run index, and back."""

from __future__ import annotations

import json
from dataclasses import astuple
from datetime import UTC, datetime, timedelta

from pydantic_core import to_json

from loom_ia.adapters.storage.process import Process, gone
from loom_ia.core.events import Event, decode
from loom_ia.core.projections.index import RunEntry, SessionEntry, Tombstone
from loom_ia.core.state import Status

_START = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
SHIFT = 32
"""Bits of the sequence number in the place of an event."""
SEQ = (1 << SHIFT) - 1
"""What of a place is the sequence number."""
_COLUMNS = {"seq", "tenant_id", "session_id", "run_id", "position", "at"}
AGES = 1 << 62
"""Later than any instant."""

Row = tuple[
    *tuple[int, str, str, str, str, str, int, int, int, int, int],
    *tuple[Status | None, int, int, int | None, int | None, str, str, int, int, int],
]
"""A row of the view `entries`."""
LineRow = tuple[int, int, int, str, bytes]
"""Place, position, instant and run of an event, and its line."""
SessionRow = tuple[int, int | None, int | None, int | None, str, int]
"""Number, place and instant of the last event, then what `tombstone` takes."""
SummaryRow = tuple[int, str, str, int, int, int, int]
"""A row of the view `summaries`."""


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _START) // _TICK


def instant(at: int) -> datetime:
    """The instant that `micros` gave."""
    return _START + timedelta(microseconds=at)


def line_of(event: Event) -> bytes:
    """JSON of what the other columns of an event do not say."""
    return event.__pydantic_serializer__.to_json(event, exclude=_COLUMNS)


def event_of(row: LineRow, tenant_id: str, session_id: str) -> Event:
    """Event of a row.

    Raises:
        UndecodableError: the line is damaged.

    """
    place, position, at, run_id, line = row
    known = {
        "seq": place & SEQ,
        "tenant_id": tenant_id,
        "session_id": session_id,
        "run_id": run_id,
        "position": position,
        "at": instant(at),
    }
    return decode(b"%s,%s" % (to_json(known)[:-1], line[1:]))


def entry_of(row: Row) -> RunEntry:
    """Entry of a run."""
    return RunEntry(
        run_id=row[1],
        root_id=row[2],
        tenant_id=row[3],
        session_id=row[4],
        agent=row[5],
        ordinal=row[6],
        started_at=instant(row[7]),
        updated_at=instant(row[8]),
        position=row[9],
        epoch=row[10],
        ended=row[11],
        cancel_requested=bool(row[12]),
        waiting=bool(row[13]),
        waiting_until=None if row[14] is None else instant(row[14]),
        lease_until=None if row[15] is None else instant(row[15]),
        lease_holder=row[16],
    )


def session_of(row: SummaryRow) -> SessionEntry:
    """Entry of a session."""
    return SessionEntry(
        tenant_id=row[1],
        session_id=row[2],
        started_at=instant(row[3]),
        updated_at=instant(row[4]),
        runs=row[5],
        open=row[6],
    )


def tombstone(session_id: str, at: int | None, by: str, pending: int) -> Tombstone | None:
    """Tombstone of a session, None for one that was not erased."""
    if at is None:
        return None
    return Tombstone(session_id=session_id, at=instant(at), by=by, pending=bool(pending))


def changing(entry: RunEntry) -> tuple[object, ...]:
    """What changes in the row of a run, but its process and its opening."""
    ends = (entry.waiting_until, entry.lease_until)
    return (
        *(entry.epoch, entry.ended, entry.cancel_requested, entry.waiting),
        *(None if end is None else micros(end) for end in ends),
        entry.lease_holder,
    )


def encoded(process: Process) -> str:
    """A process, as the row of a run names it."""
    return json.dumps(astuple(process))


def living(entry: RunEntry, process: str, here: Process, now: datetime) -> RunEntry:
    """The entry, whose lease ends now when the process that holds it is no more."""
    if entry.lease_until is None or not process or not entry.driven(now):
        return entry
    return entry.evolve(lease_until=now) if gone(Process(*json.loads(process)), here) else entry
