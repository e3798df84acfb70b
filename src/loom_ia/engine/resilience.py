"""What is done when a model fails: wait and try again, ask another one, or give up."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from loom_ia.core.failures import (
    ModelError,
    ModelOverflowError,
    ModelRequestError,
    ModelSuspendedError,
    ModelTransientError,
)
from loom_ia.core.model import (
    CircuitBreaker,
    ImageBlock,
    Message,
    ModelRequest,
    ModelSpec,
    Timeouts,
    ToolResultBlock,
)
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.ports import Clock, Model

DEFAULT_TIMEOUTS = Timeouts()


class Breaker:
    """Sets a failing model aside for every run of the instance; one call tries after a while."""

    def __init__(self, settings: CircuitBreaker, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._failures = 0
        self._opened: float | None = None
        self._trial = False

    @property
    def wait(self) -> float:
        """Seconds before a call may leave; 0 when one may."""
        if self._opened is None:
            return 0.0
        left = self._opened + self._settings.cooldown - self._clock.monotonic()
        # While one call tries, the others come back after it: there is no telling when.
        return max(left, 1.0) if left > 0 or self._trial else 0.0

    def enter(self) -> None:
        """One call leaves; behind an open breaker it is the only one."""
        self._trial = self._opened is not None

    def leave(self, error: BaseException | None) -> None:
        """The call is over. What says nothing of the provider's health changes nothing."""
        trial, self._trial = self._trial, False
        if error is None or (isinstance(error, ModelError) and _answered(error)):
            self._failures, self._opened = 0, None
        elif isinstance(error, ModelError) and error.counted:
            self._failures += 1
            if trial or self._failures >= self._settings.failures:
                self._opened = self._clock.monotonic()


def breakers_of(specs: Iterable[ModelSpec], clock: Clock) -> dict[str, Breaker]:
    """One breaker for each model and credential: two ids of the same ones share it."""
    shared: dict[tuple[str, str | None, str, str | None], Breaker] = {}
    return {
        spec.id: shared.setdefault(
            (spec.sdk, spec.base_url, spec.model, spec.api_key_env),
            Breaker(spec.circuit_breaker, clock),
        )
        for spec in specs
    }


def _answered(error: ModelError) -> bool:
    """True for a failure that only a working provider gives."""
    return isinstance(error, ModelRequestError | ModelOverflowError)


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """One model of a chain."""

    spec: ModelSpec
    model: Model
    breaker: Breaker | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The same model is asked again."""

    delay: float
    """Seconds."""


@dataclass(slots=True)
class Chain:
    """The models of one role during one drive; a run stays on the one it went to."""

    seats: Sequence[Seat]
    _tries: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Requests sent, by step and model."""

    def seat(self, serving: str) -> Seat:
        """The model that a run is on; the first one at its start, or when it is gone."""
        if serving:
            for seat in self.seats:
                if seat.spec.id == serving:
                    return seat
        return self.seats[0]

    def after(self, seat: Seat) -> Sequence[Seat]:
        """The models that come after this one, in order."""
        return self.seats[self.seats.index(seat) + 1 :]

    def failed(self, seat: Seat, error: ModelError, step: int, draw: str) -> Again | None:
        """Whether the same model is asked again for this step, and when."""
        key = step, seat.spec.id
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        retry = seat.spec.retry
        if not error.retried or tries >= retry.max_attempts:
            return None
        asked = error.retry_after or 0.0
        if asked > retry.max_delay:
            return None
        return Again(max(asked, backoff(retry.delay, retry.max_delay, tries, draw)))


def backoff(delay: float, longest: float, tries: int, draw: str) -> float:
    """Seconds before the next request: doubled each time, between half of it and all of it.

    The part is drawn from the name of the run, so that runs spread and a test can tell.
    """
    digest = hashlib.blake2b(f"{draw}:{tries}".encode(), digest_size=2).digest()
    part = int.from_bytes(digest, "big") / 0xFFFF
    return min(delay * 2 ** (tries - 1), longest) * (0.5 + part / 2)


def elsewhere(error: ModelError, failed: ModelSpec, other: ModelSpec) -> bool:
    """Whether another model may be asked after this failure.

    An invalid request would be invalid again, unless the other one is set up apart.
    """
    if not isinstance(error, ModelRequestError):
        return True
    return (failed.sdk, failed.base_url, failed.params) != (other.sdk, other.base_url, other.params)


def obstacle(seat: Seat, first: Seat, request: ModelRequest, estimate: Estimate) -> str:
    """Why a model cannot take this request now; empty when it can."""
    if seat.breaker is not None and seat.breaker.wait:
        return ModelSuspendedError.code
    able = seat.spec.capabilities
    if able.context_window is not None and estimate.input(request) > able.context_window:
        return ModelOverflowError.code
    wants_sight = first.spec.capabilities.vision and not able.vision
    return "no_vision" if wants_sight and any(map(_pictured, request.messages)) else ""


def _pictured(message: Message) -> bool:
    for block in message.blocks:
        parts = block.content if isinstance(block, ToolResultBlock) else (block,)
        if any(isinstance(part, ImageBlock) for part in parts):
            return True
    return False


class Watch:
    """Three delays of one stream, with one timer that looks at the last piece when it rings."""

    def __init__(self, timeouts: Timeouts, scope: asyncio.Timeout) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self._timeouts = timeouts
        self._end = self._loop.time() + timeouts.total
        self._piece: float | None = None
        first = self._loop.time() + timeouts.first_token
        self._timer = self._loop.call_at(min(first, self._end), self._ring)
        self.reason = ""

    def piece(self) -> None:
        """A piece with content has come."""
        now = self._loop.time()
        if self._piece is None:
            self._timer.cancel()
            self._timer = self._loop.call_at(min(now + self._timeouts.idle, self._end), self._ring)
        self._piece = now

    def stop(self) -> None:
        """The stream is over."""
        self._timer.cancel()

    def _ring(self) -> None:
        now, timeouts = self._loop.time(), self._timeouts
        silent = None if self._piece is None else self._piece + timeouts.idle
        if now >= self._end:
            self._expire(f"no whole answer within {timeouts.total:g} s", now)
        elif silent is None:
            self._expire(f"no first token within {timeouts.first_token:g} s", now)
        elif now >= silent:
            self._expire(f"silent for {timeouts.idle:g} s", now)
        else:
            self._timer = self._loop.call_at(min(silent, self._end), self._ring)

    def _expire(self, reason: str, now: float) -> None:
        self.reason = reason
        self._scope.reschedule(now)


def delays(spec: ModelSpec) -> Timeouts | None:
    """Delays of a model; one of this process has none unless asked."""
    return spec.timeouts or (None if spec.sdk == "fake" else DEFAULT_TIMEOUTS)


@asynccontextmanager
async def watched(model: str, timeouts: Timeouts) -> AsyncGenerator[Watch]:
    """Cuts what is inside once a delay is over.

    Raises:
        ModelTransientError: the model was silent for too long.

    """
    watch: Watch | None = None
    try:
        async with asyncio.timeout(None) as scope:
            watch = Watch(timeouts, scope)
            yield watch
    except TimeoutError as error:
        if watch is None or not watch.reason:
            raise
        raise ModelTransientError(model=model, reason=watch.reason) from error
    finally:
        if watch is not None:
            watch.stop()
