"""JSON Schema of the journal: the contract on which a reader of events can rely."""

from __future__ import annotations

from pydantic import TypeAdapter

from loom_ia.core.events.envelope import SCHEMA_VERSION, TYPES, Event

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def events_schema() -> dict[str, object]:
    """Schema of one line of a journal: the envelope, and the payload of each type."""
    envelope = Event.model_json_schema(mode="serialization")
    definitions: dict[str, object] = {}
    branches: list[object] = []
    for name, payload in sorted(TYPES.items()):
        schema = TypeAdapter(payload).json_schema(
            mode="serialization", ref_template="#/$defs/{model}"
        )
        definitions |= schema.pop("$defs", {})
        definitions[payload.__name__] = schema
        reference = {"$ref": f"#/$defs/{payload.__name__}"}
        branches.append(
            {
                "if": {"properties": {"type": {"const": name}}},
                "then": {"properties": {"payload": reference}},
            }
        )
    properties: dict[str, object] = envelope["properties"]
    properties["payload"] = {"type": "object"}
    return {
        "$schema": _DIALECT,
        "title": f"Loom-IA event, version {SCHEMA_VERSION}",
        "type": "object",
        "properties": properties,
        "required": envelope["required"],
        "allOf": branches,
        "$defs": definitions,
    }
