"""Turns an effect into facts: the only place where a run touches the world."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import assert_never

from loom_ia.core.effects import (
    Abandon,
    Ask,
    CallModel,
    Close,
    Complete,
    Drive,
    Effect,
    Expire,
    Fail,
    Repair,
    Review,
    RunTools,
    Settle,
    Stop,
)
from loom_ia.core.errors import Kind, LoomError, NotPerformedError
from loom_ia.core.events import (
    ApprovalExpired,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    StepClosed,
    ToolAbandoned,
)
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say, unknown
from loom_ia.engine.budgets import Budgets
from loom_ia.engine.curtain import Curtain
from loom_ia.engine.flight import Flight
from loom_ia.engine.model_call import ModelCalls
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.review import Reviews
from loom_ia.engine.settling import Settling
from loom_ia.engine.tool_batch import ToolBatches
from loom_ia.engine.world import Scene


class NobodyDecidedError(LoomError):
    """Nobody decided in time, and the agent then fails."""

    kind = Kind.CONFLICT
    template = "run {run_id}: nobody decided in time about {calls}"


class Interpreter:
    """Performs the effects of one drive."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight, self._epoch = scene, flight, epoch
        self._curtain = Curtain(scene)
        self._models = ModelCalls(scene, flight, self._curtain)
        self._budgets = Budgets(scene)
        self._settling = Settling(scene, flight, epoch)

    @cached_property
    def _reviews(self) -> Reviews:
        """Made with the first review: many runs have none."""
        return Reviews(self._scene, self._flight)

    @cached_property
    def _tools(self) -> ToolBatches:
        """Made with the first batch: many runs have none."""
        return ToolBatches(self._scene, self._flight, self._epoch)

    def perform(self, effect: Effect, pen: Pen) -> Awaitable[None] | None:
        """Write the facts of one effect, each as soon as it is true; what is awaited does it.

        None: they were taken at once, for nothing had to be done.
        """
        match effect:
            case CallModel():
                return self._called(effect, pen)
            case RunTools():
                self._curtain.lift()
                return self._tools.run(effect, pen)
            case Ask():
                return self._tools.ask(effect, pen)
            case Close():
                pen.take("plan", str(effect.step), StepClosed.make(effect.step))
            case Review():
                return self._reviews.review(effect, pen)
            case Repair():
                self._curtain.drop()
                self._reviews.repair(effect, pen)
            case Settle():
                return self._settling.settle(effect.call, pen)
            case Expire():
                self._expire(effect, pen)
            case Abandon():
                pen.take("plan", effect.call.id, self._abandoned(effect.call))
            case _:
                self._reveal(effect, pen)
                return end(pen, self._ending(effect, pen.state))
        return None

    def _reveal(self, effect: Effect, pen: Pen) -> None:
        answer = pen.state.answer
        if isinstance(effect, Complete) and answer is not None:
            self._curtain.lift(answer.text if effect.text is None else effect.text)

    def _called(self, effect: CallModel, pen: Pen) -> Awaitable[None]:
        self._curtain.lift()
        if effect.final or not self._budgets.watches(pen.state):
            return self._models.call(effect, pen)
        return self._call_within_budget(effect, pen)

    async def _call_within_budget(self, effect: CallModel, pen: Pen) -> None:
        """Call the model, unless a budget is reached: the run is then planned again."""
        facts = await self._budgets.check(pen)
        if facts is None or (facts and not pen.take("plan", "", *facts)):
            return
        if not any(fact.stop for fact in facts):
            await self._models.call(effect, pen)

    def _ending(self, effect: Complete | Fail | Stop | Drive, state: RunState) -> Payload:
        match effect:
            case Complete():
                return RunCompleted.make(effect.text, verified=effect.verified)
            case Fail():
                return RunFailed(code=effect.code, params=effect.params, resumable=effect.resumable)
            case Stop():
                return RunCancelled(still_running=self._tools.still_running(state))
            case Drive():
                return self._unperformed(effect)
        assert_never(effect)

    async def close(self) -> None:
        """Let go of what is still running; its late outcomes are recorded when they come."""
        if "_tools" in self.__dict__:
            await self._tools.let_go()

    def _abandoned(self, call: Call) -> ToolAbandoned:
        text = unknown(self._scene.world.language, call.doubt)
        return ToolAbandoned(call_id=call.id, text=text)

    def _expire(self, effect: Expire, pen: Pen) -> None:
        facts = [self._expired(call) for call in effect.calls]
        if self._scene.world.plan.asking.on_expiry == "deny":
            pen.take("plan", effect.calls[0].id, *facts)
            return
        params: dict[str, object] = {
            "run_id": self._scene.ref.run_id,
            "calls": ", ".join(f"{call.name} ({call.id})" for call in effect.calls),
        }
        failed = RunFailed(code=NobodyDecidedError.code, params=params)
        pen.take("plan", effect.calls[0].id, *facts, failed)

    def _expired(self, call: Call) -> ApprovalExpired:
        """What the model is told; of a call that left once, not that it did not leave."""
        language = self._scene.world.language
        text = say(language, "expired")
        if call.launches:
            text = unknown(language, call.doubt, say(language, "undecided"))
        return ApprovalExpired(call_id=call.id, text=text)

    def _unperformed(self, effect: Effect) -> RunFailed:
        params: dict[str, object] = {
            "run_id": self._scene.ref.run_id,
            "effect": type(effect).__name__,
        }
        return RunFailed(code=NotPerformedError.code, params=params, resumable=True)
