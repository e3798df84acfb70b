"""Who asks, and what they may do: what an application, or the keys of a configuration, says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from loom_ia.core.errors import Kind, LoomError

Scope = Literal["run", "read", "read_content", "approve", "admin"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    id: str
    """Name under which journals keep what this caller asks and decides: `key:<id>` for a key."""
    tenant: str = "default"
    """The only tenant that this caller reaches, whatever a request holds."""
    scopes: frozenset[str] | None = None
    """What the caller may do; None is everything."""
    agents: frozenset[str] | None = None
    """Agents that the caller may reach; None is all of them."""

    def reaches(self, agent: str) -> bool:
        """True for an agent that exists for this caller."""
        return self.agents is None or agent in self.agents


Authenticate = Callable[[Mapping[str, str]], Awaitable[Caller]]
"""Says who asks, from the headers of a request, named in lower case.

Raises `UnauthenticatedError` for a request that nobody answers for.
"""

ANYONE = Caller("anonymous")
"""Who asks where there are no keys."""


class UnauthenticatedError(LoomError):
    """The request does not say who asks, or nobody is known by that key."""

    kind = Kind.FORBIDDEN
    template = "this request needs a key: Authorization: Bearer <key>, or X-API-Key: <key>"


class ScopeNeededError(LoomError):
    """Who asks may not do this."""

    kind = Kind.FORBIDDEN
    template = "{by} lacks the scope {scope}, which this request needs"


class OpenApiRefusedError(LoomError):
    """Production was asked for, and nothing says who may call."""

    kind = Kind.CONFIG
    template = (
        "profile prod: the API would be open to anyone; say who may call "
        "(create_app(loom, authenticate=…)), or choose another profile"
    )


async def anyone(headers: Mapping[str, str]) -> Caller:  # noqa: ARG001  it is who asks that says
    """Take every request, as if from one caller who may do everything."""
    return ANYONE


def require(caller: Caller, *scopes: Scope) -> None:
    """Refuse who may not do what is asked.

    Raises:
        ScopeNeededError: says which scope is missing.

    """
    for scope in scopes:
        if caller.scopes is not None and scope not in caller.scopes:
            raise ScopeNeededError(by=caller.id, scope=scope)
