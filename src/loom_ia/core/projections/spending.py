"""What the runs of a tenant spend, added up as they spend it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

from loom_ia.core.admission import MINUTE
from loom_ia.core.budget import NOTHING, ZERO, Counters, Spent, tokens
from loom_ia.core.events import (
    ModelFailed,
    ModelResponded,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
)
from loom_ia.core.ports import RunRef


def paid(payload: Payload) -> Spent | None:
    """What a fact says was spent; None for one that says nothing of it."""
    if not isinstance(payload, ModelResponded | ModelFailed):
        return None
    used = 0 if payload.usage is None else tokens(payload.usage)
    cost = payload.cost or ZERO
    return Spent(cost, used) if used or cost else None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a fact of a root run changes of what the run holds."""

    going: bool
    started: bool = False
    reserve: Decimal | None = None


_GOES = Standing(going=True)
_ENDS = Standing(going=False)


def standing(payload: Payload) -> Standing | None:
    """What a fact changes of what its root run holds; None for most."""
    match payload:
        case RunStarted():
            return Standing(going=True, started=True, reserve=payload.reserve)
        case RunResumed():
            return _GOES
        case RunCompleted() | RunFailed() | RunCancelled():
            return _ENDS
        case _:
            return None


def day_of(at: datetime) -> date:
    """The day, in UTC, to which a stamp belongs."""
    return at.astimezone(UTC).date()


@dataclass(slots=True)
class Hold:
    """What a run reserved and has spent of it."""

    reserve: Decimal
    spent: Decimal = ZERO
    going: bool = True
    """False while it waits for a human, and once it has ended: its reserve is then given back."""

    @property
    def left(self) -> Decimal:
        """Dollars that it may still spend."""
        return max(self.reserve - self.spent, ZERO) if self.going else ZERO


@dataclass(slots=True)
class Spending:
    """The counters of one tenant."""

    days: dict[date, Spent] = field(default_factory=lambda: defaultdict(Spent))
    sessions: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    holds: dict[str, Hold] = field(default_factory=dict[str, Hold])
    owners: dict[str, str] = field(default_factory=dict[str, str])
    """Session of each run that holds something."""
    starts: deque[datetime] = field(default_factory=deque[datetime])
    """Those of the last minute, and maybe a few before."""

    def start(self, run_id: str, session_id: str, at: datetime, reserve: Decimal | None) -> None:
        """A root run is written."""
        while self.starts and self.starts[0] + MINUTE <= at:
            self.starts.popleft()
        if not self.starts or at + MINUTE > self.starts[-1]:
            self.starts.append(at)
        if reserve is not None:
            self.holds[run_id] = Hold(reserve)
            self.owners[run_id] = session_id

    def pay(self, root_id: str, session_id: str, day: date, spent: Spent) -> None:
        """A run, or a child of it, has spent."""
        self.days[day] += spent
        self.sessions[session_id] += spent
        hold = self.holds.get(root_id)
        if hold is not None:
            hold.spent += spent.cost

    def going(self, run_id: str, *, going: bool) -> None:
        """A run goes on, or no longer does."""
        hold = self.holds.get(run_id)
        if hold is not None:
            hold.going = going

    def erase(self, session_id: str) -> None:
        """Forget a session; what it spent stays in its days."""
        self.sessions.pop(session_id, None)
        for run_id in [run for run, owner in self.owners.items() if owner == session_id]:
            del self.owners[run_id], self.holds[run_id]

    def counters(self, session_id: str, run_id: str, now: datetime) -> Counters:
        """What concerns a run at an instant."""
        today = day_of(now)
        held = (hold.left for run, hold in self.holds.items() if run != run_id)
        return Counters(
            session=self.sessions.get(session_id, NOTHING),
            day=self.days.get(today, NOTHING),
            month=sum(self._month(today), NOTHING),
            reserved=sum(held, ZERO),
        )

    def _month(self, today: date) -> Iterator[Spent]:
        for day, spent in self.days.items():
            if (day.year, day.month) == (today.year, today.month):
                yield spent


def counted(spending: Spending, ref: RunRef, payload: Payload, at: datetime) -> None:
    """Add what a fact says, once it is written."""
    spent = paid(payload)
    if spent is not None:
        spending.pay(ref.root_id, ref.session_id, day_of(at), spent)
        return
    state = standing(payload) if ref.run_id == ref.root_id else None
    if state is None:
        return
    if state.started:
        spending.start(ref.run_id, ref.session_id, at, state.reserve)
    else:
        spending.going(ref.run_id, going=state.going)
