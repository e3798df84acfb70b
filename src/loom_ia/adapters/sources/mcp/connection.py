"""One connection to a server, owned by one task: opened when needed, opened again when lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

import anyio
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError

from loom_ia.adapters.sources.mcp.eras import named, negotiate
from loom_ia.adapters.sources.mcp.faults import FORGOTTEN, OUTAGE, said
from loom_ia.adapters.sources.mcp.listing import Listing, listed
from loom_ia.adapters.sources.mcp.program import End, Streams
from loom_ia.core.ports import SourceUnreachableError
from loom_ia.core.ports.source import Era
from loom_ia.core.sources import McpServer

logger = logging.getLogger("loom_ia.mcp")

Opened = Callable[[End], AbstractAsyncContextManager[Streams]]
"""Opens the transport; what it is given is told when the other side goes by itself."""
Result = CallToolResult | InputRequiredResult
_RESULT: TypeAdapter[Result] = TypeAdapter(Result)
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds before a second attempt, and at most, doubling in between."""
CALM = 0.5
"""Seconds without a change of the list before it is read again."""


@dataclass(slots=True, eq=False)
class Known:
    """What is remembered of a server from one connection to the next."""

    era: Era | None = None
    accepted: dict[str, str] = field(default_factory=dict[str, str])
    """Digest of each definition that was first seen, by name of the tool."""
    failures: int = 0
    """Attempts that failed in a row."""
    retry_at: float = 0.0
    """Moment of the loop's clock before which nothing is tried."""


