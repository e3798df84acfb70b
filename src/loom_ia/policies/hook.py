"""A policy plugged into an agent: bounded in time, its failures turned into decisions."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from loom_ia.core.cleaning import clean, clean_json
from loom_ia.core.model import Message
from loom_ia.core.policy import (
    CONTINUE,
    POINTS,
    Continue,
    Decision,
    Deny,
    Fail,
    Pause,
    Point,
    PolicyContext,
    Repair,
    Replace,
    Stop,
    Subject,
    kind_of,
    point_of,
)
from loom_ia.core.wording import Language, say
from loom_ia.policies.decorator import Declaration, OnError

logger = logging.getLogger("loom_ia.policy")

InThread = Callable[[Callable[[], object]], Awaitable[object]]
"""Runs a function that may block in a thread that nothing waits for once its caller has left."""


class NotDecidedError(Exception):
    """A policy gave something else than a decision that it declares."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says of a policy where it is plugged."""

    params: Mapping[str, object]
    timeout: float
    on_error: OnError
    language: Language


class Hook:
    """One policy of one agent."""

    def __init__(
        self,
        function: Callable[..., object],
        declared: Declaration,
        settings: Settings,
        in_thread: InThread,
        name: str = "",
    ) -> None:
        """Plug a function; `name` tells it from others of the agent, its own by default."""
        name = name or declared.name
        self.name, self.decisions, self.points = name, declared.decisions, declared.points
        self._function, self._settings, self._in_thread = function, settings, in_thread
        self._awaited = _awaits(function)
        self._left: set[asyncio.Task[object]] = set()

    async def decide(self, subject: Subject, context: PolicyContext) -> Decision:
        """What the policy decides; what it could not decide is refused, unless told otherwise."""
        settings = self._settings
        context = replace(context, params=deepcopy(dict(settings.params)))
        try:
            return self._checked(await self._bounded(subject, context), point_of(subject))
        except Exception as error:
            what = type(error).__name__
            extra = {"run_id": context.run_id, "tenant_id": context.tenant_id}
            logger.warning("policy %s: %s: %s", self.name, what, error, extra=extra)
            logger.debug("its traceback", exc_info=error, extra=extra)
            if settings.on_error == "allow":
                return CONTINUE
            told = say(settings.language, "policy_broken", policy=self.name, what=what)
            return _blocked(point_of(subject), told)

    async def _bounded(self, subject: Subject, context: PolicyContext) -> object:
        """The answer, waited for no longer than allowed, even of one that swallows its stop."""
        task = asyncio.get_running_loop().create_task(self._answer(subject, context))
        self._left.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=self._settings.timeout)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise TimeoutError
        return task.result()

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()

    async def _answer(self, subject: Subject, context: PolicyContext) -> object:
        call = partial(self._function, subject, context)
        result = call() if self._awaited else await self._in_thread(call)
        return await result if inspect.isawaitable(result) else result

    def _checked(self, answer: object, point: Point) -> Decision:
        if not isinstance(answer, Continue | Replace | Repair | Deny | Pause | Stop | Fail):
            raise NotDecidedError(repr(answer)[:80])
        kind = kind_of(answer)
        if kind not in ("continue", *self.decisions) or kind not in POINTS[point]:
            raise NotDecidedError(kind)
        if isinstance(answer, Replace):
            return Replace(_value(answer.value, point), answer.reason)
        return answer


def _blocked(point: Point, told: str) -> Decision:
    """What stands for the decision of a policy that could not make one: the safe one."""
    match point:
        case "before_tool":
            return Deny(told)
        case "after_tool":
            return Repair(told)
        case _:
            return Fail(told, resumable=True)


def _value(value: Mapping[str, object] | str, point: Point) -> Mapping[str, object] | str:
    """What takes the place of what was judged, cleaned.

    Raises:
        NotDecidedError: this cannot take its place.

    """
    if point in {"after_tool", "on_output"}:
        if not isinstance(value, str):
            raise NotDecidedError(type(value).__name__)
        return clean(value)
    if not isinstance(value, Mapping):
        raise NotDecidedError(type(value).__name__)
    return _request(value) if point == "before_model" else _json(value)


def _request(value: Mapping[str, object]) -> Mapping[str, object]:
    """What changes of a request; messages are those of our model."""
    parts = {
        "system": TypeAdapter(str),
        "messages": TypeAdapter(tuple[Message, ...]),
        "tools": TypeAdapter(tuple[str, ...]),
    }
    for name in value:
        if name not in parts:
            raise NotDecidedError(name)
    return {name: parts[name].validate_python(given) for name, given in value.items()}


def _json(value: Mapping[str, object]) -> Mapping[str, object]:
    """The same as JSON holds it, its texts cleaned."""
    read = clean_json(json.loads(json.dumps(dict(value), allow_nan=False)))
    return read if isinstance(read, dict) else {}  # pyright: ignore[reportUnknownVariableType] reason: JSON


def _awaits(function: Callable[..., object]) -> bool:
    method: object = getattr(function, "__call__", None)  # noqa: B004  an object may be async so
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)
