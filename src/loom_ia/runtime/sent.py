"""Puts a request of a run together again, from its journal and the contents that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from loom_ia.core.model import Message, ToolSpec
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.request import SentRequest, Trail, trails
from loom_ia.core.text import Text
from loom_ia.core.wording import say
from loom_ia.engine.transcript import encoded
from loom_ia.runtime.errors import ContentLostError, RequestNotFoundError

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

PARTS: Mapping[str, Text] = {
    "params": Text("parameters"),
    "system": Text("system prompt"),
    "tools": Text("tool definitions"),
}


async def sent(host: Host, ref: RunRef, number: int) -> SentRequest:
    """Request `number` of a run.

    Raises:
        RequestNotFoundError: the run did not make as many.
        ContentLostError: a part of it is no longer kept.

    """
    found = trails(await host.runs.events(ref))
    if not 1 <= number <= len(found):
        raise RequestNotFoundError(run_id=ref.run_id, number=number, count=len(found))
    trail = found[number - 1]
    called, started = trail.called, trail.state.started
    language = started.language if started else "fr"
    parts = {name: await _part(host, ref, trail, number, name) for name in PARTS}
    system = TypeAdapter(str).validate_json(parts["system"])
    tools = TypeAdapter(tuple[ToolSpec, ...]).validate_json(parts["tools"])
    if called.final:
        system, tools = f"{system}\n\n{say(language, 'final')}".strip(), ()
    told: tuple[Message, ...] | None = None
    if "replaced_messages" in trail.prefix:
        part = await _part(host, ref, trail, number, "messages")
        told = TypeAdapter(tuple[Message, ...]).validate_json(part)
    until = "" if told is not None else trail.prefix.get("history", "").removeprefix("seq:")
    return SentRequest(
        run_id=ref.run_id,
        number=number,
        requests=len(found),
        step=called.step,
        attempt=called.attempt,
        role=called.role,
        model=called.model,
        final=called.final,
        at=trail.at,
        intact=_intact(host, ref, trail),
        params=TypeAdapter(dict[str, object]).validate_json(parts["params"]),
        system=system,
        tools=tools,
        history=tuple(await host.runs.past(ref, int(until), language)) if until else (),
        messages=tuple(trail.state.messages) if told is None else told,
    )


async def _part(host: Host, ref: RunRef, trail: Trail, number: int, name: str) -> bytes:
    digest = trail.prefix.get(f"replaced_{name}") or trail.prefix.get(name, "")
    content = await host.store.blobs.get(ref.tenant_id, digest) if digest else None
    if content is None:
        raise ContentLostError(
            run_id=ref.run_id,
            number=number,
            part=PARTS.get(name, Text("messages")),
            digest=digest or "?",
        )
    return content


def _intact(host: Host, ref: RunRef, trail: Trail) -> bool:
    messages: tuple[Message, ...] = tuple(trail.state.messages)
    digest, tenant = host.store.blobs.digest, ref.tenant_id
    return [digest(tenant, encoded(message)) for message in messages] == list(trail.told)
