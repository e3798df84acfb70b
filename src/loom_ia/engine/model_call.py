"""Calls the main model: one attempt, one fact; what failed is tried again, or elsewhere."""

from __future__ import annotations

import logging
import re
from functools import partial

from loom_ia.core.effects import CallModel
from loom_ia.core.events import (
    ConfigChanged,
    ModelCalled,
    ModelResponded,
    ModelSwitched,
    Payload,
    RunFailed,
)
from loom_ia.core.failures import (
    ModelError,
    ModelParamError,
    ModelRequestError,
    ModelSuspendedError,
    blamed,
)
from loom_ia.core.model import (
    Answer,
    Message,
    ModelRequest,
    ToolCallBlock,
)
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.pricing import total
from loom_ia.core.state import RunState
from loom_ia.core.trusted import lean
from loom_ia.core.wording import say
from loom_ia.engine.answers import counted
from loom_ia.engine.attempts import Attempt, Attempts, exchanged
from loom_ia.engine.curtain import Curtain
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.framing import Framed, Framing
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.resilience import (
    Again,
    Chain,
    Seat,
    elsewhere,
    obstacle,
)
from loom_ia.engine.transcript import Transcript
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.model")
_SAME: dict[str, str] = {}
"""Prefix of an attempt that sends what the one before sent; shared, and frozen by its event."""
USABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ModelCalls:
    """Performs CallModel."""

    def __init__(self, scene: Scene, flight: Flight, curtain: Curtain) -> None:
        self._scene, self._flight, self._curtain = scene, flight, curtain
        self._attempts = Attempts(scene, flight, curtain.show)
        self._framing = Framing(scene, flight)
        self._transcript = Transcript(scene)
        self._chain = Chain(scene.world.seats)
        self._estimate = Estimate()

    async def call(self, effect: CallModel, pen: Pen) -> None:
        """Write the facts of one attempt; one that may be made again is planned again."""
        state = pen.state
        seat = self._chain.seat(state.serving)
        request = self._request(effect, state, seat)
        span = f"{effect.step}.{effect.attempt}"
        if reason := obstacle(seat, self._chain.seats[0], request, self._estimate):
            other = self._next(seat, request, None)
            if other is not None:
                pen.take("plan", span, self._switched(effect, seat, other, reason))
                return
            if reason == ModelSuspendedError.code:
                await end(pen, _fail(_suspended(seat)))
                return
        prefix = self._transcript.known(seat.spec) or await self._transcript.prefix(seat.spec)
        if self._scene.world.before_model:
            framed = await self._framed(request, pen, span)
            if framed is None:
                return
            request, state = framed.request, pen.state
            prefix = {**prefix, **await self._framing.kept(framed)}
        called = self._called(effect, state, seat, prefix)
        if not await pen.write("plan", span, *self._moved(called, state), called):
            return
        start = self._scene.ports.clock.monotonic()
        attempt = Attempt(seat, request, effect.step, effect.attempt, "main", start, shown=True)
        try:
            answer = await self._attempts.answer(attempt)
        except (ModelError, HaltedError) as raised:
            error = self._told(seat, raised)
            self._curtain.drop()
            pen.take("outcome", span, *self._attempts.failed(attempt, error))
            if isinstance(error, ModelError):
                await self._after(effect, attempt, error, pen)
            return
        pen.take("outcome", span, *self._responded(effect, attempt, state, answer))

    async def _framed(self, request: ModelRequest, pen: Pen, span: str) -> Framed | None:
        try:
            return await self._framing.framed(request, pen, span)
        except HaltedError:
            return None  # the driver plans nothing more

    async def _after(
        self, effect: CallModel, attempt: Attempt, error: ModelError, pen: Pen
    ) -> None:
        """Wait before the next attempt, go to another model, or end the run."""
        seat = attempt.seat
        again = self._chain.failed(seat, error, effect.step, self._scene.ref.run_id)
        if again is not None and (seat.breaker is None or not seat.breaker.wait):
            await self._wait(again)
            return
        other = self._next(seat, attempt.request, error)
        if other is None:
            await end(pen, _fail(error))
        else:
            switched = self._switched(effect, seat, other, error.code, str(error))
            pen.take("outcome", attempt.span, switched)

    def _told(self, seat: Seat, error: ModelError | HaltedError) -> ModelError | HaltedError:
        """The failure; a refused parameter is told with its place in the configuration."""
        if type(error) is not ModelRequestError:
            return error
        reason = str(error.params.get("reason", ""))
        name = blamed(reason, seat.spec.params)
        if not name:
            return error
        place = self._scene.world.place(seat.spec.id, name)
        return ModelParamError(
            usage=error.usage,
            model=seat.spec.id,
            name=name,
            reason=reason,
            place=f" ({place})" if place else "",
        )

    async def _wait(self, again: Again) -> None:
        try:
            await self._flight.stoppable(partial(self._scene.ports.clock.sleep, again.delay))
        except HaltedError:
            return  # the driver plans nothing more

    def _next(self, seat: Seat, request: ModelRequest, error: ModelError | None) -> Seat | None:
        """The model that takes over: the first of those behind that can take this request."""
        first = self._chain.seats[0]
        for other in self._chain.after(seat):
            if error is not None and not elsewhere(error, seat.spec, other.spec):
                continue
            if not obstacle(other, first, request, self._estimate):
                return other
        return None

    def _switched(
        self, effect: CallModel, seat: Seat, other: Seat, code: str, detail: str = ""
    ) -> ModelSwitched:
        left, model = seat.spec.id, other.spec.id
        logger.warning(
            "model %s left for %s (%s)", left, model, code, extra=self._attempts.place("")
        )
        return ModelSwitched(step=effect.step, left=left, model=model, code=code, detail=detail)

    def _request(self, effect: CallModel, state: RunState, seat: Seat) -> ModelRequest:
        world = self._scene.world
        messages = self._transcript.follow(state)
        if not effect.final:
            return ModelRequest(
                seat.spec,
                world.system,
                messages,
                world.specs,
                turn=state.turns,
                files=world.files,
                language=world.language,
                schema=world.schema,
            )
        return ModelRequest(
            seat.spec,
            world.system,
            messages,
            (),
            turn=state.turns,
            final=True,
            declared=world.specs,
            note=say(world.language, "final"),
            files=world.files,
            language=world.language,
            schema=world.schema,
        )

    def _called(
        self, effect: CallModel, state: RunState, seat: Seat, prefix: dict[str, str]
    ) -> ModelCalled:
        same = prefix == state.prefix
        added = self._transcript.digests(state, told=state.told if same else 0)
        return ModelCalled.make(effect, seat.spec.id, _SAME if same else prefix, added)

    def _moved(self, called: ModelCalled, state: RunState) -> tuple[ConfigChanged, ...]:
        """Says which parts of the configuration are no longer those the run had."""
        before, now = state.prefix, called.prefix
        if not before or not now:
            return ()
        parts = [k for k in now if now[k] != before.get(k) and not k.startswith("replaced_")]
        if state.serving == called.model and "params" in parts:
            parts.remove("params")  # those of another model, whose arrival is a fact already
        return (ConfigChanged(parts=tuple(parts)),) if parts else ()

    def _responded(
        self, effect: CallModel, attempt: Attempt, state: RunState, answer: Answer
    ) -> tuple[Payload, ...]:
        spec, ms = attempt.seat.spec, self._attempts.ms(attempt)
        usage = answer.usage or counted(answer, attempt.request, self._estimate)
        if logger.isEnabledFor(logging.INFO):
            tokens = f"{usage.input}/{usage.output}"
            logger.info(
                "model %s answered in %.0f ms, %s tokens",
                spec.id,
                ms,
                tokens,
                extra=self._attempts.place(attempt.span),
            )
        not_executed = ""
        if effect.final and answer.message.calls:
            not_executed = say(self._scene.world.language, "not_executed")
        _lighten(answer)
        named = self._named(answer.message, state)
        if named is not answer.message or answer.usage is None:
            answer = answer.model_copy(update={"message": named, "usage": usage})
        responded = ModelResponded.make(
            effect.step,
            spec.model,
            answer,
            not_executed=not_executed,
            cost=total(spec, answer, usage, self._scene.world.prices),
            ms=ms,
        )
        return (*exchanged(attempt), responded)

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


def _fail(error: ModelError) -> RunFailed:
    params: dict[str, object] = {key: str(value) for key, value in error.params.items()}
    return RunFailed(code=error.code, params=params, resumable=True)


def _suspended(seat: Seat) -> ModelSuspendedError:
    wait = seat.breaker.wait if seat.breaker is not None else 0.0
    return ModelSuspendedError(model=seat.spec.id, seconds=f"{wait:.0f}")


def _lighten(answer: Answer) -> None:
    """Free what the checks of an adapter's values left in what the journal will hold."""
    lean(answer.message)
    for block in answer.message.blocks:
        lean(block)
    if answer.usage is not None:
        lean(answer.usage)
