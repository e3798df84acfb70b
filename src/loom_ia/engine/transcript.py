"""What a model is sent: the conversation, extended and never rebuilt, and its digests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from loom_ia.core.model import Message, ModelSpec
from loom_ia.core.state import RunState
from loom_ia.core.vec import Vec
from loom_ia.engine.world import Scene, World


class Transcript:
    """What is sent: the session's history, then the run's messages, extended and never rebuilt."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._seen: Vec[Message] = Vec()
        self.messages: Vec[Message] = Vec(scene.history)
        self._prefixes: dict[str, dict[str, str]] = {}

    def follow(self, state: RunState) -> Sequence[Message]:
        """Every message of the request, for this state of the run."""
        if state.messages.extends(self._seen):
            new = state.messages[len(self._seen) :]
            self.messages = self.messages.add(*new) if new else self.messages
        else:
            self.messages = Vec([*self._scene.history, *state.messages])
        self._seen = state.messages
        return self.messages

    def known(self, spec: ModelSpec) -> dict[str, str] | None:
        """The prefix of a model, if it is kept already."""
        return self._prefixes.get(spec.id)

    async def prefix(self, spec: ModelSpec) -> dict[str, str]:
        """Digests of what stands before the run's messages, kept as blobs before they are named."""
        put, tenant = self._scene.ports.blobs.put, self._scene.ref.tenant_id
        found = {
            name: await put(tenant, part) for name, part in _parts(self._scene.world, spec).items()
        }
        if self._scene.history_digest:
            found["history"] = self._scene.history_digest
        self._prefixes[spec.id] = found
        return found

    def digests(self, state: RunState, *, told: int) -> tuple[str, ...]:
        """Digests of the run's messages from number `told` on."""
        digest, tenant = self._scene.ports.blobs.digest, self._scene.ref.tenant_id
        return tuple([digest(tenant, encoded(message)) for message in state.messages[told:]])


def encoded(message: Message) -> bytes:
    """A message as a journal holds it."""
    return message.__pydantic_serializer__.to_json(message)


def _parts(world: World, spec: ModelSpec) -> Mapping[str, bytes]:
    parts = world.parts
    if not parts:
        parts["system"] = _json(world.system)
        parts["tools"] = _json([spec.model_dump(mode="json") for spec in world.specs])
        parts["params"] = _json(_params(world, world.spec))
    return parts if spec is world.spec else {**parts, "params": _json(_params(world, spec))}


def _params(world: World, spec: ModelSpec) -> dict[str, object]:
    held = {} if world.schema is None else {"schema": dict(world.schema)}
    return {
        **held,
        "model": spec.model,
        "sdk": spec.sdk,
        "max_tokens": spec.max_tokens,
        "params": {} if spec.sdk == "fake" else spec.params,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
