"""The description of the API, completed with what the framework cannot read from the routes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel

from loom_ia.access.http.bodies import RunBody
from loom_ia.access.http.caller import Scope
from loom_ia.access.http.problems import Problem
from loom_ia.access.http.service import SCOPES
from loom_ia.core.events.schema import events_schema

REF = "#/components/schemas/"


def describe(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Make the application give the whole description of its routes."""

    def document() -> dict[str, object]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, routers)
        return app.openapi_schema

    setattr(app, "openapi", document)  # noqa: B010  as FastAPI says to extend it


def _document(app: FastAPI, routers: Iterable[APIRouter]) -> dict[str, object]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        routes=app.routes,
    )
    schemas: dict[str, object] = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for model in (Problem, RunBody):
        _add(schemas, model.__name__, model)
    _journal(schemas)
    paths: dict[str, dict[str, dict[str, object]]] = document["paths"]
    for path, method, scopes in scoped(routers):
        paths[path][method]["x-scopes"] = list(scopes)
    _link(paths)
    return document


def _link(paths: dict[str, dict[str, dict[str, object]]]) -> None:
    """Say what can be asked next of a run that was just asked for."""
    given = {"run_id": "$response.body#/run_id"}
    links: dict[str, object] = {
        name: {"operationId": f"runs_{name}", "parameters": given}
        for name in ("run", "report", "approve", "reject", "cancel", "resume")
    }
    links["trace"] = {"operationId": "journal_trace", "parameters": given}
    session = {"session_id": "$response.body#/session_id"}
    for name in ("session", "report", "exported", "delete"):
        links[f"session_{name}"] = {"operationId": f"sessions_{name}", "parameters": session}
    responses: dict[str, dict[str, object]] = json.loads(
        json.dumps(paths["/v1/agents/{name}/runs"]["post"]["responses"])
    )
    for status in ("200", "202"):
        responses[status]["links"] = links
    paths["/v1/agents/{name}/runs"]["post"]["responses"] = responses


def scoped(routers: Iterable[APIRouter]) -> Iterator[tuple[str, str, tuple[Scope, ...]]]:
    """Path, method and scopes of each route."""
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute):
            needed = [SCOPES.get(one.call, ()) for one in route.dependant.dependencies]
            for method in sorted(route.methods or ()):
                yield route.path_format, method.lower(), tuple(s for one in needed for s in one)


def _add(schemas: dict[str, object], name: str, model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template=REF + "{model}")
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema


def _journal(schemas: dict[str, object]) -> None:
    """Put the schema of the journal in the place of the bare envelope."""
    schema = events_schema()
    schema.pop("$schema")
    moved: dict[str, object] = json.loads(json.dumps(schema).replace('"#/$defs/', f'"{REF}event.'))
    definitions: dict[str, object] = json.loads(json.dumps(moved.pop("$defs")))
    schemas |= {f"event.{name}": definition for name, definition in definitions.items()}
    schemas["Event"] = moved
    schemas.pop("Payload", None)
