"""Conversations: listed, shown, exported, counted, erased."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from loom_ia.access.http.answers import answered, refusals
from loom_ia.access.http.bodies import Page
from loom_ia.access.http.service import Admin, ContentReader, Reader, Served
from loom_ia.core.projections.report import Report
from loom_ia.core.projections.view import ErasedSession, SessionDetail, SessionPage

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])
LINES = "application/x-ndjson"


@router.get(
    "", response_model=SessionPage, responses=refusals(422), summary="Sessions, newest first"
)
async def sessions(service: Served, caller: Reader, page: Annotated[Page, Query()]) -> Response:
    """Give a page of the conversations."""
    found = await service.loom.sessions(tenant=caller.tenant, after=page.after, limit=page.limit)
    return answered(found)


@router.get(
    "/{session_id:path}/events",
    response_class=Response,
    responses={
        200: {
            "description": "Events, then the contents that they name, one JSON object a line",
            "content": {LINES: {"schema": {"type": "string"}}},
        },
        **refusals(404, 409, 422),
    },
    summary="Journal of a session, as JSON lines",
)
async def exported(service: Served, caller: ContentReader, session_id: str) -> Response:
    """Export a whole session; a last line that lacks `end` says that the export was cut."""
    lines = service.loom.export_session(session_id, tenant=caller.tenant)
    first = await anext(lines)  # what is refused is refused before anything is sent
    return StreamingResponse(_bytes(first, lines), media_type=LINES)


async def _bytes(first: str, lines: AsyncGenerator[str]) -> AsyncGenerator[bytes]:
    async with aclosing(lines):
        yield f"{first}\n".encode()
        async for line in lines:
            yield f"{line}\n".encode()


@router.get(
    "/{session_id:path}/report",
    response_model=Report,
    responses=refusals(404, 422),
    summary="Consumption of a session",
)
async def report(service: Served, caller: Reader, session_id: str) -> Response:
    """Count the tokens and dollars of a conversation."""
    return answered(await service.loom.report(session=session_id, tenant=caller.tenant))


@router.get(
    "/{session_id:path}",
    response_model=SessionDetail,
    responses=refusals(404, 409, 422),
    summary="A session and its runs, newest first",
)
async def session(
    service: Served, caller: Reader, session_id: str, page: Annotated[Page, Query()]
) -> Response:
    """Give a conversation and a page of its runs."""
    found = await service.loom.session(
        session_id, tenant=caller.tenant, after=page.after, limit=page.limit
    )
    return answered(found)


@router.delete(
    "/{session_id:path}",
    response_model=ErasedSession,
    responses=refusals(404, 409, 422),
    summary="Erase a session for good",
)
async def delete(service: Served, caller: Admin, session_id: str) -> Response:
    """Stop its runs, then erase its events, files and keys; the same when asked again."""
    erased = await service.loom.delete_session(session_id, by=caller.id, tenant=caller.tenant)
    return answered(erased)
