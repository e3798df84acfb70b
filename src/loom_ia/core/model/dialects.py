"""Schemas of answers as vendors take them: derived from the full one, which stays the judge.

A vendor holds its model to closed objects and a few words. What it does not understand is told to
the model as a description, and is checked here when the answer comes.

Source: https://docs.claude.com/en/docs/build-with-claude/structured-outputs and
https://platform.openai.com/docs/guides/structured-outputs
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.model.arguments import is_array, is_object
from loom_ia.core.model.spec import ModelSpec
from loom_ia.core.text import Text

Dialect = Literal["anthropic", "openai"]
Json = dict[str, object]
ROOT = "#"

_FORMATS: Mapping[Dialect, frozenset[str]] = {
    "openai": frozenset(
        {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
    ),
    "anthropic": frozenset(
        {
            "date",
            "date-time",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "time",
            "uri",
            "uuid",
        }
    ),
}
_STRUCTURE = frozenset(
    {"$defs", "additionalProperties", "allOf", "anyOf", "const", "definitions", "description"}
    | {"enum", "format", "items", "oneOf", "properties", "$ref", "required", "type"}
)
_SILENT = frozenset({"$anchor", "$comment", "$id", "$schema", "default", "deprecated", "examples"})
"""Words that ask nothing of an answer; `title` goes with them."""
DEEPEST, MOST_NODES, MOST_OPTIONAL, MOST_UNIONS = 10, 2000, 24, 16
"""Limits of the vendors; those on optional properties and unions are Anthropic's."""


class NotNativeError(LoomError):
    """A schema that a vendor cannot hold its model to; the contract is checked all the same."""

    kind = Kind.CONFIG
    template = "schema, at {place}: {reason}"


def dialect_of(spec: ModelSpec) -> Dialect | None:
    """Dialect of a model that says that it can be held to a schema; None for the others."""
    if not spec.capabilities.native_json or spec.sdk == "fake":
        return None
    return "anthropic" if spec.sdk == "anthropic" else "openai"


def native(spec: ModelSpec, schema: Mapping[str, object] | None) -> Json | None:
    """What the provider of a model is sent for a schema; None when the model is not held to it."""
    dialect = dialect_of(spec)
    if schema is None or dialect is None:
        return None
    derived = _derived(json.dumps(schema), dialect)
    value: object = json.loads(derived) if derived else None
    return value if is_object(value) else None


def not_native(spec: ModelSpec, schema: Mapping[str, object]) -> NotNativeError | None:
    """Why a model that could be held to a schema is not held to this one."""
    dialect = dialect_of(spec)
    if dialect is None:
        return None
    try:
        derive(schema, dialect)
    except NotNativeError as error:
        return error
    return None


@lru_cache(maxsize=256)
def _derived(schema: str, dialect: Dialect) -> str:
    try:
        return json.dumps(derive(json.loads(schema), dialect))
    except NotNativeError:
        return ""


def derive(schema: Mapping[str, object], dialect: Dialect) -> Json:
    """The closed schema that stands for this one.

    Raises:
        NotNativeError: nothing that the vendor takes says what this schema says.

    """
    work = _Work(dict(schema), dialect)
    found = work.derived(work.root, ROOT, ())
    if found.get("type") != "object":
        raise _refused(ROOT, Text("the answer must be an object"))
    if dialect == "anthropic" and work.optional > MOST_OPTIONAL:
        raise _refused(ROOT, Text("too many optional properties"))
    if dialect == "anthropic" and work.unions > MOST_UNIONS:
        raise _refused(ROOT, Text("too many alternatives"))
    return found


def _refused(place: str, reason: Text) -> NotNativeError:
    return NotNativeError(place=place, reason=reason)


