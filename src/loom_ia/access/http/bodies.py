"""What requests hold: JSON, or forms with files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Literal

from fastapi import Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from loom_ia.access.http.problems import Fault, RequestUnreadableError, fault
from loom_ia.core.events import Outcome
from loom_ia.core.text import Text
from loom_ia.runtime.listing import MOST

_STRICT = ConfigDict(
    frozen=True,
    extra="forbid",
    strict=True,
    allow_inf_nan=False,
    use_attribute_docstrings=True,
)
_QUERY = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

JSON = "application/json"
FORM = "multipart/form-data"
FILES = "attachments"
LONGEST_FIELD = 1024 * 1024
"""Bytes of one field of a form that is not a file."""


class RunBody(BaseModel):
    """A run that is asked for."""

    model_config = _STRICT

    message: str
    """What is asked of the agent."""
    session_id: str | None = None
    """Conversation that the run continues; a run without one is alone."""
    background: bool = False
    """Answer at once with the run's id (202), and let it go on."""
    judges: Literal["auto", "force", "skip"] = "auto"
    """Judges: as configured, all of them, or none (scope `admin`, refused in profile prod)."""
    context: dict[str, object] | None = None
    """Metadata of the caller, for the roles and tools that read it."""


class DecisionBody(BaseModel):
    """A decision on calls that wait."""

    model_config = _STRICT

    call: str | None = None
    """The call decided; without it, all those that wait."""
    reason: str = ""
    """Why, for the journal, and for the model when the call is refused."""
    on_behalf_of: str = ""
    """For whom the caller decides, in its own words."""
    happened: bool | None = None
    """Whether a call of unknown outcome acted; nothing is then launched."""


class ApprovalBody(DecisionBody):
    """A decision that lets calls leave."""

    arguments: dict[str, object] | None = None
    """Corrected arguments of one call."""


class CancelBody(BaseModel):
    """A run that must stop."""

    model_config = _STRICT

    reason: str = ""
    """Why, for the journal."""


class ResumeBody(BaseModel):
    """A run that must go on."""

    model_config = _STRICT

    now: bool = False
    """Take it even from a living driver."""


class Page(BaseModel):
    """Which page of a list."""

    model_config = _QUERY

    after: str = ""
    """`next` of the page before; empty for the first one."""
    limit: int = Field(default=50, ge=1, le=MOST)
    """Items, at most."""


class DeltaQuery(BaseModel):
    """What a stream gives beside the events of the journal."""

    model_config = _QUERY

    deltas: bool = False
    """Also give the text as it comes, as events without an id that are not given again."""


class StreamQuery(DeltaQuery):
    """Which events of a run."""

    after: int = Field(default=0, ge=0)
    """Position of the last event that was seen; Last-Event-ID wins over it."""


class RunQuery(Page):
    """Which runs; what is left out chooses all."""

    agent: str | None = None
    session_id: str | None = None
    ended: bool | None = None


class EventQuery(Page):
    """Which events, by their envelopes; what is left out chooses all."""

    session_id: str | None = None
    run_id: str | None = None
    type: list[str] = Field(default_factory=list[str])
    status: list[Outcome] = Field(default_factory=list[Outcome])
    since: AwareDatetime | None = None
    """First instant."""
    until: AwareDatetime | None = None
    """Instant before which they are."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A run that is asked for, and its files."""

    body: RunBody
    files: tuple[bytes, ...] = ()


async def read_run(request: Request, max_files: int) -> Asked:
    """What a request asks to run.

    Raises:
        RequestUnreadableError: everything that is wrong.
        HTTPException: a type of content that nobody reads (415), a form that is not one (400).

    """
    media_type = _media_type(request)
    if media_type == JSON:
        return Asked(_validated(await request.body()))
    if media_type == FORM:
        return await _form(request, max_files)
    raise HTTPException(415)


def _media_type(request: Request) -> str:
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    return message.get_content_type()


def _validated(text: bytes | str) -> RunBody:
    try:
        return RunBody.model_validate_json(text)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise RequestUnreadableError(fault(one, RunBody, "body") for one in details) from error


async def _form(request: Request, max_files: int) -> Asked:
    """Fields as texts, `context` as JSON, any number of files under one name."""
    fields: dict[str, object] = {}
    files: list[bytes] = []
    async with request.form(max_files=max_files + 1, max_part_size=LONGEST_FIELD) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name != FILES:
                    raise _wrong(name, Text("files are given as {name}", {"name": FILES}))
                files.append(await value.read())
            elif name in fields:
                raise _wrong(name, Text("given twice; give it once"))
            else:
                fields[name] = _read(name, value)
    return Asked(_validated(json.dumps(fields)), tuple(files))


def _read(name: str, value: str) -> object:
    """Value of a field: those that are not texts are written as in JSON."""
    if name not in {"context", "background"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise _wrong(name, Text("JSON is expected")) from None


def _wrong(name: str, text: Text) -> RequestUnreadableError:
    return RequestUnreadableError([Fault(where="body", key=name, message=str(text))])


def run_content() -> Mapping[str, object]:
    """Both bodies of the creation of a run, for the description of the API."""
    schema: dict[str, object] = {"$ref": "#/components/schemas/RunBody"}
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    properties: dict[str, object] = {
        "message": {"type": "string"},
        "session_id": {"type": "string"},
        "background": {"type": "string", "enum": ["true", "false"]},
        "judges": {"type": "string", "enum": ["auto", "force", "skip"]},
        "context": {"type": "string", "contentMediaType": JSON},
        FILES: files,
    }
    form: dict[str, object] = {
        "type": "object",
        "required": ["message"],
        "properties": properties,
        "additionalProperties": False,
    }
    return {JSON: {"schema": schema}, FORM: {"schema": form}}
