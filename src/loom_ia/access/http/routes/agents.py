"""Agents: which there are, and asking one."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from loom_ia.access.http.answers import (
    AgentCard,
    AgentList,
    RunAnswer,
    answer_of,
    answered,
    refusals,
)
from loom_ia.access.http.bodies import Asked, DeltaQuery, read_run, run_content
from loom_ia.access.http.caller import Caller, require
from loom_ia.access.http.service import Reader, Runner, Served
from loom_ia.access.http.sse import CONTENT, followed
from loom_ia.access.http.sse import MEDIA_TYPE as EVENT_STREAM
from loom_ia.core.projections.view import RunView
from loom_ia.runtime.requests import SubmitOptions

router = APIRouter(prefix="/v1/agents", tags=["agents"])

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Asked again with the same key, the run is the first one's.",
    ),
]


@router.get("", response_model=AgentList, responses=refusals(), summary="Agents that may be asked")
async def agents(service: Served, caller: Reader) -> Response:
    """Give the agents that this door offers."""
    views = service.loom.agents
    cards = (
        AgentCard(name=v.name, description=v.description, model=v.model, tools=v.tools)
        for v in map(views.__getitem__, service.offered(caller))
    )
    return answered(AgentList(agents=tuple(cards)))


@router.post(
    "/{name}/runs",
    response_model=RunAnswer,
    responses={
        200: {"content": CONTENT},
        202: {"model": RunView, "description": "The run goes on in the background"},
        **refusals(404, 409, 413, 415, 422),
    },
    openapi_extra={"requestBody": {"required": True, "content": run_content()}},
    summary="Run an agent",
)
async def run(
    request: Request,
    service: Served,
    caller: Runner,
    name: str,
    which: Annotated[DeltaQuery, Query()],
    key: Key = None,
) -> Response:
    """Run an agent until it answers, fails, or waits for a human; closing the connection does not
    stop the run. In the background, answer once the run is on the disk. With `Accept:
    text/event-stream`, follow the run as `GET /v1/runs/{run_id}/events` does.
    """
    service.agent(caller, name)
    asked = await read_run(request, service.loom.config.execution.attachments.max_files)
    body, options = asked.body, _options(caller, asked, key)
    if body.judges == "skip":
        require(caller, "admin")
    stream = EVENT_STREAM in request.headers.get("accept", "")
    if stream or body.background:
        require(caller, *(("read", "read_content") if stream else ()))
        view = await service.loom.submit(name, body.message, **options)
        place = {"Location": f"/v1/runs/{quote(view.run_id, safe='')}"}
        if not stream:
            return answered(view, 202, place)
        watched = service.loom.watch(view.run_id, tenant=caller.tenant)
        return await followed(request, service, watched, deltas=which.deltas, headers=place)
    result = await service.waited(service.loom.run(name, body.message, **options))
    service.metrics.ended(name, result.status)
    return answered(await answer_of(service.loom, result))


def _options(caller: Caller, asked: Asked, key: str | None) -> SubmitOptions:
    body = asked.body
    return {
        "session": body.session_id,
        "tenant": caller.tenant,
        "attachments": asked.files,
        "context": body.context,
        "judges": body.judges,
        "by": caller.id,
        "channel": "rest",
        "key": key,
    }
