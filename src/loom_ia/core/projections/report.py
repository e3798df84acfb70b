"""What runs consumed: tokens and dollars by role and by model, unknown parts said as such."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from loom_ia.core.events import Event, ModelCalled, ModelFailed, ModelResponded
from loom_ia.core.model import Usage

Period = Literal["day", "month"]


class Spent(BaseModel):
    """What some model calls consumed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    calls: int = 0
    """Attempts, those that failed or were cut included."""
    usage: Usage = Usage()
    """Tokens, of the calls that tell them."""
    cost: Decimal | None = Decimal(0)
    """Dollars; None when a part is unknown."""
    known_cost: Decimal = Decimal(0)
    """Dollars, of the calls that tell them."""
    unpriced: int = 0
    """Calls whose cost is unknown: no price, no usage, or no answer."""
    uncounted: int = 0
    """Calls whose tokens are unknown."""

    def __add__(self, other: Spent) -> Spent:
        known, unpriced = self.known_cost + other.known_cost, self.unpriced + other.unpriced
        return Spent(
            calls=self.calls + other.calls,
            usage=self.usage + other.usage,
            cost=None if unpriced else known,
            known_cost=known,
            unpriced=unpriced,
            uncounted=self.uncounted + other.uncounted,
        )


class Line(Spent):
    """What one role spent on one model."""

    role: str
    model: str
    """Name of the model that served; its id in the configuration when none answered."""


class Report(BaseModel):
    """Consumption of a run, of a session, or of a tenant in a window of time."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    tenant_id: str
    session_id: str | None = None
    run_id: str | None = None
    since: datetime | None = None
    """Start of the window, included; None without a window."""
    until: datetime | None = None
    """End of the window, excluded."""
    runs: int = 0
    """Runs of which something is counted."""
    lines: tuple[Line, ...] = ()
    """By role, then by model."""
    by_role: dict[str, Spent] = {}
    by_model: dict[str, Spent] = {}
    total: Spent = Spent()


@dataclass(frozen=True, slots=True)
class Window:
    """Instants from `since` on, before `until`."""

    since: datetime
    until: datetime

    def __contains__(self, at: datetime) -> bool:
        return self.since <= at < self.until


def window(period: Period, now: datetime, day: date | None = None) -> Window:
    """The calendar day or month, in the zone of `now`, that holds `day`; that of `now` without."""
    day = day or now.date()
    if period == "day":
        since = datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
        return Window(since, since + timedelta(days=1))
    since = datetime(day.year, day.month, 1, tzinfo=now.tzinfo)
    return Window(since, (since + timedelta(days=31)).replace(day=1))


@dataclass(slots=True)
class Tally:
    """Adds up the model calls of runs, each at the stamp of the fact that tells what it took."""

    window: Window | None = None
    _runs: set[str] = field(default_factory=set[str])
    _spent: dict[tuple[str, str], Spent] = field(default_factory=dict[tuple[str, str], Spent])

    def take(self, events: Iterable[Event]) -> None:
        """Count whole runs: what has left and has no answer is of unknown cost."""
        left: dict[tuple[str, str, str], tuple[Event, ModelCalled]] = {}
        for event in events:
            payload = event.payload
            match payload:
                case ModelCalled():
                    left[event.run_id, event.span_id, payload.role] = event, payload
                case ModelResponded() | ModelFailed():
                    known = left.pop((event.run_id, event.span_id, payload.role), None)
                    model = payload.model or (known[1].model if known else "")
                    self._count(event, (payload.role, model), _spent(payload))
                case _:
                    if self.window is None:
                        self._runs.add(event.run_id)
        for event, called in left.values():
            self._count(event, (called.role, called.model), LOST)

    def _count(self, event: Event, key: tuple[str, str], spent: Spent) -> None:
        if self.window is None or event.at in self.window:
            self._spent[key] = self._spent.get(key, Spent()) + spent
            self._runs.add(event.run_id)

    def report(self, tenant_id: str, session_id: str | None, run_id: str | None) -> Report:
        """What was counted."""
        spent = sorted(self._spent.items())
        by_role: dict[str, Spent] = {}
        by_model: dict[str, Spent] = {}
        total = Spent()
        for (role, model), one in spent:
            by_role[role] = by_role.get(role, Spent()) + one
            by_model[model] = by_model.get(model, Spent()) + one
            total += one
        return Report(
            tenant_id=tenant_id,
            session_id=session_id,
            run_id=run_id,
            since=self.window.since if self.window else None,
            until=self.window.until if self.window else None,
            runs=len(self._runs),
            lines=tuple(Line(role=r, model=m, **dict(one)) for (r, m), one in spent),
            by_role=by_role,
            by_model=by_model,
            total=total,
        )


LOST = Spent(calls=1, cost=None, unpriced=1, uncounted=1)
"""A call that has left and has no answer."""


def _spent(fact: ModelResponded | ModelFailed) -> Spent:
    return Spent(
        calls=1,
        usage=fact.usage or Usage(),
        cost=fact.cost,
        known_cost=fact.cost or Decimal(0),
        unpriced=int(fact.cost is None),
        uncounted=int(fact.usage is None or fact.usage.estimated),
    )
