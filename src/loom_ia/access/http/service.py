"""What the routes share: the Loom they serve, who may call, whether the server is stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Depends, Request

from loom_ia.access.http.caller import Authenticate, Caller, Scope, require
from loom_ia.access.http.metrics import Metrics
from loom_ia.core.errors import Kind, LoomError
from loom_ia.runtime.errors import UnknownAgentError

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

T = TypeVar("T")


class NotServingError(LoomError):
    """The Loom is not open, or no longer."""

    kind = Kind.UNAVAILABLE
    template = "the agents are not open: the server starts or stops; ask again"


class ServerStoppingError(LoomError):
    """The server stops before the run has ended; the run can be resumed."""

    kind = Kind.UNAVAILABLE
    template = "the server is stopping; the run goes on where it stopped once it is resumed"


@dataclass(slots=True, eq=False)
class Service:
    """One served Loom."""

    loom: Loom
    authenticate: Authenticate
    open: bool
    """True when anyone may call: nothing says who asks."""
    metrics: Metrics = field(default_factory=Metrics)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once: streams end, runs that callers wait for are left where they are."""

    def agent(self, caller: Caller, name: str) -> None:
        """Refuse an agent that this door does not offer, as one that does not exist.

        Raises:
            UnknownAgentError: names those that it offers.

        """
        offered = self.offered(caller)
        if name not in offered:
            raise UnknownAgentError(agent=name, names=", ".join(offered) or "-")

    def offered(self, caller: Caller) -> list[str]:
        """Names of the agents that this door offers to a caller."""
        specs = self.loom.loaded.specs.items()
        return [name for name, spec in specs if spec.expose.rest and caller.reaches(name)]

    async def waited(self, work: Coroutine[object, object, T]) -> T:
        """Result of work that may be long, unless the server stops before.

        Raises:
            ServerStoppingError: what was begun stays resumable.

        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                raise ServerStoppingError
            return task.result()
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()


def service_of(request: Request) -> Service:
    """What the application of a request serves.

    Raises:
        NotServingError: its Loom is not open.

    """
    service: Service = request.app.state.service
    if not service.loom.entered:
        raise NotServingError
    return service


Served = Annotated[Service, Depends(service_of)]


Check = Callable[[Request, Service], Coroutine[object, object, Caller]]
SCOPES: dict[object, tuple[Scope, ...]] = {}
"""Scopes that each dependency needs: the description of the API reads them."""


def needs(*scopes: Scope) -> Check:
    """Dependency that says who asks, and refuses who may not."""

    async def caller(request: Request, service: Served) -> Caller:
        found = await service.authenticate(request.headers)
        require(found, *scopes)
        return found

    SCOPES[caller] = scopes
    return caller


Reader = Annotated[Caller, Depends(needs("read"))]
ContentReader = Annotated[Caller, Depends(needs("read", "read_content"))]
Runner = Annotated[Caller, Depends(needs("run"))]
Approver = Annotated[Caller, Depends(needs("approve", "read_content"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
