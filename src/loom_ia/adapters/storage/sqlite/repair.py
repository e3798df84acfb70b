"""Puts the damaged lines of a session aside, each behind a placeholder that keeps its position."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from loom_ia.adapters.storage.sqlite.rows import SEQ, LineRow, event_of, instant, line_of
from loom_ia.adapters.storage.sqlite.sql import ask, queries
from loom_ia.adapters.system import SystemIds
from loom_ia.core.events import Event, LineQuarantined, UndecodableError

new_id = SystemIds().new

Key = tuple[str, str]
"""Tenant and session."""


def repaired(connection: sqlite3.Connection, path: Path, key: Key) -> Sequence[int]:
    """Replace the damaged lines of a session, within a transaction; their sequence numbers."""
    numbers: list[int] = []
    rows: list[LineRow] = ask(connection, "session_lines", 0, *key, -1).fetchall()
    for row in rows:
        try:
            event_of(row, *key)
        except UndecodableError:
            event = _placeholder(path, key, row)
            connection.execute(queries()["set_aside"], (row[0], row[4]))
            connection.execute(queries()["replace_line"], (line_of(event), row[0]))
            numbers.append(event.seq)
    return numbers


def _placeholder(path: Path, key: Key, row: LineRow) -> Event:
    place, position, at, run_id, _ = row
    payload = LineQuarantined(reason="damaged line", file=path.name)
    return Event(
        id=new_id(),
        seq=place & SEQ,
        tenant_id=key[0],
        session_id=key[1],
        run_id=run_id,
        position=position,
        type=payload.type,
        at=instant(at),
        skippable=True,
        payload=payload,
    )
