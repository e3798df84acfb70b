"""Models made of values that are already right, without checking them again."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

_new = object.__new__
# the slots are written directly: going through `object.__setattr__` costs half as much again
_values = BaseModel.__dict__["__dict__"].__set__
_set = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_private = BaseModel.__dict__["__pydantic_private__"].__set__


def trusted(cls: type[M], values: dict[str, object]) -> M:
    """Model of every one of its fields, in their order; `values` becomes its own."""
    made = _new(cls)
    _values(made, values)
    _set(made, _fields(cls))
    _extra(made, None)
    _private(made, None)
    return made


def lean(model: BaseModel) -> None:
    """Let a checked model share with its class the set of its fields, which weighs more than it."""
    _set(model, _fields(type(model)))


@cache
def _fields(cls: type[BaseModel]) -> set[str]:
    return set(cls.model_fields)
