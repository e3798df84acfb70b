"""Calls the main model: one attempt, one fact; what failed is tried again, or elsewhere."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from types import AsyncGeneratorType

from loom_ia.core.effects import CallModel
from loom_ia.core.events import (
    ConfigChanged,
    ModelCalled,
    ModelExchanged,
    ModelFailed,
    ModelResponded,
    ModelSwitched,
    Payload,
    RunFailed,
)
from loom_ia.core.failures import ModelError, ModelSuspendedError, ModelTransientError
from loom_ia.core.model import (
    Announced,
    Answer,
    CallDelta,
    Discard,
    Message,
    ModelRequest,
    RawExchange,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    Usage,
)
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.pricing import cost
from loom_ia.core.state import RunState
from loom_ia.core.trusted import lean
from loom_ia.core.wording import say
from loom_ia.engine.answers import counted, fit, partly
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.resilience import (
    DEFAULT_TIMEOUTS,
    Again,
    Chain,
    Seat,
    Watch,
    delays,
    elsewhere,
    obstacle,
    watched,
)
from loom_ia.engine.transcript import Transcript
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.model")
_SAME: dict[str, str] = {}
"""Prefix of an attempt that sends what the one before sent; shared, and frozen by its event."""
USABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(slots=True)
class Attempt:
    """What is known of one request while its answer comes."""

    effect: CallModel
    seat: Seat
    request: ModelRequest
    span: str
    start: float
    announced: Usage | None = None
    shown: int = 0
    """Characters that came."""
    exchange: RawExchange | None = None


class ModelCalls:
    """Performs CallModel."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight
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
        called = self._called(effect, state, seat, prefix)
        if not await pen.write("plan", span, *self._moved(called, state), called):
            return
        start = self._scene.ports.clock.monotonic()
        attempt = Attempt(effect, seat, request, span, start)
        try:
            answer = await self._stream(attempt)
        except (ModelError, HaltedError) as error:
            self._scene.show(Discard(run_id=self._scene.ref.run_id))
            pen.take("outcome", span, *self._failed(attempt, error))
            if isinstance(error, ModelError):
                await self._after(attempt, error, pen)
            return
        pen.take("outcome", span, *self._responded(attempt, state, answer))

    async def _after(self, attempt: Attempt, error: ModelError, pen: Pen) -> None:
        """Wait before the next attempt, go to another model, or end the run."""
        effect, seat = attempt.effect, attempt.seat
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
        logger.warning("model %s left for %s (%s)", left, model, code, extra=self._extra(""))
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
        parts = [key for key in now if now[key] != before.get(key)]
        if state.serving == called.model and "params" in parts:
            parts.remove("params")  # those of another model, whose arrival is a fact already
        return (ConfigChanged(parts=tuple(parts)),) if parts else ()

    async def _stream(self, attempt: Attempt) -> Answer:
        """The answer of one attempt, told to the circuit breaker.

        Raises:
            ModelError: there is none.
            HaltedError: the flight was halted.

        """
        breaker, name = attempt.seat.breaker, attempt.seat.spec.id
        failure: BaseException | None = HaltedError()
        if breaker is not None:
            breaker.enter()
        try:
            read = self._pieces if delays(attempt.seat.spec) is None else self._watched
            answer = await self._flight.stoppable(partial(read, attempt))
            if answer is None:
                raise ModelTransientError(model=name, reason="the stream was cut before its end")  # noqa: TRY301 - as if the adapter had seen it
            failure = None
            return fit(answer, attempt.request)
        except (ModelError, HaltedError) as error:
            failure = error
            raise
        except Exception as error:
            logger.exception("adapter of model %s failed", name, extra=self._extra(""))
            raise ModelError(model=name, reason=f"{type(error).__name__}: {error}") from error
        finally:
            if breaker is not None:
                breaker.leave(failure)

    async def _watched(self, attempt: Attempt) -> Answer | None:
        timeouts = delays(attempt.seat.spec) or DEFAULT_TIMEOUTS
        async with watched(attempt.seat.spec.id, timeouts) as watch:
            return await self._pieces(attempt, watch)

    async def _pieces(self, attempt: Attempt, watch: Watch | None = None) -> Answer | None:
        """The answer at the end of a stream, whose pieces are shown; the stream is closed."""
        show, run_id = self._scene.show, self._scene.ref.run_id
        stream = attempt.seat.model.stream(attempt.request)
        try:
            async for chunk in stream:
                match chunk:
                    case TextDelta():
                        attempt.shown += len(chunk.text)
                        show(TextDelta(text=chunk.text, run_id=run_id))
                    case Answer():
                        return chunk
                    case ReasoningDelta():
                        attempt.shown += len(chunk.text)
                        show(ReasoningDelta(text=chunk.text, run_id=run_id))
                    case CallDelta():
                        attempt.shown += len(chunk.arguments)
                    case Announced():
                        attempt.announced = chunk.usage
                        continue
                    case RawExchange():
                        attempt.exchange = chunk
                        continue
                if watch is not None:
                    watch.piece()
            return None
        finally:
            if type(stream) is AsyncGeneratorType or isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _failed(self, attempt: Attempt, error: Exception) -> tuple[Payload, ...]:
        spec, effect, ms = attempt.seat.spec, attempt.effect, self._ms(attempt)
        code = error.code if isinstance(error, ModelError) else "halted"
        logger.info(
            "model %s failed after %.0f ms (%s)", spec.id, ms, code, extra=self._extra(effect)
        )
        usage = error.usage if isinstance(error, ModelError) else None
        usage = usage or partly(attempt.announced, attempt.shown)
        failed = ModelFailed(
            step=effect.step,
            attempt=effect.attempt,
            model=spec.model,
            code=code,
            ms=ms,
            detail=str(error),
            usage=usage,
            cost=cost(spec, "", usage, self._scene.world.prices),
        )
        return (*_exchanged(attempt), failed)

    def _responded(self, attempt: Attempt, state: RunState, answer: Answer) -> tuple[Payload, ...]:
        spec, effect, ms = attempt.seat.spec, attempt.effect, self._ms(attempt)
        usage = answer.usage or counted(answer, attempt.request, self._estimate)
        if logger.isEnabledFor(logging.INFO):
            tokens = f"{usage.input}/{usage.output}"
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
        if named is not answer.message or answer.usage is None:
            answer = answer.model_copy(update={"message": named, "usage": usage})
        responded = ModelResponded.make(
            effect.step,
            spec.model,
            answer,
            not_executed=not_executed,
            cost=cost(spec, answer.model, usage, self._scene.world.prices),
            ms=ms,
        )
        return (*_exchanged(attempt), responded)

    def _ms(self, attempt: Attempt) -> float:
        return round((self._scene.ports.clock.monotonic() - attempt.start) * 1000, 3)

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


def _exchanged(attempt: Attempt) -> tuple[ModelExchanged, ...]:
    raw = attempt.exchange
    if raw is None:
        return ()
    exchanged = ModelExchanged(
        step=attempt.effect.step,
        attempt=attempt.effect.attempt,
        url=raw.url,
        request=raw.request,
        status=raw.status,
        headers=raw.headers,
        body=raw.body,
    )
    return (exchanged,)
