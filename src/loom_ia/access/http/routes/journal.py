"""The journal as it can be searched, and the trees that are read from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from loom_ia.access.http.answers import answered, refusals
from loom_ia.access.http.bodies import EventQuery
from loom_ia.access.http.service import ContentReader, Served
from loom_ia.core.projections.trace import TraceRun
from loom_ia.core.projections.view import EventPage

router = APIRouter(prefix="/v1", tags=["journal"])


@router.get(
    "/events",
    response_model=EventPage,
    responses=refusals(422),
    summary="Events of every run, oldest first",
)
async def events(
    service: Served, caller: ContentReader, which: Annotated[EventQuery, Query()]
) -> Response:
    """Search the journal by what envelopes say: never in contents."""
    found = await service.loom.query(
        tenant=caller.tenant,
        session=which.session_id,
        run_id=which.run_id,
        types=which.type,
        statuses=which.status,
        since=which.since,
        until=which.until,
        after=which.after,
        limit=which.limit,
    )
    return answered(found)


@router.get(
    "/traces/{run_id:path}",
    response_model=TraceRun,
    responses=refusals(404, 422),
    summary="Trace of a run: its steps, their calls, what each took and gave",
)
async def trace(service: Served, caller: ContentReader, run_id: str) -> Response:
    """Give the tree of a run."""
    return answered(await service.loom.trace(run_id, tenant=caller.tenant))