@dataclass(slots=True)
class _Work:
    """One derivation."""

    root: Json
    dialect: Dialect
    nodes: int = 0
    optional: int = 0
    unions: int = 0
    following: list[str] = field(default_factory=list[str])
    """References being replaced by what they name."""

    def derived(self, schema: object, place: str, path: Sequence[str]) -> Json:
        self.nodes += 1
        if self.nodes > MOST_NODES or len(path) > DEEPEST:
            raise _refused(place, Text("too large or too deep"))
        if not is_object(schema):
            raise _refused(place, Text("nothing says what stands here"))
        if "$ref" in schema:
            return self._followed(schema, place, path)
        if "allOf" in schema:
            return self.derived(_merged(schema, place), place, path)
        made = self._made(schema, place, path)
        if told := _told(schema, self.dialect):
            made["description"] = told
        return made

    def _made(self, schema: Json, place: str, path: Sequence[str]) -> Json:
        for word in ("anyOf", "oneOf"):
            if is_array(schema.get(word)):
                return self._either(_variants(schema, word), place, path)
        if (values := _values(schema)) is not None:
            return self._listed(values, place)
        kind = _kind(schema)
        if is_array(kind):
            each = [{**schema, "type": one} for one in kind]
            return (
                self._either(each, place, path)
                if len(each) > 1
                else self._made(each[0], place, path)
            )
        match kind:
            case "object":
                return self._object(schema, place, path)
            case "array":
                if "prefixItems" in schema or "items" not in schema:
                    raise _refused(place, Text("nothing says what the array holds"))
                items = self.derived(schema["items"], f"{place}/items", (*path, "items"))
                return {"type": "array", "items": items}
            case "string":
                form = schema.get("format")
                known = isinstance(form, str) and form in _FORMATS[self.dialect]
                return {"type": "string", "format": form} if known else {"type": "string"}
            case "integer" | "number" | "boolean" | "null":
                return {"type": kind}
            case _:
                raise _refused(place, Text("nothing says what stands here"))

    def _either(self, variants: Sequence[object], place: str, path: Sequence[str]) -> Json:
        self.unions += 1
        # a description of all stands on the whole, not on each
        each = [self.derived(one, f"{place}/anyOf/{n}", path) for n, one in enumerate(variants)]
        return {"anyOf": each}

    def _listed(self, values: Sequence[object], place: str) -> Json:
        kinds: dict[str, list[object]] = {}
        for value in values:
            kind = _scalar(value)
            if kind is None:
                raise _refused(place, Text("a listed value is not a plain one"))
            kinds.setdefault(kind, []).append(value)
        each: list[object] = [{"type": kind, "enum": one} for kind, one in kinds.items()]
        first = each[0] if each else None
        if not is_object(first):
            raise _refused(place, Text("nothing says what stands here"))
        self.unions += len(each) > 1
        return first if len(each) == 1 else {"anyOf": each}

    def _object(self, schema: Json, place: str, path: Sequence[str]) -> Json:
        properties = schema.get("properties")
        if not is_object(properties) or not properties:
            raise _refused(place, Text("its properties are not named"))
        required = schema.get("required")
        wanted = required if is_array(required) else []
        if missing := [str(name) for name in wanted if name not in properties]:
            raise _refused(place, Text("property '{name}' is not described", {"name": missing[0]}))
        made: Json = {}
        for name, one in properties.items():
            found = self.derived(one, f"{place}/properties/{name}", (*path, name))
            if name not in wanted:
                self.optional += 1
                found = _nullable(found) if self.dialect == "openai" else found
            made[name] = found
        names: list[object] = (
            list(properties) if self.dialect == "openai" else [n for n in properties if n in wanted]
        )
        closed: Json = {"type": "object", "properties": made, "required": names}
        return {**closed, "additionalProperties": False}

    def _followed(self, schema: Json, place: str, path: Sequence[str]) -> Json:
        name = str(schema["$ref"])
        if name in self.following:
            raise _refused(place, Text("it holds itself ({name})", {"name": name}))
        target = pointed(self.root, name)
        if target is None:
            raise _refused(place, Text("reference '{name}' leads nowhere here", {"name": name}))
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        self.following.append(name)
        try:
            return self.derived({**target, **beside}, place, path)
        finally:
            self.following.pop()


