"""`@idempotent`: a function whose effect is remembered under a key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard, TypeVar, overload

from loom_ia.core.cleaning import clean
from loom_ia.core.ports import KeyFaultError
from loom_ia.core.sameness import same_text, same_value
from loom_ia.core.text import Text
from loom_ia.tools.decorator import ToolDeclarationError, name_of

Function = TypeVar("Function", bound=Callable[..., object])
KeyFunction = Callable[[dict[str, object]], str]
"""Business key of a call, from its arguments; those with a default are always there."""

ATTRIBUTE = "__loom_key__"
LONGEST = 1000
"""Characters of a key, at most."""


@dataclass(frozen=True, slots=True)
class KeyDeclaration:
    """What `@idempotent` said."""

    function: Callable[..., object] | None = None
    """None: the key is technical, and names one call of one run."""


@overload
def idempotent(function: Function, /) -> Function: ...
@overload
def idempotent(*, key: KeyFunction | None = None) -> Callable[[Function], Function]: ...
def idempotent(
    function: Function | None = None, /, *, key: KeyFunction | None = None
) -> Function | Callable[[Function], Function]:
    """Remember the effect of a tool under a key: that of the call, or a business key.

    `key` is given the arguments, defaults included, their texts in one spelling (see
    `core.sameness`): Unicode NFC, one kind of space and of hyphen. So is the key it returns.

    Raises:
        ToolDeclarationError: the key is not a synchronous function.

    """

    def mark(target: Function) -> Function:
        if not callable(target):
            raise ToolDeclarationError(function=repr(target), reason=Text("this is not a function"))
        if key is not None and (not callable(key) or inspect.iscoroutinefunction(key)):
            reason = Text(
                "key is {value!r}; give a function, not an asynchronous one, that takes the "
                "arguments and returns a text",
                {"value": key},
            )
            raise ToolDeclarationError(function=name_of(target), reason=reason)
        setattr(target, ATTRIBUTE, KeyDeclaration(key))
        return target

    return mark if function is None else mark(function)


def key_of(function: Callable[..., object]) -> KeyDeclaration | None:
    """What the function said of its key; None when its effect is not remembered."""
    found: object = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, KeyDeclaration) else None


def business_key(
    function: Callable[..., object], schema: Mapping[str, object]
) -> Callable[[Mapping[str, object]], str]:
    """The key of a call, in its one spelling, from the arguments that fit a JSON schema.

    The function is given their texts in their one spelling too, defaults included.

    What it gives raises `KeyFaultError` when the function gives no usable key.
    """
    defaults = _defaults(schema)

    def key(arguments: Mapping[str, object]) -> str:
        try:
            found = function({n: same_value(v) for n, v in {**defaults, **arguments}.items()})
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise KeyFaultError(what) from error
        if not isinstance(found, str):
            raise KeyFaultError(repr(found)[:80])
        spelled = clean(same_text(found))
        if not spelled or len(spelled) > LONGEST:
            raise KeyFaultError(repr(spelled)[:80])
        return spelled

    return key


def _defaults(schema: Mapping[str, object]) -> dict[str, object]:
    properties = schema.get("properties")
    if not _is_mapping(properties):
        return {}
    return {
        str(name): said["default"]
        for name, said in properties.items()
        if _is_mapping(said) and "default" in said
    }


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)
