"""Runs calls together: intents before effects, outcomes as they come, unknown ones said so."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

from loom_ia.core.cleaning import clean
from loom_ia.core.effects import Ask, RunTools
from loom_ia.core.events import (
    ApprovalRequested,
    GuardChecked,
    Payload,
    StepClosed,
    StepOpened,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
)
from loom_ia.core.model import text_of
from loom_ia.core.plan import ToolPlan
from loom_ia.core.planner import closable
from loom_ia.core.sameness import same_call
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.checking import (
    Checked,
    Checks,
    Fatal,
    Held,
    Ready,
    Refused,
    Why,
)
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.keys import Keys, Reserved
from loom_ia.engine.launches import CallOutcome, Launches
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Scene


class ToolBatches:
    """Performs RunTools and Ask."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight = scene, flight
        self._checks = Checks(scene, flight)
        self._keys = Keys(scene)
        self._launches = Launches(scene, flight, epoch)

    def still_running(self, state: RunState) -> tuple[str, ...]:
        """Calls of the open turn that did not stop when they were asked to."""
        stuck = self._launches.still_running
        return tuple([call.id for call in state.calls if call.id in stuck])

    async def let_go(self) -> None:
        """Stop what is left; late outcomes are recorded when they come."""
        await self._launches.let_go()

    async def run(self, effect: RunTools, pen: Pen) -> None:
        """Write the facts of one batch."""
        if self._scene.world.before_tool and not await pen.flush():
            return  # what was paid for is kept, however long the policies take
        state = pen.state
        if effect.opens:
            pen.take("plan", str(effect.step), StepOpened.make(effect.step))
        ready = await self._prepared(effect, state, pen)
        launches = self._launches
        while ready or launches.running:
            while ready and launches.running < self._scene.world.parallel:
                if not await self._launch(ready, state, pen):
                    ready.clear()
            if launches.running:
                fact = await launches.outcome()
                pen.take("outcome", fact.call_id, *self._terminal(fact, state))
                if launches.running or ready:
                    await pen.flush()
        if self._flight.reason is None and closable(pen.state, self._scene.world.plan):
            pen.take("plan", str(effect.step), StepClosed.make(effect.step))

    async def _launch(self, ready: deque[Ready], state: RunState, pen: Pen) -> bool:
        """Launch the first calls once their intents are written; False when nothing may leave."""
        if self._flight.reason is not None:
            return False
        if ready[0].call.name in self._scene.world.keys:
            return await self._launch_keyed(ready, state, pen)
        group = self._group(ready)
        pure = self._plan_of(group[0].call).side_effects == "none"
        intents = [self._intent(r.call, state) for r in group]
        if not await pen.write("plan", group[0].call.id, *intents, sync=not pure):
            return False
        for one in group:
            ready.popleft()
            self._launches.start(one.call, one.launch, state)
        return True

    async def _launch_keyed(self, ready: deque[Ready], state: RunState, pen: Pen) -> bool:
        """Launch the first call under its key, or tell what an earlier one made of it."""
        if not await pen.flush():  # others read there what this run knows of its calls
            return False
        one = ready[0]
        reserved = await self._keys.reserve(one.call, state)
        if not isinstance(reserved, Reserved):
            ready.popleft()
            return pen.take("outcome", one.call.id, *self._terminal(reserved, state))
        intent = self._intent(one.call, state, reserved.key)
        if not await pen.write("plan", one.call.id, intent, sync=True):
            return False
        ready.popleft()
        launch, plan = one.launch, self._plan_of(one.call)
        if reserved.held is not None:
            sure = plan.side_effects != "irreversible" or plan.idempotent
            launch = self._keys.remembering(launch, reserved.held, sure=sure)
        self._launches.start(one.call, launch, state)
        return True

    def _group(self, ready: deque[Ready]) -> list[Ready]:
        """The pure calls at the head of the queue that there is room for, or one other call."""
        if len(ready) == 1:
            return [ready[0]]
        room = self._scene.world.parallel - self._launches.running
        group: list[Ready] = []
        for one in ready:
            keyed = one.call.name in self._scene.world.keys
            if self._plan_of(one.call).side_effects != "none" or keyed or len(group) == room:
                break
            group.append(one)
        return group or [ready[0]]

    def _plan_of(self, call: Call) -> ToolPlan:
        return self._scene.world.plan.of(call.name)

    def _left(self, state: RunState) -> int:
        limit = self._scene.world.plan.max_calls
        return 1_000_000 if limit is None else limit - state.launches

    async def _prepared(self, effect: RunTools, state: RunState, pen: Pen) -> deque[Ready]:
        """The calls that may leave, once what was made of the others is told."""
        ready: deque[Ready] = deque()
        left = self._left(state)
        for call in effect.calls:
            try:
                checked = await self._checks.check(call, state, room=left - len(ready))
            except HaltedError:
                return deque()
            if isinstance(checked, Ready):
                ready.append(checked)
                if not checked.said:
                    continue
            if not await self._judged(checked, call, pen):
                return deque()
        return ready

    async def _judged(self, checked: Checked, call: Call, pen: Pen) -> bool:
        """Tell what was made of a call; False when nothing else of the batch may be done."""
        match checked:
            case Ready():
                return pen.take("plan", call.id, *checked.said)
            case Refused():
                return pen.take("outcome", call.id, *checked.facts)
            case Fatal():
                await pen.write("plan", call.id, *checked.facts, sync=True)
                return False
            case Held():
                asked = self._question(checked, "policy", pen)
                return await pen.write("plan", call.id, *checked.said, asked, sync=True)

    def _intent(self, call: Call, state: RunState, key: str = "") -> ToolCalled:
        if call.request is None and not self._scene.world.before_tool:
            return ToolCalled.make(call, key=key)  # only humans and policies change arguments
        asked = _requested(state, call)
        changed = dict(call.arguments) if asked != call.arguments else None
        return ToolCalled.make(call, changed, key)

    def _terminal(
        self, fact: CallOutcome | ToolRefused, state: RunState
    ) -> tuple[CallOutcome | ToolRefused | GuardChecked, ...]:
        """The outcome of a call, which is the answer of the run when a terminal tool was alone."""
        call = state.call(fact.call_id)
        terminal = call is not None and self._plan_of(call).terminal
        if not terminal or not isinstance(fact, ToolCompleted) or fact.is_error:
            return (fact,)
        if len(state.calls) == 1:
            return (fact.model_copy(update={"terminal": True}),)
        others = ", ".join(c.name for c in state.calls if c.id != fact.call_id)
        why = say(self._scene.world.language, "not_alone", others=others)
        digest = blake2b(text_of(fact.blocks).encode(), digest_size=16).hexdigest()
        beside = GuardChecked(
            check="terminal", subject=digest, accepted=True, diagnosis=why, call_id=fact.call_id
        )
        return fact, beside

    async def ask(self, effect: Ask, pen: Pen) -> None:
        """Write a question to a human for each call that may be asked about."""
        state = pen.state
        asked: list[Payload] = []
        for call in effect.calls:
            if effect.why == "unknown":
                asked.append(self._question(call, "unknown", pen))
                continue
            fresh = call.evolve(status="asked", request=None)
            try:
                checked = await self._checks.check(fresh, state, room=1)
            except HaltedError:
                return
            asked += self._asked(checked, effect.why, pen)
            if isinstance(checked, Fatal):
                break
        await pen.write("plan", str(state.step), *asked, sync=True)

    def _asked(self, checked: Checked, why: Why, pen: Pen) -> tuple[Payload, ...]:
        """The question to a human about a call, or what is done instead."""
        if isinstance(checked, Refused | Fatal):
            return checked.facts
        held = checked if isinstance(checked, Held) else checked.call
        return (*checked.said, self._question(held, why, pen))

    def _question(self, held: Held | Call, why: Why, pen: Pen) -> ApprovalRequested | ToolRefused:
        """The question to a human; none about what one rejected in this run."""
        call = held if isinstance(held, Call) else held.call
        rejected = pen.state.rejected
        if rejected and not call.launches and same_call(call.name, call.arguments) in rejected:
            text = say(self._scene.world.language, "rejected_before")
            return ToolRefused(call_id=call.id, code="rejected", text=text)
        asking = self._scene.world.plan.asking
        request = ApprovalRequested(
            call_id=call.id,
            tool=call.name,
            arguments=dict(call.arguments),
            why=why,
            definition=self._plan_of(call).definition,
            expires_at=pen.now + asking.expires_in,
            scope=asking.scope,
        )
        if isinstance(held, Call):
            return request
        changes = {"policies": held.policies, "reason": clean(held.reason), "again": held.again}
        if held.doubtful:
            changes["why"] = "unknown"
        return request.model_copy(update=changes)


def _requested(state: RunState, call: Call) -> Mapping[str, object]:
    """What the model asked for, whatever was corrected since."""
    for block in state.messages[-1].calls if state.messages else ():
        if block.id == call.id:
            return block.arguments
    return call.arguments
