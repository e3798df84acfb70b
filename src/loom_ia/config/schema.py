"""JSON Schema of the configuration, for editors: the root file, and the agents' under `$defs`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import CoreSchema, core_schema

from loom_ia.config.model import LoomConfig

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _WithDocstrings(GenerateJsonSchema):
    """Descriptions of fields come from the docstrings under them."""

    schema_dialect = DIALECT

    def generate(
        self, schema: CoreSchema, mode: JsonSchemaMode = "validation"
    ) -> dict[str, object]:
        return {"$schema": DIALECT, **super().generate(schema, mode)}

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, object]:
        """Schema of one model."""
        written = super().model_schema(schema)
        properties: dict[str, dict[str, object]] = written.get("properties", {})
        for name, text in field_docstrings(schema["cls"]).items():
            field = schema["cls"].model_fields.get(name)
            shown = (field.alias if field else None) or name
            if shown in properties:
                properties[shown].setdefault("description", text)
        return written


def json_schema() -> dict[str, object]:
    """Schema of `loom.yaml` (draft 2020-12); an agent's file follows `#/$defs/AgentSpec`."""
    schema = LoomConfig.model_json_schema(schema_generator=_WithDocstrings)
    return {**schema, "title": "loom.yaml"}


@cache
def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Docstring under each field of a model's class, and of those that it extends."""
    described: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if issubclass(part, BaseModel) and part is not BaseModel:
            described |= _docstrings(part)
    return described


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    described: dict[str, str] = {}
    for node, after in zip(found.body, found.body[1:], strict=False):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                described[name] = inspect.cleandoc(text)
            case _:
                continue
    return described
