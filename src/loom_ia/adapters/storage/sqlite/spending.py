"""What the runs of a tenant spend, in rows that change with the events that tell it."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from loom_ia.adapters.storage.sqlite.rows import instant, micros
from loom_ia.adapters.storage.sqlite.sql import ask
from loom_ia.core.admission import MINUTE, Admission, admit
from loom_ia.core.budget import NOTHING, ZERO, Counters, Spent
from loom_ia.core.events import Event
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.spending import day_of, paid, standing

Sums = defaultdict[tuple[str, str, str], Spent]
"""What a transaction adds, by tenant, scope and name."""


def sums() -> Sums:
    """Nothing yet."""
    return defaultdict(Spent)


def note(found: Sums, ref: RunRef, events: Iterable[Event]) -> None:
    """Note what events add."""
    for event in events:
        spent = paid(event.payload)
        if spent is not None:
            found[ref.tenant_id, "day", day_of(event.at).isoformat()] += spent
            found[ref.tenant_id, "session", ref.session_id] += spent
            found[ref.tenant_id, "run", ref.root_id] += spent
            continue
        state = standing(event.payload)
        if state is not None and state.reserve is not None and ref.run_id == ref.root_id:
            found[ref.tenant_id, "hold", ref.run_id] += Spent(state.reserve)


def spend(connection: sqlite3.Connection, found: Sums) -> None:
    """Add what was noted, within the present transaction."""
    for key, added in found.items():
        total = _spent(connection, *key) + added
        ask(connection, "spend", *key, str(total.cost), total.tokens)
    found.clear()


def counters(connection: sqlite3.Connection, ref: RunRef, now: datetime) -> Counters:
    """What a run must be held against, as it is in the database."""
    today = day_of(now)
    first = today.replace(day=1)
    after = (first + timedelta(days=31)).replace(day=1)
    days: list[tuple[str, int]] = ask(
        connection, "spent_between", ref.tenant_id, first.isoformat(), after.isoformat()
    ).fetchall()
    held: list[tuple[str, str]] = ask(connection, "held", ref.tenant_id, ref.run_id).fetchall()
    return Counters(
        session=_spent(connection, ref.tenant_id, "session", ref.session_id),
        day=_spent(connection, ref.tenant_id, "day", today.isoformat()),
        month=sum((Spent(Decimal(cost), tokens) for cost, tokens in days), NOTHING),
        reserved=sum((max(Decimal(most) - Decimal(spent), ZERO) for most, spent in held), ZERO),
    )


def admitted(
    connection: sqlite3.Connection, ref: RunRef, admission: Admission, now: datetime
) -> None:
    """Judge one more run (see `core.admission.admit`)."""
    since = micros(now - MINUTE)
    rows: Sequence[tuple[int]] = ask(connection, "starts", ref.tenant_id, since).fetchall()
    starts = [instant(at) for (at,) in rows]
    admit(ref.tenant_id, admission, counters(connection, ref, now), starts, now)


def _spent(connection: sqlite3.Connection, tenant_id: str, scope: str, name: str) -> Spent:
    found: list[tuple[str, int]] = ask(connection, "spent", tenant_id, scope, name).fetchall()
    return Spent(Decimal(found[0][0]), found[0][1]) if found else NOTHING
