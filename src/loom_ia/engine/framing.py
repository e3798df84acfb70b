"""What policies make of a request before it leaves for the main model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TypeGuard

from loom_ia.core.events import GuardChecked
from loom_ia.core.model import Message, ModelRequest
from loom_ia.core.policy import (
    BeforeModel,
    Continue,
    Decision,
    Fail,
    Replace,
    Stop,
    kind_of,
    reason_of,
)
from loom_ia.engine.flight import Flight
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.policing import context_of, failed
from loom_ia.engine.world import Scene


@dataclass(frozen=True, slots=True)
class Framed:
    """A request as it leaves, and what of it is no longer what the configuration says."""

    request: ModelRequest
    parts: Mapping[str, bytes]


class Framing:
    """Asks the policies of `before_model`, in order, each about the request as replaced so far."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight

    async def framed(self, request: ModelRequest, pen: Pen, span: str) -> Framed | None:
        """The request that leaves; None when none does, and why is told.

        Raises:
            HaltedError: the drive was stopped while a policy made up its mind.

        """
        parts: dict[str, bytes] = {}
        if not await pen.flush():  # what was done is kept, however long the policies take
            return None
        for hook in self._scene.world.before_model:
            context, subject = context_of(self._scene, pen.state), _subject(request)
            decision = await self._flight.stoppable(partial(hook.decide, subject, context))
            if isinstance(decision, Continue) or (isinstance(decision, Stop) and request.final):
                continue
            said = _fact(hook.name, decision, subject)
            if not pen.take("plan", span, said) or isinstance(decision, Stop):
                return None
            if isinstance(decision, Fail):
                await end(pen, failed(hook.name, "before_model", decision))
                return None
            if isinstance(decision, Replace) and not isinstance(decision.value, str):
                request = _replaced(request, decision.value, parts)
        return Framed(request, parts)

    async def kept(self, framed: Framed) -> dict[str, str]:
        """Digests of what policies put in the request, kept as blobs before they are named."""
        put, tenant = self._scene.ports.blobs.put, self._scene.ref.tenant_id
        return {f"replaced_{name}": await put(tenant, part) for name, part in framed.parts.items()}


def _subject(request: ModelRequest) -> BeforeModel:
    return BeforeModel(
        request.system, request.messages, request.tools, request.spec.id, request.final
    )


def _fact(policy: str, decision: Decision, subject: BeforeModel) -> GuardChecked:
    seen = [subject.system, len(subject.messages), [tool.name for tool in subject.tools]]
    return GuardChecked(
        check=policy,
        subject=blake2b(json.dumps(seen).encode(), digest_size=16).hexdigest(),
        accepted=not isinstance(decision, Fail),
        diagnosis=reason_of(decision),
        point="before_model",
        decision=kind_of(decision),
    )


def _replaced(
    request: ModelRequest, value: Mapping[str, object], parts: dict[str, bytes]
) -> ModelRequest:
    """The request with what a policy changes of it; a tool that it does not name is not shown."""
    system, tools, messages = value.get("system"), value.get("tools"), value.get("messages")
    if isinstance(system, str):
        request = replace(request, system=system)
        parts["system"] = _json(system)
    if isinstance(tools, tuple) and not request.final:
        kept = [tool for tool in request.tools if tool.name in tools]
        request = replace(request, tools=kept)
        parts["tools"] = _json([tool.model_dump(mode="json") for tool in kept])
    if _told(messages):
        request = replace(request, messages=messages)
        parts["messages"] = _json([message.model_dump(mode="json") for message in messages])
    return request


def _told(value: object) -> TypeGuard[tuple[Message, ...]]:
    return isinstance(value, tuple)  # of messages: the hook has checked them


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
