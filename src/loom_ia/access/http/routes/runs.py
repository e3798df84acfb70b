"""Runs: listed, read, decided, stopped, resumed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from loom_ia.access.http.answers import RunAnswer, answer_of, answered, refusals
from loom_ia.access.http.bodies import (
    ApprovalBody,
    CancelBody,
    DecisionBody,
    ResumeBody,
    RunQuery,
    StreamQuery,
)
from loom_ia.access.http.caller import Caller
from loom_ia.access.http.service import Approver, ContentReader, Reader, Runner, Served, Service
from loom_ia.access.http.sse import STREAM, followed
from loom_ia.core.projections.report import Report
from loom_ia.core.projections.view import RunPage, RunResult, RunView
from loom_ia.runtime.requests import DecisionOptions

router = APIRouter(prefix="/v1/runs", tags=["runs"])

LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        description="Position of the last event that was seen, as browsers send it again.",
    ),
]


@router.get("", response_model=RunPage, responses=refusals(422), summary="Runs, newest first")
async def runs(service: Served, caller: Reader, which: Annotated[RunQuery, Query()]) -> Response:
    """Give a page of the runs of the caller's tenant."""
    found = await service.loom.runs(
        tenant=caller.tenant,
        session=which.session_id,
        agent=which.agent,
        ended=which.ended,
        after=which.after,
        limit=which.limit,
    )
    return answered(found)


@router.get(
    "/{run_id:path}/report",
    response_model=Report,
    responses=refusals(404, 422),
    summary="Consumption of a run",
)
async def report(service: Served, caller: Reader, run_id: str) -> Response:
    """Count the tokens and dollars of a run."""
    return answered(await service.loom.report(run_id, tenant=caller.tenant))


@router.get(
    "/{run_id:path}/events",
    response_class=Response,
    responses={204: {"description": "The run has ended and all was seen"}, **STREAM}
    | refusals(404, 409, 422),
    summary="Follow a run, as server-sent events",
)
async def events(
    request: Request,
    service: Served,
    caller: ContentReader,
    run_id: str,
    which: Annotated[StreamQuery, Query()],
    last: LastEventId = None,
) -> Response:
    """Give the events of the journal that are missing, then those that come, whoever drives the
    run, until it has ended; a run that waits for a human is waited for.
    """
    after = which.after if last is None else last
    watched = service.loom.watch(run_id, tenant=caller.tenant, after=after)
    return await followed(request, service, watched, deltas=which.deltas)


@router.post(
    "/{run_id:path}/approve",
    response_model=RunAnswer,
    responses=refusals(404, 409, 422),
    summary="Let waiting calls leave, then go on with the run",
)
async def approve(
    service: Served, caller: Approver, run_id: str, body: ApprovalBody | None = None
) -> Response:
    """Approve one call, its arguments corrected if they are given, or all that wait."""
    asked = body or ApprovalBody()
    options = _decision(caller, asked)
    options["arguments"] = asked.arguments
    return await _told(service, service.loom.approve(run_id, by=caller.id, **options))


@router.post(
    "/{run_id:path}/reject",
    response_model=RunAnswer,
    responses=refusals(404, 409, 422),
    summary="Refuse waiting calls, then go on with the run",
)
async def reject(
    service: Served, caller: Approver, run_id: str, body: DecisionBody | None = None
) -> Response:
    """Refuse one call, or all that wait; the model is told why."""
    options = _decision(caller, body or DecisionBody())
    return await _told(service, service.loom.reject(run_id, by=caller.id, **options))


def _decision(caller: Caller, body: DecisionBody) -> DecisionOptions:
    return {
        "call": body.call,
        "reason": body.reason,
        "on_behalf_of": body.on_behalf_of,
        "happened": body.happened,
        "scopes": caller.scopes,
        "channel": "rest",
        "tenant": caller.tenant,
    }


async def _told(service: Service, work: Coroutine[object, object, RunResult]) -> Response:
    return answered(await answer_of(service.loom, await service.waited(work)))


@router.post(
    "/{run_id:path}/cancel",
    response_model=RunView,
    responses=refusals(404, 409, 422),
    summary="Stop a run, wherever it is driven",
)
async def cancel(
    service: Served, caller: Runner, run_id: str, body: CancelBody | None = None
) -> Response:
    """Ask a run to stop and wait for it, ten seconds at most; the same when asked again."""
    reason = body.reason if body else ""
    view = await service.loom.cancel(
        run_id, by=caller.id, channel="rest", tenant=caller.tenant, reason=reason
    )
    return answered(view)


@router.post(
    "/{run_id:path}/resume",
    response_model=RunAnswer,
    responses=refusals(404, 409, 422),
    summary="Go on with a run that was cut or failed",
)
async def resume(
    service: Served, caller: Runner, run_id: str, body: ResumeBody | None = None
) -> Response:
    """Drive a run from where its journal stopped to its end or its next wait."""
    work = service.loom.resume(
        run_id, by=caller.id, channel="rest", tenant=caller.tenant, now=bool(body and body.now)
    )
    return await _told(service, work)


@router.get(
    "/{run_id:path}",
    response_model=RunAnswer,
    responses=refusals(404, 422),
    summary="Status and result of a run",
)
async def run(service: Served, caller: ContentReader, run_id: str) -> Response:
    """Give what a run produced so far, and what it cost."""
    result = await service.loom.result(run_id, tenant=caller.tenant)
    return answered(await answer_of(service.loom, result))
