"""Calls the main model: the request grows with the conversation, the answer is a stream."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from loom_ia.core.effects import CallModel
from loom_ia.core.events import ConfigChanged, ModelCalled, ModelFailed, ModelResponded, RunFailed
from loom_ia.core.model import (
    FREE,
    Answer,
    Discard,
    Message,
    ModelRequest,
    ModelSpec,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    Usage,
)
from loom_ia.core.ports import ModelError
from loom_ia.core.state import RunState
from loom_ia.core.trusted import lean
from loom_ia.core.vec import Vec
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.world import Scene, World

logger = logging.getLogger("loom_ia.model")
_SAME: dict[str, str] = {}
"""Prefix of an attempt that sends what the one before sent; shared, and frozen by its event."""
USABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Transcript:
    """What is sent: the session's history, then the run's messages, extended and never rebuilt."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._seen: Vec[Message] = Vec()
        self.messages: Vec[Message] = Vec(scene.history)
        self._prefix: dict[str, str] = {}

    def follow(self, state: RunState) -> Sequence[Message]:
        """Every message of the request, for this state of the run."""
        if state.messages.extends(self._seen):
            new = state.messages[len(self._seen) :]
            self.messages = self.messages.add(*new) if new else self.messages
        else:
            self.messages = Vec([*self._scene.history, *state.messages])
        self._seen = state.messages
        return self.messages

    async def prefix(self) -> Mapping[str, str]:
        """Digests of what stands before the run's messages, kept as blobs before they are named."""
        if not self._prefix:
            put, tenant = self._scene.ports.blobs.put, self._scene.ref.tenant_id
            for name, part in _parts(self._scene.world).items():
                self._prefix[name] = await put(tenant, part)
            if self._scene.history_digest:
                self._prefix["history"] = self._scene.history_digest
        return self._prefix

    def digests(self, state: RunState, *, told: int) -> tuple[str, ...]:
        """Digests of the run's messages from number `told` on."""
        digest, tenant = self._scene.ports.blobs.digest, self._scene.ref.tenant_id
        return tuple([digest(tenant, encoded(message)) for message in state.messages[told:]])


def encoded(message: Message) -> bytes:
    """A message as a journal holds it."""
    return message.__pydantic_serializer__.to_json(message)


def _parts(world: World) -> Mapping[str, bytes]:
    parts = world.parts
    if not parts:
        parts["system"] = _json(world.system)
        parts["tools"] = _json([spec.model_dump(mode="json") for spec in world.specs])
        parts["params"] = _json(_params(world.spec))
    return parts


