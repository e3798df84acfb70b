"""Budgets as a configuration writes them, those of an agent laid over those of everyone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from loom_ia.core.budget import Budget, Ceiling, Measure, Scope, Span
from loom_ia.core.model.usage import exact

_STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
)
Money = Annotated[Decimal, BeforeValidator(exact), Field(gt=0)]
"""Dollars."""
Count = Annotated[int, Field(gt=0)]


class RunCeilings(BaseModel):
    """What one run may spend."""

    model_config = _STRICT

    max_cost: Money | None = None
    """Dollars."""
    max_tokens: Count | None = None
    """Tokens read, cached or not, and written."""
    max_calls: Count | None = None
    """Launches of tools."""


class SessionCeilings(BaseModel):
    """What all the runs of a session may spend."""

    model_config = _STRICT

    max_cost: Money | None = None
    """Dollars."""
    max_tokens: Count | None = None
    """Tokens read, cached or not, and written."""


class TenantCeilings(BaseModel):
    """What a tenant may spend in a calendar day or month, in UTC."""

    model_config = _STRICT

    max_cost_per_day: Money | None = None
    """Dollars of a day."""
    max_cost_per_month: Money | None = None
    """Dollars of a month."""
    max_tokens_per_day: Count | None = None
    """Tokens of a day."""
    max_tokens_per_month: Count | None = None
    """Tokens of a month."""


class BudgetsSection(BaseModel):
    """Ceilings; one that is reached leaves nothing to pay with."""

    model_config = _STRICT

    run: RunCeilings = Field(default_factory=RunCeilings)
    """What one run may spend; looked at before each call of a model."""
    session: SessionCeilings = Field(default_factory=SessionCeilings)
    """What all the runs of a session may spend; looked at before each call of a model."""
    tenant: TenantCeilings = Field(default_factory=TenantCeilings)
    """What a tenant may spend; looked at before a run is accepted and before each call."""
    on_exceed: Literal["warn", "stop"] = "stop"
    """A run that reaches a ceiling gives a last answer without tools, or this is only journaled."""


_PLACES: tuple[tuple[Scope, Span, Measure], ...] = (
    ("run", "run", "cost"),
    ("run", "run", "tokens"),
    ("run", "run", "calls"),
    ("session", "session", "cost"),
    ("session", "session", "tokens"),
    ("tenant", "day", "cost"),
    ("tenant", "month", "cost"),
    ("tenant", "day", "tokens"),
    ("tenant", "month", "tokens"),
)


def budget_of(common: BudgetsSection, own: BudgetsSection | None) -> Budget:
    """Budget of an agent: each key it writes wins, `null` lifting the ceiling of everyone."""
    stop = common.on_exceed == "stop"
    if own is not None and "on_exceed" in own.model_fields_set:
        stop = own.on_exceed == "stop"
    return Budget(tuple(_ceilings(common, own)), stop)


def _ceilings(common: BudgetsSection, own: BudgetsSection | None) -> Iterator[Ceiling]:
    for scope, span, measure in _PLACES:
        ceiling = Ceiling(scope, span, measure, Decimal(0))
        section = getattr(common, scope)
        if own is not None and ceiling.key in getattr(own, scope).model_fields_set:
            section = getattr(own, scope)
        most: int | Decimal | None = getattr(section, ceiling.key)
        if most is not None:
            yield Ceiling(scope, span, measure, Decimal(most))
