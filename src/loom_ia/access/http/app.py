"""The application: its routes, its errors, its language, and the Loom that it opens."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loom_ia import locale
from loom_ia.access.http import problems
from loom_ia.access.http.caller import Authenticate, OpenApiRefusedError, anyone
from loom_ia.access.http.metrics import Metrics
from loom_ia.access.http.openapi import describe
from loom_ia.access.http.routes import agents, journal, probes, runs, sessions
from loom_ia.access.http.service import Service

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

logger = logging.getLogger("loom_ia.access.http")

ROUTERS = tuple(one.router for one in (agents, runs, sessions, journal, probes))
SPOKEN: Mapping[str, locale.Language] = {"fr": "fr", "en": "en"}
ROOM = 2 * 1024 * 1024
"""Bytes that a request may hold beside its files."""


def build(loom: Loom, authenticate: Authenticate | None) -> FastAPI:
    """See `create_app`."""
    if authenticate is None and loom.loaded.profile.name == "prod":
        raise OpenApiRefusedError
    service = Service(loom, authenticate or anyone, open=authenticate is None)
    files = loom.config.execution.attachments
    app = FastAPI(
        title="Loom-IA",
        version=version("loom-ia"),
        summary="Run and follow AI agents whose runs are their journal.",
        lifespan=_lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: f"{route.tags[0]}_{route.name}",
    )
    app.state.service = service
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    limit = files.max_bytes * (files.max_files + 1) + ROOM
    app.add_middleware(Desk, metrics=service.metrics, limit=limit)
    describe(app, ROUTERS)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Open the Loom, unless the application around this one did."""
    service: Service = app.state.service
    async with AsyncExitStack() as stack:
        if not service.loom.entered:
            await stack.enter_async_context(service.loom)
        await stack.enter_async_context(service.loom.serving())
        stack.callback(service.stopping.set)
        yield


class Desk:
    """Receives each request: speaks its language, counts it, logs it without any content.

    `limit`: bytes that the body of a request may have.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, limit: int) -> None:
        self._app, self._metrics, self._limit = app, metrics, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begun = 0, time.monotonic()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.in_progress += 1
        try:
            await self._spoken(scope, self._limited(receive), sent)
        except Exception as error:
            if status:  # half an answer has left: cutting the connection says so
                raise
            response = await problems.unexpected(Request(scope), error)
            await response(scope, receive, sent)
        finally:
            self._metrics.in_progress -= 1
            seconds = time.monotonic() - begun
            route = _pattern(scope)
            self._metrics.answered(scope["method"], route, status, seconds)
            logger.info("%s %s %s %.0f ms", scope["method"], route, status, seconds * 1000)

    def _limited(self, receive: Receive) -> Receive:
        taken = 0

        async def received() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        return received

    async def _spoken(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = language(Headers(scope=scope))
        if asked is None:
            await self._app(scope, receive, send)
            return
        with locale.speaking(asked):
            await self._app(scope, receive, send)


def _pattern(scope: Scope) -> str:
    """Path of a route as it is written, so that ids make neither labels nor log lines."""
    path: str = getattr(scope.get("route"), "path", "")
    return path.replace(":path}", "}") or "-"


def language(headers: Mapping[str, str]) -> locale.Language | None:
    """Language that a request prefers among ours; None when it names none of them."""
    best, found = 0.0, None
    for part in headers.get("accept-language", "").split(","):
        tag, _, parameter = part.partition(";")
        name = tag.strip().lower().partition("-")[0]
        weight = _weight(parameter)
        if weight > best and name in SPOKEN:
            best, found = weight, SPOKEN[name]
    return found


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
