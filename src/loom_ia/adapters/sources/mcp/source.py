"""The tools of one server as the engine knows them: offered, called, their outcomes told apart."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
)

from loom_ia.adapters.sources.mcp.connection import Connection, Known, Link
from loom_ia.adapters.sources.mcp.faults import GONE, TOO_LARGE, UNDONE, said
from loom_ia.adapters.sources.mcp.listing import Described
from loom_ia.core.ports import (
    Answered,
    Blob,
    Change,
    Holder,
    Offer,
    Offering,
    SourceUnreachableError,
    ToolContext,
    ToolError,
    ToolLostError,
)
from loom_ia.core.sources import McpServer
from loom_ia.core.wording import Language, say

Connect = Callable[[Known], Connection]


class McpSource:
    """A server of the configuration, by the connections that its scope allows."""

    def __init__(self, server: McpServer, connect: Connect, language: Language) -> None:
        self._server, self._connect = server, connect
        self._language: Language = language
        self._known: dict[str, Known] = {}
        self._kept: dict[str, Connection] = {}

    @asynccontextmanager
    async def open(self, holder: Holder) -> AsyncGenerator[Offering]:
        """The tools, for one drive of a run."""
        place = holder.tenant_id if self._server.scope == "tenant" else ""
        known = self._known.setdefault(place, Known())
        if self._server.scope != "run":
            connection = self._kept.get(place)
            if connection is None:
                connection = self._kept[place] = self._connect(known)
            yield self._offering(connection, known, await connection.link())
            return
        connection = self._connect(known)
        try:
            yield self._offering(connection, known, await connection.link(patient=True))
        finally:
            await asyncio.shield(connection.aclose())

    async def aclose(self) -> None:
        """Leave every connection."""
        for connection in self._kept.values():
            await connection.aclose()

    def _offering(self, connection: Connection, known: Known, link: Link) -> Offering:
        listing, accepted = link.listing, known.accepted
        left_out = dict(listing.left_out)
        for name, described in listing.tools.items():
            if self._server.on_change == "accept":
                accepted[name] = described.digest
            if accepted.setdefault(name, described.digest) != described.digest:
                left_out[name] = "withdrawn"
        offered = {n: d for n, d in listing.tools.items() if n not in left_out}
        return Offering(
            offers=[self._offer(connection, name, one) for name, one in offered.items()],
            digest=listing.digest,
            protocol=link.protocol,
            era=link.era,
            server=link.server,
            left_out=left_out,
            changes=_Watch(connection, {n: d.digest for n, d in listing.tools.items()}).changes,
        )

    def _offer(self, connection: Connection, name: str, described: Described) -> Offer:
        tool = described.tool

        def withdrawn() -> bool:
            listing = connection.listing
            now = listing.tools.get(name) if listing is not None else described
            return now is not None and now.digest != described.digest

        return Offer(
            name=name,
            description=tool.description or tool.title or "",
            input_schema=tool.input_schema,
            definition=described.digest,
            call=partial(self._call, connection, name, withdrawn),
            side_effects=described.side_effects,
            idempotent=described.idempotent,
            withdrawn=withdrawn,
        )

    async def _call(
        self,
        connection: Connection,
        name: str,
        withdrawn: Callable[[], bool],
        arguments: Mapping[str, object],
        context: ToolContext,
    ) -> Answered:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, message or "")

        try:
            await connection.link(patient=True)
            if withdrawn():  # what a new connection found
                raise ToolError(say(self._language, "withdrawn", name=name))
            result = await connection.call(name, arguments, told)
        except SourceUnreachableError as error:
            text = say(self._language, "not_sent", source=self._server.name, reason=str(error))
            raise ToolError(text) from error
        except MCPError as error:
            return self._refused(error)
        if isinstance(result, InputRequiredResult):
            raise ToolError(say(self._language, "asks", source=self._server.name))
        return _answered(result)

    def _refused(self, error: MCPError) -> Answered:
        """What is made of a call that has no result."""
        if error.code == TOO_LARGE:
            limit = self._server.max_message
            return Answered((say(self._language, "too_large", limit=limit),), is_error=True)
        if error.code in UNDONE:
            raise ToolError(said(error)) from error
        if error.code in GONE:
            raise ToolLostError(said(error)) from error
        raise McpCallError(said(error)) from error


class McpCallError(Exception):
    """The server says that something went wrong, not whether the call had acted."""


class _Watch:
    """Tells once each state of a list that is not the one that was offered."""

    def __init__(self, connection: Connection, offered: Mapping[str, str]) -> None:
        self._connection, self._seen = connection, offered

    def changes(self) -> tuple[Change, ...]:
        """What moved since it was last asked."""
        listing = self._connection.listing
        if listing is None:
            return ()
        now = {name: one.digest for name, one in listing.tools.items()}
        before, self._seen = self._seen, now
        if now == before:
            return ()
        return (
            Change(
                listing.digest,
                added=tuple(sorted(now.keys() - before.keys())),
                removed=tuple(sorted(before.keys() - now.keys())),
                changed=tuple(n for n in sorted(now.keys() & before.keys()) if now[n] != before[n]),
            ),
        )


def _answered(result: CallToolResult) -> Answered:
    """A result as texts and bytes; what only a machine reads is told when nothing else is."""
    parts = tuple(part for block in result.content for part in _parts(block))
    if not parts and result.structured_content is not None:
        parts = (json.dumps(result.structured_content, ensure_ascii=False),)
    return Answered(parts or ("",), is_error=result.is_error)


def _parts(block: object) -> tuple[str | Blob, ...]:
    match block:
        case TextContent():
            return (block.text,)
        case ImageContent() | AudioContent():
            return (_blob(block.data, block.mime_type),)
        case ResourceLink():
            return (f"{block.title or block.name}: {block.uri}",)
        case EmbeddedResource(resource=BlobResourceContents() as held):
            return (_blob(held.blob, held.mime_type or "application/octet-stream"),)
        case EmbeddedResource():
            return (str(getattr(block.resource, "text", "")),)
        case _:
            return ()


def _blob(data: str, media_type: str) -> str | Blob:
    try:
        return Blob(base64.b64decode(data, validate=True), media_type)
    except ValueError:
        return f"[{media_type}: {len(data)} characters that are not base64]"
