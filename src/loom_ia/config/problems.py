"""What pydantic found wrong, said as sentences with a place and something to do."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from loom_ia.config.errors import ConfigError, Issue, Loc
from loom_ia.config.source import Source
from loom_ia.core.text import Text

T = TypeVar("T", bound=BaseModel)

_SHOWN = 60
_SECRET_KEY = re.compile(
    r"(?i)(secret|token$|passw|api_?key|authorization|dsn|credential)(?!.*_env$)"
)
_SECRET_VALUE = re.compile(r"(?i)\b(sk|lk|pk|ghp|xox[bp])[-_]\w|bearer\s|://[^/\s]*:[^/\s]*@")

_EXPECTED = {
    "string_type": Text("a text is expected, not {value}"),
    "int_type": Text("a whole number is expected, not {value}"),
    "int_from_float": Text("a whole number is expected, not {value}"),
    "int_parsing": Text("a whole number is expected, not {value}"),
    "float_type": Text("a number is expected, not {value}"),
    "float_parsing": Text("a number is expected, not {value}"),
    "finite_number": Text("a finite number is expected, not {value}"),
    "is_instance_of": Text("a number is expected, not {value}"),  # of Decimal, under strict
    "decimal_type": Text("a number is expected, not {value}"),
    "decimal_parsing": Text("a number is expected, not {value}"),
    "bool_type": Text("true or false is expected, not {value}"),
    "bool_parsing": Text("true or false is expected, not {value}"),
    "tuple_type": Text("a list is expected, not {value}"),
    "list_type": Text("a list is expected, not {value}"),
    "dict_type": Text("a mapping is expected, not {value}"),
    "model_type": Text("a mapping is expected, not {value}"),
    "model_attributes_type": Text("a mapping is expected, not {value}"),
    "literal_error": Text("{value} is not accepted; choose {expected}"),
    "greater_than": Text("{value} is too small; give more than {gt}"),
    "greater_than_equal": Text("{value} is too small; give at least {ge}"),
    "less_than": Text("{value} is too large; give less than {lt}"),
    "less_than_equal": Text("{value} is too large; give at most {le}"),
    "string_too_short": Text("the text is empty; write it"),
    "string_pattern_mismatch": Text("{value} does not match {pattern}; choose another spelling"),
}


def validated(model: type[T], source: Source, loc: Loc = (), *, value: object = None) -> T:
    """Model of what a document holds at a location (or of `value`, said to stand there).

    Raises:
        ConfigError: every problem, each at its place.

    """
    found = value if value is not None else part(source.value, loc)
    try:
        # As JSON, lists may become tuples while every other conversion is refused.
        return model.model_validate_json(json.dumps(found), strict=True)
    except ValidationError as error:
        raise ConfigError(issues(error, model, source, loc)) from error


def part(value: object, loc: Loc) -> object:
    """Part of a document; None where there is nothing."""
    for step in loc:
        if mapping(value):
            value = value.get(str(step))
        elif _listing(value) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Tell whether a part of a document is a mapping."""
    return isinstance(value, Mapping)


def _listing(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def issues(
    error: ValidationError, model: type[BaseModel], source: Source, loc: Loc = ()
) -> Iterable[Issue]:
    """Issues of a validation error of a value that stands at `loc` of a document."""
    for detail in error.errors(include_url=False):
        inner = tuple(step for step in detail["loc"] if step != "[key]")
        here = (*loc, *(step for step in inner if not _tag(step)))
        place = source.key(here) if detail["type"] == "extra_forbidden" else source.at(here)
        yield Issue(place, explained(detail, model, inner), here)


def _tag(step: str | int) -> bool:
    """Tell the mark of one of several models (`[mcp]`), which stands in no document."""
    return isinstance(step, str) and step.startswith("[") and step.endswith("]")


def explained(detail: ErrorDetails, model: type[BaseModel] | None, loc: Loc) -> Text:
    """What pydantic found wrong at a location of a model, as a sentence."""
    kind = detail["type"]
    if kind == "extra_forbidden":
        return unknown_key(str(loc[-1]), keys_at(model, loc[:-1]) if model else ())
    if kind == "missing":
        return Text("missing key; write it")
    context = detail.get("ctx") or {}
    values: dict[str, object] = {**context, "value": shown(detail["input"], loc)}
    values["expected"] = str(context.get("expected", "")).replace(" or ", ", ")
    if (found := _EXPECTED.get(kind)) is not None:
        return Text(found.msgid, values)
    # Errors of our own validators carry their message id; those of pydantic stay in English.
    return Text(detail["msg"])


def unknown_key(key: str, known: Iterable[str]) -> Text:
    """Sentence for a key that nothing reads, with the closest accepted one."""
    names = list(known)
    if close := difflib.get_close_matches(key, names, 1):
        return Text("unknown key; did you mean '{close}'?", {"close": close[0]})
    if names:
        listed = ", ".join(sorted(names))
        return Text("unknown key; the accepted ones are: {known}", {"known": listed})
    return Text("unknown key; remove it")


def unknown(what: Text, name: str, known: Iterable[str]) -> Text:
    """Sentence for a name that nothing has, with the closest or all of the known ones."""
    names = sorted(known)
    values: dict[str, object] = {"what": what, "name": name}
    if close := difflib.get_close_matches(name, names, 1):
        return Text(
            "unknown {what} '{name}'; did you mean '{close}'?", {**values, "close": close[0]}
        )
    if names:
        return Text(
            "unknown {what} '{name}'; the known ones are: {known}",
            {**values, "known": ", ".join(names)},
        )
    return Text("unknown {what} '{name}'; none is declared", values)


def shown(value: object, loc: Loc = ()) -> str:
    """Value as written in YAML, cut, and hidden where it may be a secret."""
    if value is None:
        return str(Text("nothing"))
    if isinstance(value, Mapping):
        return str(Text("a mapping"))
    if isinstance(value, list | tuple):
        return str(Text("a list"))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    key = next((step for step in reversed(loc) if isinstance(step, str)), "")
    if _SECRET_KEY.search(key) or _SECRET_VALUE.search(text):
        return str(Text("a value not shown here"))
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"'{text}'" if isinstance(value, str) else text


def keys_at(model: type[BaseModel], loc: Loc) -> tuple[str, ...]:
    """Keys that a model accepts at a location."""
    found: object = model
    for step in loc:
        found = _step(found, step)
    inner = _model(found)
    if inner is None:
        return ()
    return tuple(field.alias or name for name, field in inner.model_fields.items())


def _step(annotation: object, step: str | int) -> object:
    inner = _model(annotation)
    if inner is not None:
        fields = {field.alias or name: field for name, field in inner.model_fields.items()}
        field = fields.get(str(step))
        return field.annotation if field else None
    bare = _bare(annotation)
    arguments = get_args(bare)
    if _tag(step):
        marked = (each for each in arguments if Tag(str(step)) in get_args(each))
        return next(marked, None)
    if get_origin(bare) is dict and arguments:
        return arguments[1]
    return arguments[0] if arguments else None


def _model(annotation: object) -> type[BaseModel] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def _bare(annotation: object) -> object:
    """Annotation without `Annotated` and without `| None`."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in {Union, types.UnionType}:
            kept = [arg for arg in get_args(annotation) if arg is not type(None)]
            if len(kept) != 1:
                return annotation
            annotation = kept[0]
        else:
            return annotation
