"""Errors as problem documents (RFC 9457): one shape, whatever went wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response

from loom_ia.access.http.caller import UnauthenticatedError
from loom_ia.config.errors import dotted
from loom_ia.config.problems import explained
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text

logger = logging.getLogger("loom_ia.access.http")

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[Kind, HTTPStatus] = {
    Kind.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.CONFIG: HTTPStatus.INTERNAL_SERVER_ERROR,
    Kind.MISSING: HTTPStatus.NOT_FOUND,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Kind.LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.BROKEN: HTTPStatus.INTERNAL_SERVER_ERROR,
}
TITLES: Mapping[int, Text] = {
    401: Text("A key is needed"),
    403: Text("Not allowed"),
    404: Text("Not found"),
    405: Text("This method is not served here"),
    409: Text("Somebody else came first"),
    413: Text("The request is too large"),
    415: Text("This type of content is not read here"),
    422: Text("The request is wrong"),
    429: Text("A limit is reached"),
    500: Text("Something is broken"),
    503: Text("Not available for now"),
}
CODES: Mapping[int, str] = {
    404: "not_found",
    405: "method_not_allowed",
    413: "content_too_large",
    415: "unsupported_media_type",
}
"""Of what the framework refuses by itself: phrases differ from one Python to the next."""
LATER = 1.0
"""Seconds after which to ask again, where nothing better is known."""


Where = Literal["body", "path", "query"]


class Fault(BaseModel):
    """One thing that is wrong in a request."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True
    )

    where: Where
    key: str
    """Path of the value, as `context.user`; empty for the whole."""
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True
    )

    type: str
    """`urn:loom-ia:error:<code>`."""
    title: str
    status: int
    detail: str
    """What is wrong, with which value, and what to do, in the language of Accept-Language."""
    code: str
    """Stable name of the error."""
    kind: str
    """What can be done about it: `invalid`, `missing`, `conflict`, `forbidden`, `limited`, …"""
    instance: str = ""
    """Path that was asked."""
    faults: tuple[Fault, ...] = Field(default=())
    """Each wrong value of a request that cannot be read."""


class RequestUnreadableError(LoomError):
    """A request is not what the route reads; `faults` holds everything that is wrong."""

    kind = Kind.INVALID
    template = "{faults}"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        told = (f"{f.key}: {f.message}" if f.key else f.message for f in self.faults)
        super().__init__(faults="; ".join(told))


def problem(request: Request, status: int, named: tuple[str, str], detail: object) -> Problem:
    """What went wrong, by its code and its kind."""
    code, kind = named
    return Problem(
        type=f"urn:loom-ia:error:{code}",
        title=str(TITLES.get(status, HTTPStatus(status).phrase)),
        status=status,
        detail=str(detail),
        code=code,
        kind=kind,
        instance=request.url.path,
    )


def told(request: Request, error: LoomError) -> Problem:
    """An error, as a problem."""
    faults = error.faults if isinstance(error, RequestUnreadableError) else ()
    found = problem(request, status_of(error), (error.code, error.kind.value), error)
    return found.model_copy(update={"faults": faults})


def _response(found: Problem, headers: Mapping[str, str] | None = None) -> Response:
    text = found.model_dump_json(exclude_defaults=True)
    return Response(text, found.status, headers, media_type=MEDIA_TYPE)


def status_of(error: LoomError) -> int:
    """Status that tells an error, by its kind."""
    if isinstance(error, UnauthenticatedError):
        return HTTPStatus.UNAUTHORIZED
    return STATUSES[error.kind]


def install(app: FastAPI) -> None:
    """Tell every error of an application as a problem."""
    app.add_exception_handler(LoomError, _refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _plain)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, LoomError):  # the signature of handlers is wider than their use
        return await unexpected(request, error)
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("%s %s: %s", request.method, request.url.path, error.code, exc_info=error)
    return _response(told(request, error), _headers(error, status))


def _headers(error: LoomError, status: int) -> Mapping[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": "Bearer"}
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        wait = error.params.get("retry_after", LATER)
        return {"Retry-After": str(max(1, ceil(wait if isinstance(wait, int | float) else LATER)))}
    return {}


async def _unreadable(request: Request, error: Exception) -> Response:
    details: Iterable[ErrorDetails] = ()
    if isinstance(error, RequestValidationError):
        details = error.errors()
    return await _refused(request, RequestUnreadableError(map(fault, details)))


def fault(
    detail: ErrorDetails, model: type[BaseModel] | None = None, where: Where | None = None
) -> Fault:
    """What pydantic found wrong in a request; without `where`, its location begins with it."""
    loc = detail["loc"]
    if where is None:
        where, loc = _where(loc[0] if loc else ""), loc[1:]
    if detail["type"] == "json_invalid":
        return Fault(where="body", key="", message=str(Text("JSON is expected")))
    return Fault(where=where, key=dotted(loc), message=str(explained(detail, model, loc)))


def _where(name: object) -> Where:
    return "path" if name == "path" else "query" if name == "query" else "body"


async def _plain(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an unknown path, a method, a body too large."""
    if not isinstance(error, HTTPException):
        return await unexpected(request, error)
    status = error.status_code
    if status == HTTPStatus.BAD_REQUEST:
        body = Fault(where="body", key="", message=str(Text("the body cannot be read")))
        return await _refused(request, RequestUnreadableError([body]))
    title = TITLES.get(status) or Text("The request was refused ({status})", {"status": status})
    code = CODES.get(status, f"http_{status}")
    kind = "missing" if status == HTTPStatus.NOT_FOUND else "invalid"
    return _response(problem(request, status, (code, kind), title), error.headers)


async def unexpected(request: Request, error: Exception) -> Response:
    """Response for what nobody foresaw: told in the logs, not to the caller."""
    logger.error("%s %s", request.method, request.url.path, exc_info=error)
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    detail = Text("An unexpected error happened; the logs of the server tell it")
    return _response(problem(request, status, ("unexpected", "broken"), detail))
