"""What a call cost: the tokens that are known, at the price of the model that served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from loom_ia.core.model import FREE, Answer, ModelSpec, Pricing, Usage

NOTHING = Usage()
ZERO = Decimal(0)
_DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")

Prices = Mapping[str, Pricing]
"""Of the models of a configuration, by the plain names that providers know."""


def plain(name: str) -> str:
    """Name of a model without gateway prefix, date or `-latest`: what one price is written for."""
    return _DATE.sub("", name.rpartition("/")[2].removesuffix("-latest"))


def price_of(spec: ModelSpec) -> Pricing | None:
    """Price of a model; the simulated one costs nothing."""
    return spec.pricing or (FREE if spec.sdk == "fake" else None)


def prices_of(specs: Iterable[ModelSpec]) -> Prices:
    """Prices by name; a name that two models price differently is left out."""
    found: dict[str, Pricing | None] = {}
    for spec in specs:
        price = price_of(spec)
        name = plain(spec.model)
        if price is not None:
            found[name] = price if found.get(name, price) == price else None
    return {name: price for name, price in found.items() if price is not None}


def cost(spec: ModelSpec, served: str, usage: Usage | None, prices: Prices) -> Decimal | None:
    """Dollars of one attempt; None when its tokens or its price are not known.

    A model that answers under another name has the price of that name, or none.
    """
    if usage is None or usage.estimated:
        return None
    if not usage.output and usage == NOTHING:
        return ZERO  # refused before any work
    same = not served or served == spec.model or plain(served) == plain(spec.model)
    price = price_of(spec) if same else prices.get(plain(served))
    if price is FREE:
        return ZERO
    return None if price is None else price.cost(usage)


def total(spec: ModelSpec, answer: Answer, usage: Usage, prices: Prices) -> Decimal | None:
    """Dollars of an answer, each model that served at its own price; None when one is unknown."""
    if not answer.shares:
        return cost(spec, answer.model, usage, prices)
    each = [cost(spec, share.model, share.usage, prices) for share in answer.shares]
    known = [one for one in each if one is not None]
    return sum(known, ZERO) if len(known) == len(each) else None
