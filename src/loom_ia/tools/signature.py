"""Reads the signature of a function: the JSON Schema of its arguments and what validates them."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from loom_ia.core.ports import ToolContext
from loom_ia.core.text import Text
from loom_ia.tools.decorator import ToolDeclarationError, name_of

_STRICT = ConfigDict(
    extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=(), frozen=True
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Schema(GenerateJsonSchema):
    """Draft 2020-12 without the titles, which cost tokens and repeat the names."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: a default that is not JSON is left out of the schema and still works."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - overrides
        return False

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        """An array; one that repeats an item is accepted, so it is not said to be refused."""
        return _repeating(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        """The same."""
        return _repeating(super().frozenset_schema(schema))


def _repeating(schema: JsonSchemaValue) -> JsonSchemaValue:
    schema.pop("uniqueItems", None)
    return schema


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model must give to a function, and what is given in the caller's place."""

    model: type[BaseModel]
    fields: Mapping[str, str]
    """Parameter by field of the model; a field has a name of its own, that nothing can shadow."""
    contexts: tuple[str, ...]
    """Parameters that receive the context of the call."""
    schema: dict[str, object]

    def read(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Keyword arguments for the function; what is not given is left to its own default.

        Raises:
            ValidationError: the arguments do not fit.
            TypeError, ValueError: they are not JSON.

        """
        checked = self.model.model_validate_json(_ENCODER.encode(arguments))
        given = checked.__dict__
        return {self.fields[name]: given[name] for name in checked.model_fields_set}


def read_signature(function: Callable[..., object]) -> Signature:
    """Signature of a function that is to be a tool.

    Raises:
        ToolDeclarationError: a model could not call it.

    """
    where = name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDeclarationError(
            function=where, reason=Text("it yields; return one result instead")
        )
    annotations = _annotations(function, where)
    fields: dict[str, tuple[object, object]] = {}
    names: dict[str, str] = {}
    contexts: list[str] = []
    for parameter in _parameters(function, where):
        annotation = annotations.get(parameter.name, object)
        if _is_context(annotation):
            contexts.append(parameter.name)
            continue
        field = f"p{len(fields)}"
        names[field] = parameter.name
        fields[field] = (_eager(annotation), _field(parameter, where))
    model = _model(fields, names, where)
    return Signature(model, names, tuple(contexts), _schema(model, where))


def _parameters(function: Callable[..., object], where: str) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, NameError) as error:
        raise ToolDeclarationError(function=where, reason=str(error)) from error
    for parameter in found:
        said = {"name": str(parameter).partition(":")[0].partition("=")[0].strip()}
        if parameter.kind in _VARIADIC:
            reason = Text("parameter {name} takes any argument; name each argument instead", said)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            reason = Text(
                "parameter {name} is positional-only; models give arguments by name", said
            )
        elif isinstance(parameter.default, FieldInfo):
            reason = Text("parameter {name}: write Annotated[..., Field(...)] = default", said)
        else:
            continue
        raise ToolDeclarationError(function=where, reason=reason)
    return found


def _annotations(function: Callable[..., object], where: str) -> dict[str, object]:
    """Annotations of the parameters, resolved where the function was written."""
    plain = _innermost(function)
    try:
        parameters = inspect.signature(function).parameters.values()
        written = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
        holder = types.FunctionType((lambda: None).__code__, getattr(plain, "__globals__", {}))
        holder.__annotations__ = written
        return get_type_hints(holder, localns=_closure(plain), include_extras=True)
    except NameError as error:
        reason = Text(
            "{error} in an annotation; import it where its module can see it when it runs, not "
            "under TYPE_CHECKING only",
            {"error": str(error)},
        )
        raise ToolDeclarationError(function=where, reason=reason) from error
    except (TypeError, ValueError, SyntaxError) as error:
        raise ToolDeclarationError(function=where, reason=str(error)) from error


def _innermost(function: Callable[..., object]) -> object:
    """What `inspect.signature` reads in the end."""
    inner: object = function
    while True:
        wrapped: object = getattr(inner, "__wrapped__", None)
        if isinstance(inner, types.MethodType):
            inner = inner.__func__
        elif isinstance(inner, partial):
            inner = inner.func
        elif wrapped is not None:
            inner = wrapped
        else:
            return inner if isinstance(inner, types.FunctionType) else type(inner).__call__


def _closure(function: object) -> dict[str, object]:
    """Names of the enclosing functions that the function itself uses."""
    if not isinstance(function, types.FunctionType) or function.__closure__ is None:
        return {}
    found: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _is_context(annotation: object) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        others = [one for one in get_args(annotation) if one is not types.NoneType]
        return len(others) == 1 and _is_context(others[0])
    return annotation is ToolContext


def _eager(annotation: object) -> object:
    """The annotation; pydantic would check an iterable only once the function reads it."""
    if get_origin(annotation) is not Iterable:
        return annotation
    items: list[object] = [*get_args(annotation)]
    return types.GenericAlias(list, tuple(items))


def _field(parameter: inspect.Parameter, where: str) -> FieldInfo:
    name = parameter.name
    if parameter.default is parameter.empty:
        made: object = Field(validation_alias=name, serialization_alias=name)
    else:
        made = Field(parameter.default, validation_alias=name, serialization_alias=name)
    if not isinstance(made, FieldInfo):
        raise ToolDeclarationError(function=where, reason=f"parameter {name} has no field")
    return made


def _model(
    fields: Mapping[str, tuple[object, object]], names: Mapping[str, str], where: str
) -> type[BaseModel]:
    try:
        return _built(fields)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        said = {"name": _guilty(fields, names), "reason": _first(error)}
        reason = Text("parameter {name}: {reason}", said)
        raise ToolDeclarationError(function=where, reason=reason) from error


def _built(fields: Mapping[str, tuple[object, object]]) -> type[BaseModel]:
    return create_model("Arguments", __config__=_STRICT, **fields)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType] reason: fields are read at run time


def _guilty(fields: Mapping[str, tuple[object, object]], names: Mapping[str, str]) -> str:
    for field, definition in fields.items():
        try:
            _built({field: definition})
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
            return names[field]
    return ", ".join(names.values())


def _schema(model: type[BaseModel], where: str) -> dict[str, object]:
    try:
        schema: dict[str, object] = model.model_json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        reason = Text("no JSON Schema for its arguments: {reason}", {"reason": _first(error)})
        raise ToolDeclarationError(function=where, reason=reason) from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _first(error: Exception) -> str:
    """First sentence of pydantic's message; the next ones are advice for other uses."""
    return str(error).splitlines()[0].partition(". ")[0]
