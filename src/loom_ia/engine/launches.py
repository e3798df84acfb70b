"""Calls in flight: each in its task, with its deadline; what left and gave nothing is unknown."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from functools import partial

from loom_ia.core.events import ToolCompleted, ToolUnknown
from loom_ia.core.events.tool import UnknownReason
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import (
    STILL_RUNNING,
    Draft,
    Launch,
    ToolContext,
    ToolError,
    ToolLostError,
    ToolOutput,
)
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.begun import Begun
from loom_ia.engine.flight import Flight
from loom_ia.engine.pen import report
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.tool")

CallOutcome = ToolCompleted | ToolUnknown


@dataclass(slots=True, eq=False)
class InFlight:
    """One launched call."""

    call: Call
    start: float
    limit: float
    task: asyncio.Task[None] | None = None
    """None until its first step is over."""
    stopped: UnknownReason | None = None
    given_up: bool = False
    left_behind: bool = False
    """True when its task is over and something of it still works."""
    landed: bool = False
    timer: asyncio.TimerHandle | None = None
    """Its deadline; once it is stopped, the end of the grace."""

    def forget(self) -> None:
        """Call nothing more when its time comes."""
        if self.timer is not None:
            self.timer.cancel()


class Launches:
    """Launches calls and gives their outcomes in order of arrival."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight, self._epoch = scene, flight, epoch
        self.running = 0
        """Calls whose outcome has not been given yet."""
        self._monotonic = scene.ports.clock.monotonic
        self._inflight: dict[str, InFlight] = {}
        self._outcomes: deque[CallOutcome] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._stuck: dict[str, None] = {}
        flight.on_halt(self._halt)

    @property
    def still_running(self) -> frozenset[str]:
        """Calls that did not stop in time, as far as is known."""
        return frozenset(self._stuck)

    def start(self, call: Call, launch: Launch, state: RunState) -> None:
        """Launch a call whose intent is written."""
        world = self._scene.world
        context = self._scene.context(state, call, self._epoch)
        limit = world.timeouts.get(call.name, world.tool_timeout)
        flying = InFlight(call, self._monotonic(), limit)
        self._inflight[call.id] = flying
        self.running += 1
        flying.task = Begun(self._fly(flying, launch, context)).begin()
        if flying.landed:
            return
        loop = asyncio.get_running_loop()
        flying.timer = loop.call_later(limit, self._stop, flying, "timeout")
        if self._flight.reason is not None:
            self._stop(flying, self._halt_reason())

    def _halt(self) -> None:
        for flying in tuple(self._inflight.values()):
            self._stop(flying, self._halt_reason())

    def _halt_reason(self) -> UnknownReason:
        return "lease_lost" if self._flight.reason == "lease_lost" else "cancelled"

    def _stop(self, flying: InFlight, reason: UnknownReason) -> None:
        if flying.stopped is not None or flying.landed or flying.task is None:
            return
        flying.stopped = reason
        flying.task.cancel()
        flying.task.add_done_callback(partial(self._grounded, flying))
        loop = asyncio.get_running_loop()
        flying.forget()
        flying.timer = loop.call_later(self._scene.ports.grace, self._give_up, flying)

    def _give_up(self, flying: InFlight) -> None:
        if flying.landed:
            return
        flying.given_up = True
        self._stuck[flying.call.id] = None
        self._close(flying, self._cut(flying, flying.stopped or "timeout"))

    async def _fly(self, flying: InFlight, launch: Launch, context: ToolContext) -> None:
        """The call in its task; it tells its own end, which takes the loop one turn less."""
        try:
            output = await launch(context)
        except Exception as error:  # noqa: BLE001  the border where tools end
            self._land(flying, error)
        except BaseException as error:
            self._land(flying, error)
            raise
        else:
            self._land(flying, output)

    def _grounded(self, flying: InFlight, _task: asyncio.Task[None]) -> None:
        """End of a task that was cancelled before its first step."""
        if not flying.landed:
            self._land(flying, asyncio.CancelledError())

    def _land(self, flying: InFlight, end: ToolOutput | BaseException) -> None:
        flying.landed = True
        if flying.given_up:
            self._stuck.pop(flying.call.id, None)
        elif isinstance(end, asyncio.CancelledError) and STILL_RUNNING in end.args:
            flying.left_behind = True
            self._stuck[flying.call.id] = None
        if not flying.given_up:
            self._close(flying, self._outcome(flying, end))
        elif isinstance(end, ToolOutput):
            self._report(flying, end)

    def _close(self, flying: InFlight, outcome: CallOutcome) -> None:
        if flying.timer is not None:
            flying.timer.cancel()
        self._inflight.pop(flying.call.id, None)
        self._outcomes.append(outcome)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def outcome(self) -> CallOutcome:
        """The next outcome."""
        while not self._outcomes:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self.running -= 1
        return self._outcomes.popleft()

    def _outcome(self, flying: InFlight, end: ToolOutput | BaseException) -> CallOutcome:
        ms = self._ms(flying)
        if isinstance(end, ToolOutput):
            outcome: CallOutcome = ToolCompleted.make(
                flying.call.id, end.blocks, ms, is_error=end.is_error
            )
        elif not isinstance(end, asyncio.CancelledError):
            outcome = self._raised(flying, end)
        elif flying.stopped is not None:
            outcome = self._cut(flying, flying.stopped)
        else:
            outcome = self._raised(flying, asyncio.CancelledError("by the tool itself"))
        if logger.isEnabledFor(logging.INFO):
            self._log(flying, outcome.outcome, ms)
        return outcome

    def _cut(self, flying: InFlight, reason: UnknownReason, detail: str = "") -> CallOutcome:
        """A call that was stopped: unknown, unless stopping it by its deadline does no harm."""
        if reason == "timeout" and self._scene.world.plan.of(flying.call.name).repeatable:
            text = say(self._scene.world.language, "timed_out", seconds=f"{flying.limit:g}")
            return self._failed(flying, text)
        return self._unknown(flying, reason, detail)

    def _raised(self, flying: InFlight, error: BaseException) -> CallOutcome:
        if isinstance(error, ToolError):
            return self._failed(flying, str(error))
        if isinstance(error, ToolLostError) and flying.stopped is None:
            return self._lost(flying, error)
        tool = self._scene.world.plan.of(flying.call.name)
        logger.warning(
            "tool %s raised %s",
            flying.call.name,
            type(error).__name__,
            extra=self._extra(flying),
        )
        logger.debug("its traceback", exc_info=error, extra=self._extra(flying))
        detail = f"{type(error).__name__}: {error}"
        if flying.stopped is not None:
            return self._cut(flying, flying.stopped, detail)
        if tool.side_effects == "irreversible" and not tool.idempotent:
            return self._unknown(flying, "exception", detail)
        return self._failed(flying, detail)

    def _lost(self, flying: InFlight, error: ToolLostError) -> CallOutcome:
        """An answer lost on the way: unknown; a repeatable call leaves once more, and only once."""
        repeatable = self._scene.world.plan.of(flying.call.name).repeatable
        if repeatable and flying.call.launches:
            return self._failed(flying, str(error))
        return self._unknown(flying, "connection", str(error))

    def _failed(self, flying: InFlight, text: str) -> ToolCompleted:
        block = TextBlock.of(text)
        ms = self._ms(flying)
        return ToolCompleted.make(flying.call.id, (block,), ms, is_error=True)

    def _unknown(self, flying: InFlight, reason: UnknownReason, detail: str = "") -> ToolUnknown:
        return ToolUnknown(
            call_id=flying.call.id,
            reason=reason,
            detail=detail,
            still_running=flying.given_up or flying.left_behind,
            ms=self._ms(flying),
        )

    def _ms(self, flying: InFlight) -> float:
        return round((self._monotonic() - flying.start) * 1000, 3)

    def _report(self, flying: InFlight, output: ToolOutput) -> None:
        """Record an outcome that came after the driver had stopped waiting for it."""
        ms = self._ms(flying)
        fact = ToolCompleted.make(flying.call.id, output.blocks, ms, is_error=output.is_error)
        draft = Draft(self._scene.ports.ids.new(), fact, flying.call.id)
        late = asyncio.get_running_loop().create_task(
            report(self._scene.ports.journal, self._scene.ref, fact, draft)
        )
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def let_go(self) -> None:
        """Stop what is in flight, within the grace; what answers all the same is recorded."""
        self._flight.forget(self._halt)
        self._halt()
        while self.running:
            outcome = await self.outcome()
            if isinstance(outcome, ToolCompleted):
                draft = Draft(self._scene.ports.ids.new(), outcome, outcome.call_id)
                await report(self._scene.ports.journal, self._scene.ref, outcome, draft)

    def _log(self, flying: InFlight, status: str, ms: float) -> None:
        logger.info(
            "tool %s: %s in %.0f ms", flying.call.name, status, ms, extra=self._extra(flying)
        )

    def _extra(self, flying: InFlight) -> dict[str, str]:
        ref = self._scene.ref
        return {"run_id": ref.run_id, "span_id": flying.call.id, "tenant_id": ref.tenant_id}
