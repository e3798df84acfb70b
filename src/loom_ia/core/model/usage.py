"""Tokens counted and money spent, `Decimal` end to end."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from loom_ia.core.omit import EMPTY
from loom_ia.core.trusted import trusted

MILLION = Decimal(1_000_000)


def exact(value: object) -> object:
    """The decimal that a person wrote: a float becomes its shortest spelling, not its bits."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return Decimal(repr(value)) if plain else value


Price = Annotated[Decimal, BeforeValidator(exact), Field(ge=0)]
"""Dollars per million tokens."""


class Usage(BaseModel):
    """Tokens of one or more model calls; `reasoning` is a part of `output`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input: Annotated[int, EMPTY] = Field(default=0, ge=0)
    output: Annotated[int, EMPTY] = Field(default=0, ge=0)
    cache_read: Annotated[int, EMPTY] = Field(default=0, ge=0)
    cache_write: Annotated[int, EMPTY] = Field(default=0, ge=0)
    reasoning: Annotated[int, EMPTY] = Field(default=0, ge=0)
    estimated: Annotated[bool, EMPTY] = False
    """True when the provider gave nothing usable and these are an estimate."""

    def __add__(self, other: Usage) -> Usage:
        values: dict[str, object] = {
            "input": self.input + other.input,
            "output": self.output + other.output,
            "cache_read": self.cache_read + other.cache_read,
            "cache_write": self.cache_write + other.cache_write,
            "reasoning": self.reasoning + other.reasoning,
            "estimated": self.estimated or other.estimated,
        }
        return trusted(Usage, values)


class Tier(BaseModel):
    """Prices of a call whose input reaches `from_input` tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    from_input: int = Field(ge=1)
    """Tokens read, cached ones included, from which these prices apply."""
    input: Price
    """Tokens read, outside the cache."""
    output: Price
    """Tokens written, reasoning included."""
    cache_read: Price | None = None
    """Tokens read from the provider's cache."""
    cache_write: Price | None = None
    """Tokens put in the provider's cache."""


class Pricing(BaseModel):
    """Dollars per million tokens; cached tokens cost the input price unless they have their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input: Price
    """Tokens read, outside the cache."""
    output: Price
    """Tokens written, reasoning included."""
    cache_read: Price | None = None
    """Tokens read from the provider's cache."""
    cache_write: Price | None = None
    """Tokens put in the provider's cache."""
    tiers: tuple[Tier, ...] = ()
    """Other prices for long requests; the highest tier reached counts."""

    def cost(self, usage: Usage) -> Decimal:
        """Exact dollars of one call; `usage.input` does not count the cached tokens."""
        total = usage.input + usage.cache_read + usage.cache_write
        reached = [tier for tier in self.tiers if total >= tier.from_input]
        rate = max(reached, key=lambda tier: tier.from_input) if reached else self
        read = rate.input if rate.cache_read is None else rate.cache_read
        write = rate.input if rate.cache_write is None else rate.cache_write
        dollars = (
            usage.input * rate.input
            + usage.output * rate.output
            + usage.cache_read * read
            + usage.cache_write * write
        )
        return dollars / MILLION


FREE = Pricing(input=Decimal(0), output=Decimal(0))
