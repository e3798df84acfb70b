"""Calls in flight: each in its task, with its deadline; what left and gave nothing is unknown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from loom_ia.core.events import ToolCompleted, ToolUnknown
from loom_ia.core.events.tool import UnknownReason
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Draft, Launch, ToolContext, ToolError, ToolOutput
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight
from loom_ia.engine.pen import report
from loom_ia.engine.world import GRACE, Scene

logger = logging.getLogger("loom_ia.tool")

CallOutcome = ToolCompleted | ToolUnknown


@dataclass(slots=True, eq=False)
class InFlight:
    """One launched call."""

    call: Call
    task: asyncio.Task[ToolOutput]
    start: float
    limit: float
    stopped: UnknownReason | None = None
    given_up: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    forget: Callable[[], None] | None = None


class Launches:
    """Launches calls and gives their outcomes in order of arrival."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight, self._epoch = scene, flight, epoch
        self._inflight: dict[str, InFlight] = {}
        self._outcomes: asyncio.Queue[CallOutcome] = asyncio.Queue()
        self._late: set[asyncio.Task[None]] = set()
        self._stuck: list[str] = []

    @property
    def running(self) -> int:
        """Calls whose outcome has not been given yet."""
        return len(self._inflight) + self._outcomes.qsize()

    @property
    def still_running(self) -> tuple[str, ...]:
        """Calls that did not stop in time."""
        return tuple(self._stuck)

    def start(self, call: Call, launch: Launch, state: RunState) -> None:
        """Launch a call whose intent is written."""
        world, loop = self._scene.world, asyncio.get_running_loop()
        context = self._scene.context(state, call, self._epoch)
        limit = world.timeouts.get(call.name, world.tool_timeout)
        task = loop.create_task(_awaited(launch, context))
        flying = InFlight(call, task, self._scene.ports.clock.monotonic(), limit)
        self._inflight[call.id] = flying
        flying.timers.append(loop.call_later(limit, self._stop, flying, "timeout"))
        flying.forget = self._flight.on_halt(lambda: self._stop(flying, self._halt_reason()))
        task.add_done_callback(lambda _: self._done(flying))

    def _halt_reason(self) -> UnknownReason:
        return "lease_lost" if self._flight.reason == "lease_lost" else "cancelled"

    def _stop(self, flying: InFlight, reason: UnknownReason) -> None:
        if flying.stopped is not None or flying.task.done():
            return
        flying.stopped = reason
        flying.task.cancel()
        loop = asyncio.get_running_loop()
        flying.timers.append(loop.call_later(GRACE, self._give_up, flying))

    def _give_up(self, flying: InFlight) -> None:
        if flying.task.done():
            return
        flying.given_up = True
        self._stuck.append(flying.call.id)
        self._close(flying, self._unknown(flying, flying.stopped or "timeout"))

    def _done(self, flying: InFlight) -> None:
        if flying.given_up:
            self._report(flying)
            return
        self._close(flying, self._outcome(flying))

    def _close(self, flying: InFlight, outcome: CallOutcome) -> None:
        for timer in flying.timers:
            timer.cancel()
        if flying.forget is not None:
            flying.forget()
        self._inflight.pop(flying.call.id, None)
        self._outcomes.put_nowait(outcome)

    async def outcome(self) -> CallOutcome:
        """The next outcome."""
        return await self._outcomes.get()

    def _outcome(self, flying: InFlight) -> CallOutcome:
        task, ms = flying.task, self._ms(flying)
        if task.cancelled():
            outcome = self._cut(flying)
        elif (error := task.exception()) is not None:
            outcome = self._raised(flying, error)
        else:
            blocks = task.result().blocks
            outcome = ToolCompleted(call_id=flying.call.id, blocks=blocks, ms=ms)
        self._log(flying, outcome.outcome, ms)
        return outcome

    def _cut(self, flying: InFlight) -> CallOutcome:
        """A call that was stopped: unknown, unless stopping it by its deadline does no harm."""
        reason = flying.stopped or "cancelled"
        if reason == "timeout" and self._scene.world.plan.of(flying.call.name).repeatable:
            text = say(self._scene.world.language, "timed_out", seconds=f"{flying.limit:g}")
            return self._failed(flying, text)
        return self._unknown(flying, reason)

    def _raised(self, flying: InFlight, error: BaseException) -> CallOutcome:
        if isinstance(error, ToolError):
            return self._failed(flying, str(error))
        tool = self._scene.world.plan.of(flying.call.name)
        logger.warning(
            "tool %s raised %s",
            flying.call.name,
            type(error).__name__,
            exc_info=error,
            extra=self._extra(flying),
        )
        detail = f"{type(error).__name__}: {error}"
        if tool.side_effects == "irreversible" and not tool.idempotent:
            return self._unknown(flying, "exception", detail)
        return self._failed(flying, detail)

    def _failed(self, flying: InFlight, text: str) -> ToolCompleted:
        block = TextBlock.of(text)
        ms = self._ms(flying)
        return ToolCompleted(call_id=flying.call.id, blocks=(block,), is_error=True, ms=ms)

    def _unknown(self, flying: InFlight, reason: UnknownReason, detail: str = "") -> ToolUnknown:
        return ToolUnknown(
            call_id=flying.call.id,
            reason=reason,
            detail=detail,
            still_running=flying.given_up,
            ms=self._ms(flying),
        )

    def _ms(self, flying: InFlight) -> float:
        return round((self._scene.ports.clock.monotonic() - flying.start) * 1000, 3)

    def _report(self, flying: InFlight) -> None:
        """Record an outcome that came after the driver had stopped waiting for it."""
        if flying.task.cancelled() or flying.task.exception() is not None:
            return
        blocks = flying.task.result().blocks
        fact = ToolCompleted(call_id=flying.call.id, blocks=blocks, ms=self._ms(flying))
        draft = Draft(self._scene.ports.ids.new(), fact, flying.call.id)
        late = asyncio.get_running_loop().create_task(
            report(self._scene.ports.journal, self._scene.ref, fact, draft)
        )
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def let_go(self) -> None:
        """Stop what is in flight, within the grace; what answers all the same is recorded."""
        for flying in tuple(self._inflight.values()):
            self._stop(flying, self._halt_reason())
        while self.running:
            outcome = await self._outcomes.get()
            if isinstance(outcome, ToolCompleted):
                draft = Draft(self._scene.ports.ids.new(), outcome, outcome.call_id)
                await report(self._scene.ports.journal, self._scene.ref, outcome, draft)

    def _log(self, flying: InFlight, status: str, ms: float) -> None:
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "tool %s: %s in %.0f ms", flying.call.name, status, ms, extra=self._extra(flying)
            )

    def _extra(self, flying: InFlight) -> dict[str, str]:
        ref = self._scene.ref
        return {"run_id": ref.run_id, "span_id": flying.call.id, "tenant_id": ref.tenant_id}


async def _awaited(launch: Launch, context: ToolContext) -> ToolOutput:
    return await launch(context)
