"""One attempt at an answer, whoever asks for it: its stream, its delays, what is kept of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from types import AsyncGeneratorType

from loom_ia.core.events import ModelExchanged, ModelFailed, Payload
from loom_ia.core.failures import ModelError, ModelTransientError
from loom_ia.core.model import (
    Announced,
    Answer,
    CallDelta,
    ModelChunk,
    ModelRequest,
    RawExchange,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from loom_ia.core.pricing import cost
from loom_ia.engine.answers import fit, partly
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.resilience import DEFAULT_TIMEOUTS, Seat, Watch, delays, watched
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.model")


@dataclass(slots=True)
class Attempt:
    """What is known of one request while its answer comes."""

    seat: Seat
    request: ModelRequest
    step: int
    number: int
    """From 1, within its step."""
    role: str
    """Who asks: `main`, or the name of a role or of a judge."""
    start: float
    shown: bool = False
    """Followers of the run see its text."""
    announced: Usage | None = None
    characters: int = 0
    """How many came."""
    exchange: RawExchange | None = None

    @property
    def span(self) -> str:
        """Where it stands in the run."""
        return f"{self.step}.{self.number}"

    def take(self, chunk: ModelChunk) -> bool:
        """Note what a piece says; true for one that has content."""
        match chunk:
            case TextDelta() | ReasoningDelta():
                self.characters += len(chunk.text)
            case CallDelta():
                self.characters += len(chunk.arguments)
            case Announced():
                self.announced = chunk.usage
                return False
            case RawExchange():
                self.exchange = chunk
                return False
            case Answer():
                pass
        return True


class Attempts:
    """Asks models; the pieces of a shown attempt go to the followers, what it thinks never does."""

    def __init__(
        self, scene: Scene, flight: Flight, show: Callable[[TextDelta], None] | None = None
    ) -> None:
        """`show` takes the pieces of shown attempts; the followers of the run do by default."""
        self._scene, self._flight, self._show = scene, flight, show or scene.show

    async def answer(self, attempt: Attempt) -> Answer:
        """The answer of one attempt, fit to be a fact; the circuit breaker is told.

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
            logger.exception("adapter of model %s failed", name, extra=self.place(attempt.span))
            raise ModelError(model=name, reason=f"{type(error).__name__}: {error}") from error
        finally:
            if breaker is not None:
                breaker.leave(failure)

    async def _watched(self, attempt: Attempt) -> Answer | None:
        timeouts = delays(attempt.seat.spec) or DEFAULT_TIMEOUTS
        async with watched(attempt.seat.spec.id, timeouts) as watch:
            return await self._pieces(attempt, watch)

    async def _pieces(self, attempt: Attempt, watch: Watch | None = None) -> Answer | None:
        """The answer at the end of a stream; the stream is closed."""
        show, run_id = self._show, self._scene.ref.run_id
        stream = attempt.seat.model.stream(attempt.request)
        try:
            async for chunk in stream:
                if isinstance(chunk, Answer):
                    return chunk
                if not attempt.take(chunk):
                    continue
                if attempt.shown and isinstance(chunk, TextDelta):
                    show(TextDelta(text=chunk.text, run_id=run_id))
                if watch is not None:
                    watch.piece()
            return None
        finally:
            if type(stream) is AsyncGeneratorType or isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def failed(self, attempt: Attempt, error: Exception) -> tuple[Payload, ...]:
        """Facts of an attempt without an answer."""
        spec, ms = attempt.seat.spec, self.ms(attempt)
        code = error.code if isinstance(error, ModelError) else "halted"
        logger.info(
            "model %s failed after %.0f ms (%s)", spec.id, ms, code, extra=self.place(attempt.span)
        )
        usage = error.usage if isinstance(error, ModelError) else None
        usage = usage or partly(attempt.announced, attempt.characters)
        failed = ModelFailed(
            step=attempt.step,
            attempt=attempt.number,
            role=attempt.role,
            model=spec.model,
            code=code,
            ms=ms,
            detail=str(error),
            usage=usage,
            cost=cost(spec, "", usage, self._scene.world.prices),
        )
        return (*exchanged(attempt), failed)

    def ms(self, attempt: Attempt) -> float:
        """Milliseconds since the request left."""
        return round((self._scene.ports.clock.monotonic() - attempt.start) * 1000, 3)

    def place(self, span: str) -> dict[str, str]:
        """What a line of log says of its place."""
        ref = self._scene.ref
        return {"run_id": ref.run_id, "span_id": span, "tenant_id": ref.tenant_id}


def exchanged(attempt: Attempt) -> tuple[ModelExchanged, ...]:
    """The HTTP exchange of an attempt, when it is to be kept."""
    raw = attempt.exchange
    if raw is None:
        return ()
    kept = ModelExchanged(
        step=attempt.step,
        attempt=attempt.number,
        role=attempt.role,
        url=raw.url,
        request=raw.request,
        status=raw.status,
        headers=raw.headers,
        body=raw.body,
    )
    return (kept,)
