"""Streams of server-sent events: what a run does, as it does it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from loom_ia.access.http.metrics import Metrics
from loom_ia.access.http.problems import told
from loom_ia.access.http.service import Service
from loom_ia.core.errors import LoomError
from loom_ia.core.events import Event
from loom_ia.core.model import TextDelta
from loom_ia.engine.world import Shown

MEDIA_TYPE = "text/event-stream"
RETRY = 1000
"""Milliseconds after which a browser whose stream was cut asks again."""
ITEM: dict[str, object] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
}
"""One event of a stream: an event of the journal when it has an id."""
CONTENT: dict[str, object] = {MEDIA_TYPE: {"itemSchema": ITEM}}
STREAM: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Events of the run; `id` is the position of each in the run",
        "content": CONTENT,
    }
}
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A stream that is closed with its connection, and counted while it is open."""

    media_type = MEDIA_TYPE

    def __init__(
        self, frames: AsyncGenerator[bytes], metrics: Metrics, headers: Mapping[str, str]
    ) -> None:
        super().__init__(frames, headers={**HEADERS, **headers})
        self._frames, self._metrics = frames, metrics

    async def stream_response(self, send: Send) -> None:
        """Send each frame once the one before has left."""
        self._metrics.followers += 1
        try:
            async with aclosing(self._frames):
                await super().stream_response(send)
        finally:
            self._metrics.followers -= 1


async def followed(
    request: Request,
    service: Service,
    watched: AsyncGenerator[Shown | None],
    *,
    deltas: bool,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Response that follows a run: one event for each of the journal's, then an end.

    Nothing is left to follow: 204, on which browsers stop asking again.
    """
    try:
        first = await anext(watched)  # what is refused is refused before anything is sent
    except StopAsyncIteration:
        return Response(status_code=204)
    frames = _frames(request, service, first, watched, deltas=deltas)
    return EventStream(frames, service.metrics, headers or {})


async def _frames(
    request: Request,
    service: Service,
    first: Shown | None,
    watched: AsyncGenerator[Shown | None],
    *,
    deltas: bool,
) -> AsyncGenerator[bytes]:
    yield format_sse_event(retry=RETRY)
    silence, sent = service.loom.config.server.heartbeat, time.monotonic()
    async with aclosing(watched):
        item = first
        try:
            while not service.stopping.is_set():
                frame = _frame(item, deltas=deltas)
                if frame is None and time.monotonic() - sent >= silence:
                    frame = KEEPALIVE_COMMENT
                if frame is not None:
                    yield frame
                    sent = time.monotonic()
                item = await anext(watched)
        except StopAsyncIteration:
            return
        except LoomError as error:
            problem = told(request, error)
            yield format_sse_event(event="problem", data_str=problem.model_dump_json())


def _frame(item: Shown | None, *, deltas: bool) -> bytes | None:
    """An event with its position as id; text without one: it is not seen twice."""
    if isinstance(item, Event):
        text = item.encode().decode()
        return format_sse_event(event=item.type, data_str=text, id=str(item.position))
    if item is None or not deltas:
        return None
    name = "delta" if isinstance(item, TextDelta) else "discard"
    return format_sse_event(event=name, data_str=item.model_dump_json())