def pointed(root: Mapping[str, object], name: str) -> Json | None:
    """What a reference inside the schema names."""
    if not name.startswith("#/"):
        return None
    found: object = dict(root)
    for part in name[2:].split("/"):
        if not is_object(found):
            return None
        found = found.get(part.replace("~1", "/").replace("~0", "~"))
    return found if is_object(found) else None


def _variants(schema: Json, word: str) -> list[object]:
    """Alternatives, each with what stands beside them."""
    beside = {k: v for k, v in schema.items() if k not in {word, "description", "$defs"}}
    variants = schema[word]
    each = variants if is_array(variants) else []
    return [{**beside, **one} if is_object(one) else one for one in each]


def _merged(schema: Json, place: str) -> Json:
    """A schema and all that it must be too, as one; only objects and words that differ join."""
    parts = schema["allOf"]
    whole: Json = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts if is_array(parts) else []:
        if not is_object(part) or "$ref" in part:
            raise _refused(place, Text("several schemas at once"))
        for key, value in part.items():
            before = whole.get(key)
            if key == "properties" and is_object(before) and is_object(value):
                if set(before) & set(value):
                    raise _refused(place, Text("several schemas at once"))
                whole[key] = {**before, **value}
            elif key == "required" and is_array(before) and is_array(value):
                whole[key] = [*before, *(name for name in value if name not in before)]
            elif key not in whole or before == value:
                whole[key] = value
            else:
                raise _refused(place, Text("several schemas at once"))
    return whole


def _values(schema: Json) -> Sequence[object] | None:
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if is_array(listed) else None


def _scalar(value: object) -> str | None:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case None:
            return "null"
        case _:
            return None


def _kind(schema: Json) -> object:
    kind = schema.get("type")
    if kind is None and is_object(schema.get("properties")):
        return "object"
    if kind is None and "items" in schema:
        return "array"
    return kind


def _nullable(schema: Json) -> Json:
    """The schema, or null: where every property must stand, null says that one does not."""
    variants = schema.get("anyOf")
    null: Json = {"type": "null"}
    if is_array(variants):
        return schema if null in variants else {**schema, "anyOf": [*variants, null]}
    return {"anyOf": [schema, null]}


def _told(schema: Json, dialect: Dialect) -> str:
    """Description, with what the vendor does not understand."""
    said = schema.get("description")
    parts = [said] if isinstance(said, str) and said else []
    parts += _hints(schema, dialect)
    return "\n".join(parts)


def _hints(schema: Json, dialect: Dialect) -> Iterator[str]:
    for key, value in schema.items():
        known = key in _STRUCTURE or key in _SILENT or key == "title"
        if key == "format":
            known = isinstance(value, str) and value in _FORMATS[dialect]
        if not known:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"


def restored(value: object, schema: object, root: Mapping[str, object] | None = None) -> object:
    """A value as the full schema means it: a null that stood for an absent property is left out."""
    if not is_object(schema):
        return value
    whole = schema if root is None else root
    if "$ref" in schema:
        target = pointed(whole, str(schema["$ref"]))
        return value if target is None else restored(value, target, whole)
    if is_array(value):
        return [restored(one, schema.get("items"), whole) for one in value]
    properties = schema.get("properties")
    if not is_object(value) or not is_object(properties):
        return value
    required = schema.get("required")
    wanted = required if is_array(required) else []
    return {
        name: restored(one, properties.get(name), whole)
        for name, one in value.items()
        if one is not None or name in wanted or takes_null(properties.get(name), whole)
    }


def takes_null(schema: object, root: Mapping[str, object]) -> bool:
    """Whether null is a value that a schema names."""
    if not is_object(schema):
        return True
    if "$ref" in schema:
        return takes_null(pointed(root, str(schema["$ref"])), root)
    for word in ("anyOf", "oneOf"):
        variants = schema.get(word)
        if is_array(variants):
            return any(takes_null(one, root) for one in variants)
    values = _values(schema)
    if values is not None:
        return None in values
    kind = schema.get("type")
    return kind is None or kind == "null" or (is_array(kind) and "null" in kind)
