"""A function as the check of unknown outcomes of a tool, synchronous or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial

from loom_ia.core.ports import Check, NotSent, Sent, Settlement, ToolContext
from loom_ia.tools.threads import Pool, shared


class NotSettledError(Exception):
    """A check gave something else than `Sent`, `NotSent` or None."""


def check_of(function: Callable[..., object], pool: Pool | None = None) -> Check:
    """The check that a tool declares; what it gives is verified."""

    async def check(arguments: Mapping[str, object], context: ToolContext) -> Settlement:
        call = partial(function, deepcopy(dict(arguments)), context)
        awaited = inspect.iscoroutinefunction(function)
        found = call() if awaited else await (pool or shared()).run(call)
        given = await found if inspect.isawaitable(found) else found
        if given is None or isinstance(given, Sent | NotSent):
            return given
        raise NotSettledError(repr(given)[:80])

    return check
