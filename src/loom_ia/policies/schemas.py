"""JSON Schemas that outputs must fit: checked when they are loaded, told in words when broken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import (
    extend,  # pyright: ignore[reportUnknownVariableType] reason: untyped library
)
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012
from referencing.jsonschema import Schema as Content

from loom_ia.core.text import Text
from loom_ia.core.wording import Language, say

PATTERN_TIME = 1.0
"""Seconds that one pattern may take on one text."""
SHOWN = 5
"""Problems that are told at once."""
_VALUE = 60
"""Characters shown of a value."""


class Schema:
    """One schema, ready to judge values. It never reads anything from elsewhere."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Take a schema in which `flaw` finds nothing."""
        self.schema = dict(schema)
        self._validator = _timed(self.schema)

    def problems(self, value: object, language: Language) -> list[str]:
        """What is wrong in a value, the first few, for its author."""
        try:
            found = sorted(self._validator.iter_errors(value), key=_place)
        except (RecursionError, TimeoutError):
            return [say(language, "form_time")]
        told = [_told(error, language) for error in found[:SHOWN]]
        if len(found) > SHOWN:
            told.append(say(language, "form_more", count=len(found) - SHOWN))
        return told


def flaw(schema: Mapping[str, object]) -> tuple[Text, tuple[str | int, ...]] | None:
    """What makes a schema unusable, and where in it; None when it can be used."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        values = {"problem": error.message[:200]}
        return Text("this is not a JSON Schema: {problem}", values), tuple(error.absolute_path)
    registry = _ALONE.with_resource("", DRAFT202012.create_resource(schema))
    for reference, place in _references(schema, ()):
        if not _leads(reference, registry):
            text = Text(
                "'{reference}' leads nowhere in this schema; define it under '$defs'",
                {"reference": reference},
            )
            return text, place
    for pattern, place in _patterns(schema, ()):
        if (wrong := pattern_flaw(pattern)) is not None:
            return wrong, place
    return None


def pattern_flaw(pattern: str) -> Text | None:
    """What is wrong in a regular expression; None when nothing is."""
    try:
        regex.compile(pattern)
    except regex.error as error:
        return Text(
            "'{pattern}' is not a regular expression: {problem}",
            {"pattern": pattern, "problem": str(error)},
        )
    return None


def matches(pattern: str, text: str) -> bool:
    """True when a pattern is found in a text.

    Raises:
        TimeoutError: it takes too long.

    """
    return regex.search(pattern, text, concurrent=True, timeout=PATTERN_TIME) is not None


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


class _Validator(Protocol):
    def iter_errors(self, instance: object) -> Iterator[ValidationError]: ...


_ALONE: Registry[Content] = Registry()
_TIMED = extend(Draft202012Validator, {"pattern": _pattern})  # pyright: ignore[reportUnknownVariableType] reason: untyped library


def _timed(schema: Mapping[str, object]) -> _Validator:
    return _TIMED(schema, registry=_ALONE)  # pyright: ignore[reportUnknownVariableType] reason: untyped library


def _leads(reference: str, registry: Registry[Content]) -> bool:
    try:
        return reference.startswith("#") and bool(registry.resolver().lookup(reference))
    except Unresolvable:
        return False


def _references(
    schema: object, place: tuple[str | int, ...]
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    for key, value, here in _below(schema, place):
        if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
            yield value, here
        else:
            yield from _references(value, here)


def _patterns(
    schema: object, place: tuple[str | int, ...]
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    for key, value, here in _below(schema, place):
        if key == "pattern" and isinstance(value, str):
            yield value, here
        else:
            yield from _patterns(value, here)


def _below(
    schema: object, place: tuple[str | int, ...]
) -> Iterator[tuple[str | int, object, tuple[str | int, ...]]]:
    if _mapping(schema):
        for key, value in schema.items():
            if key not in {"const", "enum", "default", "examples"}:
                yield key, value, (*place, key)
    elif _listing(schema):
        for index, value in enumerate(schema):
            yield index, value, (*place, index)


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _listing(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _place(error: ValidationError) -> list[str]:
    return [f"{step:06}" if isinstance(step, int) else step for step in error.absolute_path]


def _told(error: ValidationError, language: Language) -> str:
    where = dotted(error.absolute_path) or say(language, "form_root")
    limit, value = error.validator_value, error.instance
    key = f"form_{error.validator}"
    match error.validator:
        case "required":
            names = [n for n in _names(limit) if not _mapping(value) or n not in value]
            what = say(language, key, names=", ".join(names))
        case "additionalProperties":
            names = _unexpected(error.schema, value)
            what = say(language, key, names=", ".join(names))
        case "type" | "enum" | "const" | "pattern" | "minimum" | "maximum":
            what = say(language, key, limit=_written(limit), value=_written(value))
        case "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            what = say(language, key, limit=_written(limit), value=_written(value))
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            count = len(value) if isinstance(value, str | list) else 0  # pyright: ignore[reportUnknownArgumentType] reason: its length only
            what = say(language, key, limit=limit, count=count)
        case _:
            name = str(error.validator)
            what = say(language, "form_other", name=name, limit=_written(limit))
    return f"{where} : {what}" if language == "fr" else f"{where}: {what}"


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if _listing(value) else []


def _unexpected(schema: object, value: object) -> list[str]:
    known = schema.get("properties") if _mapping(schema) else None
    names = list(known) if _mapping(known) else []
    return [name for name in value if name not in names] if _mapping(value) else []


def dotted(path: Iterable[str | int] | Sequence[str | int]) -> str:
    """Path of a value as people write it: `lignes[0].prix`."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _written(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"