@dataclass(slots=True, eq=False)
class Link:
    """An open connection."""

    session: ClientSession
    era: Era
    protocol: str
    server: str
    listing: Listing
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server says that its list changed."""


class Connection:
    """A connection that callers share. One task enters it, keeps it, and leaves it."""

    def __init__(self, server: McpServer, opened: Opened, known: Known, version: str) -> None:
        self._server, self._opened, self._known = server, opened, known
        self._info = Implementation(name="loom-ia", version=version)
        self._opening = asyncio.Lock()
        self._link: Link | None = None
        self._stop = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._last = ""

    @property
    def listing(self) -> Listing | None:
        """The tools of the open connection."""
        return self._link.listing if self._link is not None else None

    async def link(self, *, patient: bool = False) -> Link:
        """The open connection. A patient caller waits for the moment of the next attempt.

        Raises:
            SourceUnreachableError: it cannot be opened now.

        """
        async with self._opening:
            if self._link is not None and not self._link.lost.is_set():
                return self._link
            await self._closed()
            await self._allowed(patient=patient)
            return await self._begun()

    async def _allowed(self, *, patient: bool) -> None:
        """Wait or refuse until a new attempt may be made."""
        loop, known = asyncio.get_running_loop(), self._known
        left = known.retry_at - loop.time()
        if left <= 0:
            return
        open_circuit = known.failures >= self._server.circuit_breaker.failures
        if open_circuit or not patient:
            said_again = f"{self._last}; next attempt in {left:.1f} s"
            raise SourceUnreachableError(said_again)
        await asyncio.sleep(left)

    async def _begun(self) -> Link:
        ready: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._owner = asyncio.create_task(self._own(ready), name=f"mcp-{self._server.name}")
        try:
            link = await asyncio.shield(ready)
        except asyncio.CancelledError:
            await self._closed()
            raise
        except SourceUnreachableError as error:
            self._failed(str(error))
            await self._closed()
            raise
        self._link, self._known.failures = link, 0
        return link

    def _failed(self, reason: str) -> None:
        known, breaker = self._known, self._server.circuit_breaker
        known.failures += 1
        self._last = reason
        delay = min(FIRST_DELAY * 2 ** (known.failures - 1), LONGEST_DELAY)
        if known.failures >= breaker.failures:
            delay = max(breaker.cooldown, delay)
        known.retry_at = asyncio.get_running_loop().time() + delay

    async def _own(self, ready: asyncio.Future[Link]) -> None:
        """The whole life of one connection, in one task."""
        end = End()
        try:
            async with self._opened(end) as (read, write):
                session = ClientSession(
                    read, write, message_handler=self._heard, client_info=self._info
                )
                await self._kept(ready, end, session)
        except Exception as error:  # noqa: BLE001  the border of a library's task groups
            end.lost.set()
            first = _first(error)
            known = isinstance(first, SourceUnreachableError)
            _fail(ready, first if known else SourceUnreachableError(_told(first)))

    async def _kept(self, ready: asyncio.Future[Link], end: End, session: ClientSession) -> None:
        async with session:
            try:
                with anyio.fail_after(self._server.connect_timeout):
                    link = await self._greeted(session, end)
            except (MCPError, ValidationError, RuntimeError, TimeoutError) as error:
                if isinstance(error, MCPError) and error.code not in OUTAGE:
                    self._known.era = None  # what was known is contradicted: ask again next time
                reason = self._silence(error)
                if end.lost.is_set() and (words := await end.words()):
                    reason = f"{reason} ({words})"
                raise SourceUnreachableError(reason) from error
            if not ready.done():
                ready.set_result(link)
            await self._tended(link)

    def _silence(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self._server.connect_timeout:g} s"
        return _told(error)

    async def _greeted(self, session: ClientSession, end: End) -> Link:
        known = self._known
        era = await negotiate(session, known.era)
        if known.era is None:
            logger.info("server %s speaks %s", self._server.name, session.protocol_version)
        known.era = era
        listing = await listed(session, self._server.max_tools)
        protocol, server = session.protocol_version or "", named(session.server_info)
        link = Link(session, era, protocol, server, listing, end.lost)
        self._link = link
        return link

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification) and self._link is not None:
            self._link.moved.set()

    async def _tended(self, link: Link) -> None:
        """Keep the connection until it is lost or no longer wanted, its list up to date."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._relisted, link)
            if link.era == "stateless" and _announces(link):
                group.start_soon(self._subscribed, link)
            waited = {asyncio.ensure_future(e.wait()) for e in (link.lost, self._stop)}
            try:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waited:
                    one.cancel()
                group.cancel_scope.cancel()

    async def _subscribed(self, link: Link) -> None:
        """Hear of changes where the protocol has no session to tell them in."""
        with suppress(Exception):  # without it, the next connection sees what changed
            async with listen(link.session, tools_list_changed=True) as events:
                async for _ in events:
                    link.moved.set()

    async def _relisted(self, link: Link) -> None:
        """Read the list again, once it has been calm for a while."""
        while True:
            await link.moved.wait()
            link.moved.clear()
            await anyio.sleep(CALM)
            if link.moved.is_set():
                continue
            try:
                link.listing = await listed(link.session, self._server.max_tools)
            except (MCPError, ValidationError) as error:
                logger.warning("tools of %s: %s", self._server.name, _told(error))

    async def call(
        self, name: str, arguments: Mapping[str, object], on_progress: ProgressFnT
    ) -> Result:
        """Ask for one call, once. What is not sent, and what is lost, are told apart.

        Raises:
            SourceUnreachableError: there is no connection; nothing was sent.
            MCPError: the server, or the transport, says that there is no result.
            ValidationError: the server answered something else than a result.

        """
        link = await self.link(patient=True)
        params = CallToolRequestParams(name=name, arguments=dict(arguments))
        try:
            return await link.session.send_request(
                CallToolRequest(params=params), _RESULT, progress_callback=on_progress
            )
        except MCPError as error:
            if error.code == FORGOTTEN:  # the next call greets the server again
                link.lost.set()
            raise

    async def _closed(self) -> None:
        """Leave the connection, if there is one."""
        owner, self._owner, self._link = self._owner, None, None
        self._stop.set()
        if owner is None:
            return
        with suppress(asyncio.CancelledError):
            done, _ = await asyncio.wait({owner}, timeout=self._server.connect_timeout)
            if not done:
                owner.cancel()
                await asyncio.wait({owner})

    async def aclose(self) -> None:
        """Leave for good."""
        async with self._opening:
            await self._closed()


def _announces(link: Link) -> bool:
    capabilities = link.session.server_capabilities
    return bool(capabilities and capabilities.tools and capabilities.tools.list_changed)


def _fail(ready: asyncio.Future[Link], error: SourceUnreachableError) -> None:
    if not ready.done():
        ready.set_exception(error)


def _told(error: BaseException) -> str:
    """Why a connection failed, in one line."""
    first = _first(error)
    if isinstance(first, MCPError):
        return said(first)
    text = " ".join(str(first).split())[:300]
    return f"{type(first).__name__}: {text}" if text else type(first).__name__


def _first(error: BaseException) -> BaseException:
    """The first of the errors that a group of tasks gathered."""
    inner: object = getattr(error, "exceptions", None)
    while isinstance(inner, tuple) and inner and isinstance(inner[0], BaseException):
        error = inner[0]
        inner = getattr(error, "exceptions", None)
    return error
