"""The HTTP transport: what happens to one request is told apart, and touches no other request.

Nothing here sends a request twice: what was lost on the way is said to be lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeGuard

import httpx2
from mcp.client.streamable_http import streamable_http_client

from loom_ia.adapters.sources.mcp.faults import (
    BUSY,
    FORGOTTEN,
    LOST,
    NOT_SENT,
    REFUSED,
    TOO_LARGE,
)
from loom_ia.adapters.sources.mcp.program import Streams

logger = logging.getLogger("loom_ia.mcp")

OPENING = 10.0
"""Seconds to connect."""
SILENCE = 300.0
"""Seconds between two pieces of an answer; the tool's own timeout is shorter most of the time."""
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_SESSION = "mcp-session-id"
ERROR, UNAUTHORISED, FORBIDDEN, ABSENT, BROKEN = 400, 401, 403, 404, 500
TOO_MANY, UNAVAILABLE = 429, 503


@asynccontextmanager
async def reached(url: str, headers: Mapping[str, str], limit: int) -> AsyncGenerator[Streams]:
    """Streams to a server at an address."""
    timeout = httpx2.Timeout(OPENING, read=SILENCE)
    secure = url.startswith("https:")
    trust = await asyncio.to_thread(httpx2.create_ssl_context) if secure else None
    client = httpx2.AsyncClient(
        headers=dict(headers), timeout=timeout, transport=Wire(limit, trust), follow_redirects=False
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        yield streams  # pyright: ignore[reportReturnType] reason: memory streams that know a context


class Wire(httpx2.AsyncBaseTransport):
    """Turns what goes wrong with a request into an answer to that request alone."""

    def __init__(self, limit: int, trust: ssl.SSLContext | None) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=trust or False)
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it once."""
        asked = _asked(request)
        try:
            response = await self._inner.handle_async_request(request)
        except _UNSENT as error:
            return _fault(request, asked, NOT_SENT, _reason(error))
        except httpx2.TransportError as error:
            return _fault(request, asked, LOST, _reason(error))
        if asked is None:
            return response
        if response.status_code >= ERROR:
            return await self._refused(request, asked, response)
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            return await self._whole(request, asked, response)
        return response

    async def _refused(
        self, request: httpx2.Request, asked: object, response: httpx2.Response
    ) -> httpx2.Response:
        """A refusal, in the server's own words when they are JSON-RPC."""
        body = await self._body(response)
        if isinstance(body, bytes) and _is_error(body):
            return _answer(request, body, response.status_code)
        status = response.status_code
        reason = f"HTTP {status}"
        if status in {UNAUTHORISED, FORBIDDEN}:
            return _fault(request, asked, REFUSED, reason)
        if status in {TOO_MANY, UNAVAILABLE}:
            return _fault(request, asked, BUSY, reason)
        if status == ABSENT and _SESSION in request.headers:
            return _fault(request, asked, FORGOTTEN, reason)
        if status >= BROKEN:
            return _fault(request, asked, LOST, reason)
        return httpx2.Response(status, request=request)

    async def _whole(
        self, request: httpx2.Request, asked: object, response: httpx2.Response
    ) -> httpx2.Response:
        """An answer read to its end, unless it is cut or too long."""
        body = await self._body(response)
        if body is None:
            return _fault(request, asked, LOST, "the answer was cut")
        if isinstance(body, int):
            return _fault(request, asked, TOO_LARGE, str(body))
        made = _answer(request, body, response.status_code)
        if (session := response.headers.get(_SESSION)) is not None:
            made.headers[_SESSION] = session
        return made

    async def _body(self, response: httpx2.Response) -> bytes | int | None:
        """The body; its size so far when it is too long; None when it was cut."""
        kept = bytearray()
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            return b""
        try:
            async for chunk in _decoded(response):
                kept += chunk
                if len(kept) > self._limit:
                    return len(kept)
        except (httpx2.TransportError, httpx2.DecodingError):
            return None
        finally:
            await response.aclose()
        return bytes(kept)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _decoded(response: httpx2.Response) -> AsyncIterator[bytes]:
    return response.aiter_bytes()


def _asked(request: httpx2.Request) -> object:
    """Id of the JSON-RPC request; None for what expects no answer."""
    if request.method != "POST":
        return None
    try:
        message: object = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return message.get("id") if _mapping(message) and "method" in message else None


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _is_error(body: bytes) -> bool:
    try:
        message: object = json.loads(body)
    except ValueError:
        return False
    return _mapping(message) and "error" in message and "jsonrpc" in message


def _fault(request: httpx2.Request, asked: object, code: int, reason: str) -> httpx2.Response:
    """Our own answer to a request that has none; an empty acceptance where none is expected."""
    if asked is None:
        return httpx2.Response(405 if request.method == "GET" else 202, request=request)
    error = {"code": code, "message": reason}
    body = json.dumps({"jsonrpc": "2.0", "id": asked, "error": error}).encode()
    return _answer(request, body, ERROR)


def _answer(request: httpx2.Request, body: bytes, status: int) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return httpx2.Response(status, headers=headers, content=body, request=request)


def _reason(error: Exception) -> str:
    """What went wrong, without the address, which may hold a secret."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
