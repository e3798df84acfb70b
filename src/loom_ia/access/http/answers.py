"""What routes answer: models as they are, and what each may be refused with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from loom_ia.access.http.problems import MEDIA_TYPE, TITLES
from loom_ia.core.projections.report import Line
from loom_ia.core.projections.view import RunResult

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom


class RunAnswer(RunResult):
    """What a run produced so far, and what it cost."""

    breakdown: tuple[Line, ...] = ()
    """Tokens and dollars by role, then by model."""


class AgentCard(BaseModel):
    """An agent that may be asked."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True
    )

    name: str
    description: str
    model: str
    """Id of the model that leads."""
    tools: tuple[str, ...]


class AgentList(BaseModel):
    """The agents that may be asked."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True
    )

    agents: tuple[AgentCard, ...]


async def answer_of(loom: Loom, result: RunResult) -> RunAnswer:
    """A result with its breakdown."""
    report = await loom.report(result.run_id, tenant=result.tenant_id)
    return RunAnswer.model_construct(**dict(result), breakdown=report.lines)


def answered(
    model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A model as JSON, exactly as it is: it was built by us, nobody checks it again."""
    return Response(model.model_dump_json(), status, headers, media_type="application/json")


def refusals(*statuses: int) -> dict[int | str, dict[str, object]]:
    """What a route may be refused with, beside what all are."""
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    every = sorted({401, 403, 429, 500, 503, *statuses})
    return {
        status: {"description": TITLES[status].msgid, "content": dict(problem)} for status in every
    }
