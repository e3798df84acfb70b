"""Whether a tenant may start one more run: judged by every store, in its critical section."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from loom_ia.core.budget import UNLIMITED, ZERO, Budget, Ceiling, Counters
from loom_ia.core.errors import RunQuotaError, TenantBudgetError

MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Admission:
    """What one more run of a tenant must find room in."""

    budget: Budget = UNLIMITED
    """Only its ceilings of the tenant are looked at, and only under `stop`."""
    runs_per_minute: int | None = None
    """Starts within any minute."""

    @property
    def reserve(self) -> Decimal | None:
        """Dollars that the run reserves: all that it may spend, when the tenant counts dollars."""
        counted = any(c.scope == "tenant" and c.measure == "cost" for c in self.budget.ceilings)
        return self.budget.most("cost") if counted and self.budget.stop else None


def admit(
    tenant_id: str,
    admission: Admission,
    counters: Counters,
    starts: Sequence[datetime],
    now: datetime,
) -> None:
    """Refuse a start by raising. `starts`: those of the last minute, oldest first.

    Raises:
        RunQuotaError: there are as many as there may be.
        TenantBudgetError: nothing is left to spend.

    """
    most = admission.runs_per_minute
    recent = [at for at in starts if at > now - MINUTE]
    if most is not None and len(recent) >= most:
        until = recent[len(recent) - most] + MINUTE
        wait = max(math.ceil((until - now).total_seconds()), 1)
        raise RunQuotaError(tenant_id=tenant_id, limit=most, retry_after=wait)
    if not admission.budget.stop:
        return
    for ceiling in admission.budget.ceilings:
        if ceiling.scope == "tenant":
            _admit(tenant_id, ceiling, counters, now)


def _admit(tenant_id: str, ceiling: Ceiling, counters: Counters, now: datetime) -> None:
    spent = counters.of(ceiling.span).of(ceiling.measure)
    reserved = counters.reserved if ceiling.measure == "cost" else ZERO
    if spent + reserved < ceiling.most:
        return
    raise TenantBudgetError(
        tenant_id=tenant_id,
        limit=ceiling.name,
        ceiling=plainly(ceiling.most),
        spent=plainly(spent),
        reserved=plainly(reserved),
        span=ceiling.span,
        retry_after=math.ceil((_end(ceiling, now) - now).total_seconds()),
    )


def _end(ceiling: Ceiling, now: datetime) -> datetime:
    """Instant at which the window of a ceiling is over."""
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if ceiling.span == "day":
        return start + timedelta(days=1)
    return (start.replace(day=1) + timedelta(days=31)).replace(day=1)


def plainly(amount: Decimal) -> str:
    """An amount as people write it."""
    return f"{amount.normalize():f}"
