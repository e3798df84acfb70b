"""Runs calls together: intents before effects, outcomes as they come, unknown ones said so."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from loom_ia.core.effects import Ask, RunTools
from loom_ia.core.events import (
    ApprovalRequested,
    Payload,
    StepClosed,
    StepOpened,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
)
from loom_ia.core.plan import ToolPlan
from loom_ia.core.planner import closable
from loom_ia.core.ports import InvalidArgumentsError, Launch
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight
from loom_ia.engine.launches import CallOutcome, Launches
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Scene


@dataclass(frozen=True, slots=True)
class Ready:
    """A call whose arguments are right, bound to what will run."""

    call: Call
    launch: Launch


class ToolBatches:
    """Performs RunTools and Ask."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight = scene, flight
        self._launches = Launches(scene, flight, epoch)

    @property
    def still_running(self) -> tuple[str, ...]:
        """Calls that did not stop when they were asked to."""
        return self._launches.still_running

    async def let_go(self) -> None:
        """Stop what is left; late outcomes are recorded when they come."""
        await self._launches.let_go()

    async def run(self, effect: RunTools, pen: Pen) -> None:
        """Write the facts of one batch."""
        state = pen.state
        if effect.opens:
            pen.take("plan", str(effect.step), StepOpened.make(effect.step))
        ready: deque[Ready] = deque()
        left = self._left(state)
        for call in effect.calls:
            checked = await self._check(call, state, room=left - len(ready))
            if isinstance(checked, Ready):
                ready.append(checked)
            else:
                pen.take("outcome", call.id, checked)
        launches = self._launches
        while ready or launches.running:
            while ready and launches.running < self._scene.world.parallel:
                if not await self._launch(ready, state, pen):
                    ready.clear()
            if launches.running:
                fact = await launches.outcome()
                pen.take("outcome", fact.call_id, self._terminal(fact, state))
                if launches.running or ready:
                    await pen.flush()
        if self._flight.reason is None and closable(pen.state):
            pen.take("plan", str(effect.step), StepClosed.make(effect.step))

    async def _launch(self, ready: deque[Ready], state: RunState, pen: Pen) -> bool:
        """Launch the first calls once their intents are written; False when nothing may leave."""
        if self._flight.reason is not None:
            return False
        group = self._group(ready)
        pure = self._plan_of(group[0].call).side_effects == "none"
        intents = [self._intent(r.call, state) for r in group]
        if not await pen.write("plan", group[0].call.id, *intents, sync=not pure):
            return False
        for one in group:
            ready.popleft()
            self._launches.start(one.call, one.launch, state)
        return True

    def _group(self, ready: deque[Ready]) -> list[Ready]:
        """The pure calls at the head of the queue that there is room for, or one other call."""
        room = self._scene.world.parallel - self._launches.running
        group: list[Ready] = []
        for one in ready:
            if self._plan_of(one.call).side_effects != "none" or len(group) == room:
                break
            group.append(one)
        return group or [ready[0]]

    def _plan_of(self, call: Call) -> ToolPlan:
        return self._scene.world.plan.of(call.name)

    def _left(self, state: RunState) -> int:
        limit = self._scene.world.plan.max_calls
        return 1_000_000 if limit is None else limit - state.launches

    async def _check(self, call: Call, state: RunState, *, room: int) -> Ready | ToolRefused:
        """The call bound to what will run, or why it will not."""
        world = self._scene.world
        tool = world.tools.get(call.name)
        if tool is None:
            names = ", ".join(spec.name for spec in world.specs) or "-"
            return self._refused(call, "unknown_tool", name=call.name, names=names)
        if call.malformed is not None:
            return self._refused(call, "malformed")
        if room <= 0:
            return self._refused(call, "limit", limit=world.plan.max_calls)
        try:
            launch = tool.bind(call.arguments)
        except InvalidArgumentsError as error:
            return ToolRefused(call_id=call.id, code="arguments", text=str(error))
        if world.before_tool is not None:
            refused = await world.before_tool(call, state)
            if refused is not None:
                return refused
        return Ready(call, launch)

    def _refused(self, call: Call, code: str, **params: object) -> ToolRefused:
        text = say(self._scene.world.language, code, **params)
        return ToolRefused(call_id=call.id, code=code, text=text)

    def _intent(self, call: Call, state: RunState) -> ToolCalled:
        asked = _asked(state, call)
        changed = dict(call.arguments) if asked != call.arguments else None
        return ToolCalled.make(call, changed)

    def _terminal(self, fact: CallOutcome, state: RunState) -> CallOutcome:
        if not isinstance(fact, ToolCompleted) or fact.is_error or len(state.calls) != 1:
            return fact
        if not self._plan_of(state.calls[0]).terminal:
            return fact
        return ToolCompleted.make(fact.call_id, fact.blocks, fact.ms, terminal=True)

    async def ask(self, effect: Ask, pen: Pen) -> None:
        """Write a question to a human for each call that may be asked about."""
        state = pen.state
        asked: list[Payload] = []
        for call in effect.calls:
            checked: Ready | ToolRefused | None = None
            if effect.why != "unknown":
                checked = await self._check(call, state, room=1)
            if isinstance(checked, ToolRefused):
                asked.append(checked)
                continue
            asked.append(
                ApprovalRequested(
                    call_id=call.id,
                    tool=call.name,
                    arguments=dict(call.arguments),
                    why=effect.why,
                    definition=self._plan_of(call).definition,
                )
            )
        await pen.write("plan", str(state.step), *asked, sync=True)


def _asked(state: RunState, call: Call) -> Mapping[str, object]:
    """What the model asked for, whatever was corrected since."""
    for block in state.messages[-1].calls if state.messages else ():
        if block.id == call.id:
            return block.arguments
    return call.arguments
