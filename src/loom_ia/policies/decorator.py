"""`@policy`: at which points a function speaks, and what it may decide there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, TypeVar, Unpack, get_args

from pydantic import BaseModel

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.policy import POINTS, TIMEOUT, DecisionKind, Point
from loom_ia.core.text import Text

OnError = Literal["block", "allow"]
Function = TypeVar("Function", bound=Callable[..., object])

ATTRIBUTE = "__loom_policy__"


class PolicyDeclarationError(LoomError):
    """A function cannot be a policy as it is declared or used."""

    kind = Kind.CONFIG
    template = "policy {function}: {reason}"


class PolicyOptions(TypedDict, total=False):
    """What `@policy` accepts beside its points and decisions."""

    name: str
    """Name that configurations use; the function's by default."""
    timeout: float
    """Seconds that it may take."""
    on_error: OnError
    """What an exception or a delay is taken for: a refusal, or nothing said."""
    params: type[BaseModel]
    """What `params` may hold, checked when the configuration is loaded."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a policy said of itself."""

    name: str
    points: tuple[Point, ...]
    decisions: tuple[DecisionKind, ...]
    timeout: float = TIMEOUT
    on_error: OnError = "block"
    params: type[BaseModel] | None = None


def policy(
    *,
    points: Sequence[Point],
    decisions: Sequence[DecisionKind] | Mapping[Point, Sequence[DecisionKind]],
    **options: Unpack[PolicyOptions],
) -> Callable[[Function], Function]:
    """Make a function a policy; it can still be called as it was.

    `decisions` are those it may take beside `continue`: at all its points, or at each of them.

    Raises:
        PolicyDeclarationError: a point, a decision or an option is not known, or a decision is not
            possible at a point.

    """

    def mark(target: Function) -> Function:
        if not callable(target):
            reason = Text("this is not a function")
            raise PolicyDeclarationError(function=repr(target), reason=reason)
        given: Mapping[str, object] = {"points": points, "decisions": decisions, **options}
        problem = _problem(given)
        if problem is not None:
            raise PolicyDeclarationError(function=_name_of(target), reason=problem)
        named: Mapping[str, object] = {"name": getattr(target, "__name__", ""), **options}
        declared = Declaration(
            name=str(named["name"]),
            points=tuple(points),
            decisions=_every(decisions),
            timeout=options.get("timeout", TIMEOUT),
            on_error=options.get("on_error", "block"),
            params=options.get("params"),
        )
        setattr(target, ATTRIBUTE, declared)
        return target

    return mark


def _every(
    decisions: Sequence[DecisionKind] | Mapping[Point, Sequence[DecisionKind]],
) -> tuple[DecisionKind, ...]:
    if not isinstance(decisions, Mapping):
        return tuple(decisions)
    return tuple(dict.fromkeys(kind for kinds in decisions.values() for kind in kinds))


def declared(value: object) -> Declaration | None:
    """What a policy said of itself; None for anything else."""
    found: object = getattr(value, ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None


def _name_of(function: Callable[..., object]) -> str:
    name: object = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if isinstance(name, str) else repr(function)


def _problem(given: Mapping[str, object]) -> Text | None:
    known = ("points", "decisions", *PolicyOptions.__annotations__)
    for option in given:
        if option not in known:
            values = {"option": option, "known": ", ".join(known)}
            return Text("option {option!r} is unknown; options: {known}", values)
    points, found = _names(given["points"]), given["decisions"]
    if not points:
        return _unexpected("points", given["points"], ", ".join(POINTS))
    for point in points:
        allowed: Sequence[str] = next((d for p, d in POINTS.items() if p == point), ())
        if not allowed:
            return _unexpected("points", point, ", ".join(POINTS))
        each: object = found.get(point, ()) if isinstance(found, Mapping) else found  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] reason: checked one by one
        for decision in _names(each) or ("",):  # pyright: ignore[reportUnknownArgumentType] reason: same
            if decision not in allowed:
                values = {"decision": decision, "point": point, "allowed": ", ".join(allowed)}
                return Text(
                    "decision {decision!r} is not possible at {point}; possible: {allowed}", values
                )
    return _option_problem(given)


def _option_problem(given: Mapping[str, object]) -> Text | None:
    name, timeout = given.get("name", "-"), given.get("timeout", TIMEOUT)
    on_error, params = given.get("on_error", "block"), given.get("params", BaseModel)
    if not isinstance(name, str) or not name.strip():
        return _unexpected("name", name, Text("a text that is not empty"))
    if not _seconds(timeout):
        return _unexpected("timeout", timeout, Text("a positive number of seconds"))
    if on_error not in get_args(OnError):
        return _unexpected("on_error", on_error, ", ".join(get_args(OnError)))
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        return _unexpected("params", given["params"], Text("a class of pydantic"))
    return None


def _seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < float("inf")


def _unexpected(option: str, value: object, accepted: str | Text) -> Text:
    values: Mapping[str, object] = {"option": option, "value": value, "accepted": accepted}
    return Text("{option} is {value!r}; accepted: {accepted}", values)


def _names(value: object) -> tuple[str, ...]:
    """Names of a sequence; none when it is anything else, a lone text included."""
    if not isinstance(value, list | tuple | set | frozenset):
        return ()
    return tuple(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] reason: checked one by one by the caller
