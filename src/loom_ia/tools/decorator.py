"""`@tool`: what a function declares of itself, from which the engine knows what may be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack, get_args, overload

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.ports import Approval, OnUnknown, SideEffects
from loom_ia.core.text import Text

Function = TypeVar("Function", bound=Callable[..., object])

ATTRIBUTE = "__loom_tool__"


class ToolDeclarationError(LoomError):
    """A function cannot be a tool as it is declared."""

    kind = Kind.CONFIG
    template = "tool {function}: {reason}"


class ToolOptions(TypedDict, total=False):
    """What `@tool` accepts."""

    name: str
    """Name that the model sees; the function's by default."""
    description: str
    """What the model reads; the docstring by default."""
    side_effects: SideEffects | None
    """What a call changes outside: decides what may be launched again after a crash."""
    approval: Approval
    """Whether a human decides before the call."""
    idempotent: bool
    """The tool may be launched again without harm."""
    on_unknown: OnUnknown
    """What becomes of a call of which nobody knows whether it acted."""
    timeout: float | None
    """Seconds that one call may take."""
    settle: Callable[..., object] | None
    """Read-only check of whether a call acted, given its arguments and its `ToolContext`; gives
    `Sent`, `NotSent`, or None when it cannot tell."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a function said of itself; None: it said nothing."""

    name: str | None = None
    description: str | None = None
    side_effects: SideEffects | None = None
    approval: Approval | None = None
    idempotent: bool | None = None
    on_unknown: OnUnknown | None = None
    timeout: float | None = None
    settle: Callable[..., object] | None = None


SILENT = Declaration()

_CHOICES: Mapping[str, tuple[object, ...]] = {
    "side_effects": get_args(SideEffects),
    "approval": get_args(Approval),
    "on_unknown": get_args(OnUnknown),
    "idempotent": (True, False),
}


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None, /, **options: Unpack[ToolOptions]
) -> Function | Callable[[Function], Function]:
    """Make a function a tool; it can still be called as it was.

    Raises:
        ToolDeclarationError: an option or its value is not known.

    """

    def mark(target: Function) -> Function:
        if not callable(target):
            raise ToolDeclarationError(function=repr(target), reason=Text("this is not a function"))
        given: Mapping[str, object] = {**options}
        _check(name_of(target), given)
        setattr(target, ATTRIBUTE, Declaration(**options))
        return target

    return mark if function is None else mark(function)


def declaration_of(function: Callable[..., object]) -> Declaration:
    """What the function said of itself; a function without the decorator said nothing."""
    found: object = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else SILENT


def name_of(function: Callable[..., object]) -> str:
    """Where people find the function: `module.name`."""
    name: object = getattr(function, "__qualname__", None)
    module: object = getattr(function, "__module__", None)
    if not isinstance(name, str):
        return repr(function)
    return f"{module}.{name}" if isinstance(module, str) else name


def _check(function: str, options: Mapping[str, object]) -> None:
    known = tuple(ToolOptions.__annotations__)
    for option, value in options.items():
        if option not in known:
            reason = Text(
                "option {option!r} is unknown; options: {known}",
                {"option": option, "known": ", ".join(known)},
            )
        elif not _accepted(option, value):
            reason = Text(
                "{option} is {value!r}; accepted: {accepted}",
                {"option": option, "value": value, "accepted": _expected(option)},
            )
        else:
            continue
        raise ToolDeclarationError(function=function, reason=reason)


def _accepted(option: str, value: object) -> bool:
    if option == "idempotent":
        return isinstance(value, bool)
    if option in _CHOICES:
        return value is None or (isinstance(value, str) and value in _CHOICES[option])
    if option == "timeout":
        return value is None or _seconds(value)
    if option == "settle":
        return value is None or callable(value)
    return isinstance(value, str) and bool(value.strip())


def _seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < float("inf")


def _expected(option: str) -> str | Text:
    if option in _CHOICES:
        return ", ".join(map(repr, _CHOICES[option]))
    if option == "timeout":
        return Text("a positive number of seconds")
    if option == "settle":
        return Text("a function")
    return Text("a text that is not empty")
