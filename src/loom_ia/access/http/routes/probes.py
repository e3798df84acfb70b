"""What machines ask of a server: whether it lives, whether it is ready, what it counted."""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import PlainTextResponse, Response

from loom_ia.access.http.answers import answered
from loom_ia.access.http.metrics import MEDIA_TYPE
from loom_ia.access.http.service import Service
from loom_ia.core.errors import LoomError
from loom_ia.core.text import Text

logger = logging.getLogger("loom_ia.access.http")
router = APIRouter(tags=["server"])

OPEN = Text("the API is open: anyone who reaches it may do everything; no key is declared")


class Health(BaseModel):
    """The process answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether requests can be served."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    status: Literal["ready", "unavailable"]
    reason: str = ""
    """Why it is not ready."""
    warnings: tuple[str, ...] = ()
    """What deserves a look."""


@router.get("/healthz", response_model=Health, summary="Whether the process answers")
async def health() -> Response:
    """Answer, whatever the state of the agents and of the store."""
    return answered(Health())


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not ready"}},
    summary="Whether requests can be served",
)
async def readiness(request: Request) -> Response:
    """Look at the agents and at the store."""
    service: Service = request.app.state.service
    warnings = (str(OPEN),) if service.open else ()
    reason = await _fault(service)
    if reason:
        found = Readiness(status="unavailable", reason=reason, warnings=warnings)
        return answered(found, 503)
    return answered(Readiness(status="ready", warnings=warnings))


async def _fault(service: Service) -> str:
    if not service.loom.entered or service.stopping.is_set():
        return str(Text("the agents are not open: the server starts or stops; ask again"))
    try:
        await service.loom.runs(limit=1)
    except LoomError as error:
        logger.warning("not ready: %s", error)
        return str(Text("the store does not answer"))
    return ""


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="What the server counted, as Prometheus reads it",
)
async def metrics(request: Request) -> Response:
    """Counts since the start of the process."""
    service: Service = request.app.state.service
    text = "".join(service.metrics.exposition())
    return Response(text, media_type=MEDIA_TYPE)
