"""Turns an effect into facts: the only place where a run touches the world."""

from __future__ import annotations

from collections.abc import AsyncGenerator
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
from loom_ia.core.errors import NotPerformedError
from loom_ia.core.events import (
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    StepClosed,
    ToolAbandoned,
)
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import reason, say
from loom_ia.engine.flight import Flight
from loom_ia.engine.model_call import ModelCalls
from loom_ia.engine.tool_batch import ToolBatches
from loom_ia.engine.world import Facts, Scene

Steps = AsyncGenerator[Facts, bool | None]


class Interpreter:
    """Performs the effects of one drive."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene = scene
        self._models = ModelCalls(scene, flight)
        self._tools = ToolBatches(scene, flight, epoch)

    def perform(self, effect: Effect, state: RunState) -> Steps | Facts:
        """Facts of one effect, each as soon as it is true; all at once when nothing is done."""
        match effect:
            case CallModel():
                return self._models.call(effect, state)
            case RunTools():
                return self._tools.run(effect, state)
            case Ask():
                return self._tools.ask(effect, state)
            case Close():
                return Facts((StepClosed(step=effect.step),), "plan", str(effect.step))
            case Complete():
                return _end(RunCompleted(text=effect.text, verified=effect.verified))
            case Fail():
                failed = RunFailed(
                    code=effect.code, params=effect.params, resumable=effect.resumable
                )
                return _end(failed)
            case Stop():
                return _end(RunCancelled(still_running=self._tools.still_running))
            case Abandon():
                return Facts((self._abandoned(effect.call),), "plan", effect.call.id)
            case Settle() | Expire() | Review() | Repair() | Drive():
                return self._unperformed(effect)
            case _:
                assert_never(effect)

    async def close(self) -> None:
        """Let go of what is still running; its late outcomes are recorded when they come."""
        await self._tools.let_go()

    def _abandoned(self, call: Call) -> ToolAbandoned:
        language = self._scene.world.language
        why = reason(language, call.doubt or "crash")
        return ToolAbandoned(call_id=call.id, text=say(language, "unknown_outcome", reason=why))

    def _unperformed(self, effect: Effect) -> Facts:
        params: dict[str, object] = {
            "run_id": self._scene.ref.run_id,
            "effect": type(effect).__name__,
        }
        failed = RunFailed(code=NotPerformedError.code, params=params, resumable=True)
        return _end(failed)


def _end(fact: Payload) -> Facts:
    return Facts((fact,), "plan", barrier=True, sync=True)