def _params(spec: ModelSpec) -> dict[str, object]:
    return {
        "model": spec.model,
        "sdk": spec.sdk,
        "max_tokens": spec.max_tokens,
        "params": {} if spec.sdk == "fake" else spec.params,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()


class ModelCalls:
    """Performs CallModel."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight
        self._transcript = Transcript(scene)

    async def call(self, effect: CallModel, pen: Pen) -> None:
        """Write the facts of one attempt."""
        state = pen.state
        request = self._request(effect, state)
        span = f"{effect.step}.{effect.attempt}"
        called = await self._called(effect, state)
        if not await pen.write("plan", span, *self._moved(called, state), called):
            return
        clock = self._scene.ports.clock
        start = clock.monotonic()
        try:
            answer = await self._stream(request)
        except (ModelError, HaltedError) as error:
            ms = _ms(clock.monotonic() - start)
            self._scene.show(Discard(run_id=self._scene.ref.run_id))
            pen.take("outcome", span, self._failed(effect, error, ms))
            if isinstance(error, ModelError):
                params = {key: str(value) for key, value in error.params.items()}
                await end(pen, RunFailed(code=error.code, params={**params}, resumable=True))
            return
        ms = _ms(clock.monotonic() - start)
        pen.take("outcome", span, self._responded(effect, state, answer, ms))

    def _request(self, effect: CallModel, state: RunState) -> ModelRequest:
        world = self._scene.world
        messages = self._transcript.follow(state)
        system = world.system
        if effect.final:
            system = f"{system}\n\n{say(world.language, 'final')}".strip()
        tools = () if effect.final else world.specs
        return ModelRequest(
            world.spec, system, messages, tools, turn=state.turns, final=effect.final
        )

    async def _called(self, effect: CallModel, state: RunState) -> ModelCalled:
        prefix = await self._transcript.prefix()
        same = prefix == state.prefix
        added = self._transcript.digests(state, told=state.told if same else 0)
        return ModelCalled.make(
            effect, self._scene.world.spec.id, _SAME if same else dict(prefix), added
        )

    def _moved(self, called: ModelCalled, state: RunState) -> tuple[ConfigChanged, ...]:
        """Says which parts of the configuration are no longer those the run had."""
        before, now = state.prefix, called.prefix
        if not before or not now:
            return ()
        parts = tuple(key for key in now if now[key] != before.get(key))
        return (ConfigChanged(parts=parts),) if parts else ()

    async def _stream(self, request: ModelRequest) -> Answer:
        name = request.spec.id
        try:
            answer = await self._flight.stoppable(partial(self._read, request))
        except (ModelError, HaltedError):
            raise
        except Exception as error:
            logger.exception("adapter of model %s failed", name, extra=self._extra(""))
            raise ModelError(model=name, reason=f"{type(error).__name__}: {error}") from error
        if answer is None:
            raise ModelError(model=name, reason="the stream was cut before its end")
        return answer

    async def _read(self, request: ModelRequest) -> Answer | None:
        """The answer at the end of a stream, whose pieces are shown; the stream is closed."""
        show, run_id = self._scene.show, self._scene.ref.run_id
        stream = self._scene.world.model.stream(request)
        try:
            async for chunk in stream:
                match chunk:
                    case Answer():
                        return chunk
                    case TextDelta():
                        show(TextDelta(text=chunk.text, run_id=run_id))
                    case ReasoningDelta():
                        show(ReasoningDelta(text=chunk.text, run_id=run_id))
            return None
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _failed(self, effect: CallModel, error: Exception, ms: float) -> ModelFailed:
        spec = self._scene.world.spec
        code = error.code if isinstance(error, ModelError) else "halted"
        logger.info(
            "model %s failed after %.0f ms (%s)", spec.id, ms, code, extra=self._extra(effect)
        )
        return ModelFailed(
            step=effect.step,
            attempt=effect.attempt,
            model=spec.model,
            code=code,
            ms=ms,
            detail=str(error),
        )

    def _responded(
        self, effect: CallModel, state: RunState, answer: Answer, ms: float
    ) -> ModelResponded:
        spec, usage = self._scene.world.spec, answer.usage
        if logger.isEnabledFor(logging.INFO):
            tokens = f"{usage.input}/{usage.output}" if usage else "?"
            logger.info(
                "model %s answered in %.0f ms, %s tokens",
                spec.id,
                ms,
                tokens,
                extra=self._extra(effect),
            )
        not_executed = ""
        if effect.final and answer.message.calls:
            not_executed = say(self._scene.world.language, "not_executed")
        _lighten(answer)
        named = self._named(answer.message, state)
        if named is not answer.message:
            answer = answer.model_copy(update={"message": named})
        return ModelResponded.make(
            effect.step,
            spec.model,
            answer,
            not_executed=not_executed,
            cost=self._cost(usage),
            ms=ms,
        )

    def _cost(self, usage: Usage | None) -> Decimal | None:
        spec = self._scene.world.spec
        pricing = spec.pricing or (FREE if spec.sdk == "fake" else None)
        return None if pricing is None or usage is None else pricing.cost(usage)

    def _named(self, message: Message, state: RunState) -> Message:
        """The message with call ids that are unique in the run and usable on the wire."""
        calls = message.calls
        if not calls:
            return message
        ordinal = state.started.ordinal if state.started else 1
        fresh: set[str] = set()
        renamed: dict[int, ToolCallBlock] = {}
        for index, call in enumerate(calls):
            block = call
            if call.id in state.ids or call.id in fresh or not USABLE_ID.fullmatch(call.id):
                own = f"{ordinal}_{state.turns}_{index}"
                block = call.model_copy(update={"id": own, "provider_id": call.id or None})
                renamed[id(call)] = block
            fresh.add(block.id)
        if not renamed:
            return message
        blocks = tuple(renamed.get(id(b), b) for b in message.blocks)
        return message.model_copy(update={"blocks": blocks})

    def _extra(self, effect: CallModel | str) -> dict[str, str]:
        ref = self._scene.ref
        span = effect if isinstance(effect, str) else f"{effect.step}.{effect.attempt}"
        return {"run_id": ref.run_id, "span_id": span, "tenant_id": ref.tenant_id}


def _lighten(answer: Answer) -> None:
    """Free what the checks of an adapter's values left in what the journal will hold."""
    lean(answer.message)
    for block in answer.message.blocks:
        lean(block)
    if answer.usage is not None:
        lean(answer.usage)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
