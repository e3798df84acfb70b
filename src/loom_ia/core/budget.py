"""What may be spent, what is spent, and when the one reaches the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Final, Literal

from loom_ia.core.events.review import BudgetExceeded
from loom_ia.core.model import Usage
from loom_ia.core.state import RunState

Scope = Literal["run", "session", "tenant"]
Measure = Literal["cost", "tokens", "calls"]
Span = Literal["run", "session", "day", "month"]
"""Over what a ceiling is counted; days and months are those of the calendar, in UTC."""
ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Spent:
    """What some model calls took, and the tools that were launched; unknown costs are left out."""

    cost: Decimal = ZERO
    """Dollars."""
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.cost + other.cost, self.tokens + other.tokens, self.calls + other.calls)

    def of(self, measure: Measure) -> Decimal:
        """One of the three."""
        match measure:
            case "cost":
                return self.cost
            case "tokens":
                return Decimal(self.tokens)
            case "calls":
                return Decimal(self.calls)


NOTHING: Final = Spent()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit. It is reached as soon as what is spent equals it: nothing is left to pay with."""

    scope: Scope
    span: Span
    measure: Measure
    most: Decimal

    @property
    def key(self) -> str:
        """Its key in the configuration."""
        per = f"_per_{self.span}" if self.scope == "tenant" else ""
        return f"max_{self.measure}{per}"

    @property
    def name(self) -> str:
        """Its path in the configuration."""
        return f"{self.scope}.{self.key}"


@dataclass(frozen=True, slots=True)
class Budget:
    """The ceilings of an agent."""

    ceilings: tuple[Ceiling, ...] = ()
    stop: bool = True
    """True when a run that reaches one gives its last answer; false when it is only told."""

    @property
    def shared(self) -> bool:
        """True when a ceiling counts what other runs spend."""
        return any(ceiling.scope != "run" for ceiling in self.ceilings)

    def most(self, measure: Measure) -> Decimal | None:
        """Ceiling of a run."""
        found = (c.most for c in self.ceilings if c.span == "run" and c.measure == measure)
        return next(found, None)


UNLIMITED: Final = Budget()


@dataclass(frozen=True, slots=True)
class Counters:
    """What a store has counted that concerns a run, of all the runs of its tenant."""

    session: Spent = NOTHING
    day: Spent = NOTHING
    month: Spent = NOTHING
    reserved: Decimal = ZERO
    """Dollars that the other runs going on may still spend, as far as they are limited."""

    def of(self, span: Span) -> Spent:
        """What is spent over a span; nothing of a run, which counts for itself."""
        match span:
            case "session":
                return self.session
            case "day":
                return self.day
            case "month":
                return self.month
            case "run":
                return NOTHING


def tokens(usage: Usage) -> int:
    """Tokens that count against a ceiling: read, cached or not, and written."""
    return usage.input + usage.output + usage.cache_read + usage.cache_write


def spent_by(state: RunState) -> Spent:
    """What a run has spent."""
    return Spent(state.cost, tokens(state.usage), state.launches)


def reached(
    budget: Budget,
    run: Spent,
    counters: Counters | None,
    *,
    told: Iterable[str] = (),
    reserving: bool = False,
) -> tuple[BudgetExceeded, ...]:
    """Facts of the ceilings that are reached: the first one under `stop`, else those not told yet.

    Without counters, only those of the run are looked at. `reserving`: the run goes on after it
    gave back what it had reserved; what others reserved meanwhile is no longer its to spend.
    """
    known = frozenset(told)
    found: list[BudgetExceeded] = []
    for ceiling in budget.ceilings:
        if ceiling.name in known:
            continue
        if ceiling.scope == "run":
            spent = run.of(ceiling.measure)
        elif counters is None:
            continue
        else:
            spent = counters.of(ceiling.span).of(ceiling.measure)
            if reserving and (ceiling.scope, ceiling.measure) == ("tenant", "cost"):
                spent += counters.reserved
        if spent >= ceiling.most:
            found.append(exceeded(ceiling, spent, stop=budget.stop))
            if budget.stop:
                break
    return tuple(found)


def exceeded(ceiling: Ceiling, spent: Decimal, *, stop: bool) -> BudgetExceeded:
    """The fact that a ceiling is reached."""
    return BudgetExceeded(
        scope=ceiling.scope, limit=ceiling.key, ceiling=ceiling.most, spent=spent, stop=stop
    )


def shared(
    budget: Budget, spent: Spent, share: Decimal, outstanding: Mapping[Measure, Decimal]
) -> Budget:
    """Budget of a child: a share of what is left to its parent, less what other children that are
    still going may spend. Shares that are given out never add up to more than what is left.
    """
    ceilings = tuple(
        Ceiling("run", "run", ceiling.measure, _part(ceiling, spent, share, outstanding))
        for ceiling in budget.ceilings
        if ceiling.scope == "run"
    )
    return Budget(ceilings, budget.stop)


def _part(
    ceiling: Ceiling, spent: Spent, share: Decimal, outstanding: Mapping[Measure, Decimal]
) -> Decimal:
    held = outstanding.get(ceiling.measure, ZERO)
    left = max(ceiling.most - spent.of(ceiling.measure) - held, ZERO)
    part = left * min(max(share, ZERO), Decimal(1))
    return part if ceiling.measure == "cost" else part.to_integral_value(ROUND_DOWN)
