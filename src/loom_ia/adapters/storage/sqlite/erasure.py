"""Takes a session out of the database, within a transaction, behind its tombstone."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from loom_ia.adapters.storage.ledger import BLOB_GRACE
from loom_ia.adapters.storage.sqlite.rows import micros
from loom_ia.adapters.storage.sqlite.shelf import Session
from loom_ia.adapters.storage.sqlite.sql import ask
from loom_ia.core.cleaning import clean


def bury(connection: sqlite3.Connection, session: Session, at: datetime, by: str) -> None:
    """Leave of a session its tombstone, and the names of the contents to drop."""
    ask(connection, "bury", micros(at), clean(by), session.number)
    for name in (
        "erase_spending",
        "erase_runs",
        "erase_events",
        "erase_quarantine",
        "erase_snapshot",
    ):
        ask(connection, name, session.number)


def cleared(connection: sqlite3.Connection, session: Session, now: datetime) -> bool:
    """Drop the contents of an erased session that no other one names; True when none is left."""
    number, tenant_id = session.number, session.tenant_id
    ask(connection, "keep_named", number)
    ask(connection, "drop_blobs", tenant_id, micros(now - BLOB_GRACE), number)
    ask(connection, "forget_dropped", number, tenant_id)
    left: tuple[int] = ask(connection, "left", number).fetchone()
    return not left[0]
