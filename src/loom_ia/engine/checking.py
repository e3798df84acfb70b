"""What becomes of a call before it leaves: bound and ready, asked about, refused, or fatal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.events import (
    GuardChecked,
    RunFailed,
    ToolAbandoned,
    ToolRefused,
)
from loom_ia.core.fold import fold
from loom_ia.core.policy import BeforeTool, Deny, Fail, Pause, Replace, Said, reason_of
from loom_ia.core.ports import InvalidArgumentsError, Launch, RunRef, Tool
from loom_ia.core.sameness import same_call
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say, unknown
from loom_ia.engine.flight import Flight
from loom_ia.engine.policing import Policing, Ruling, changed, context_of, fact
from loom_ia.engine.world import Scene

Why = Literal["declared", "policy", "unknown", "changed"]


class PolicyFailedError(LoomError):
    """A policy ended the run."""

    kind = Kind.FORBIDDEN
    template = "policy {policy} ended the run before {tool}: {reason}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A call whose arguments are right, bound to what will run."""

    call: Call
    launch: Launch
    said: tuple[GuardChecked, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """A call about which a human must be asked, with the arguments that would leave."""

    call: Call
    said: tuple[GuardChecked, ...]
    policies: tuple[str, ...]
    reason: str
    again: bool
    doubtful: bool = False
    """The same call left earlier, and nobody knows whether it acted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is answered without being launched."""

    facts: tuple[GuardChecked | ToolRefused | ToolAbandoned, ...]


@dataclass(frozen=True, slots=True)
class Fatal:
    """A call that ends its run."""

    facts: tuple[GuardChecked | RunFailed, ...]


Checked = Ready | Held | Refused | Fatal


class Checks:
    """Validates calls, then lets every policy speak."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight
        self._policing = Policing(scene.world.before_tool, scene.world.language)

    async def check(self, call: Call, state: RunState, *, room: int) -> Checked:
        """What becomes of the call.

        Raises:
            HaltedError: the drive was stopped while a policy made up its mind.

        """
        checked = await self._checked(call, state, room=room)
        if not isinstance(checked, Ready) or not (state.doubts or self._scene.doubts):
            return checked
        return await self._doubted(checked, state)

    async def _doubted(self, ready: Ready, state: RunState) -> Checked:
        """The call, unless it may do again what one of unknown outcome may have done."""
        call, scene = ready.call, self._scene
        plan = scene.world.plan.of(call.name)
        asked = call.request if call.status == "granted" else None
        if call.launches or plan.repeatable or (asked is not None and asked.why == "unknown"):
            return ready
        if not await self._unsettled(same_call(call.name, call.arguments), state):
            return ready
        language = scene.world.language
        if plan.on_unknown == "pause":
            reason = say(language, "doubtful_question")
            return Held(call, ready.said, (), reason, again=False, doubtful=True)
        text = say(language, "doubtful")
        return Refused((*ready.said, ToolRefused(call_id=call.id, code="doubtful", text=text)))

    async def _unsettled(self, asked: str, state: RunState) -> bool:
        """True while nothing has settled a call that asked for the same."""
        if asked in state.doubts.values():
            return True
        run, ref = self._scene.doubts.get(asked), self._scene.ref
        if run is None:
            return False
        earlier = RunRef(ref.tenant_id, ref.session_id, run, run)
        known = fold((await self._scene.ports.journal.read(earlier)).events)
        return asked in known.unsettled.values()

    async def _checked(self, call: Call, state: RunState, *, room: int) -> Checked:
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
            return self._answered(call, error.code, str(error))
        if not world.before_tool:
            return Ready(call, launch)
        ruling = await self.ruled(call, state, tool)
        return self._ruled(call, ruling, tool, launch)

    async def ruled(self, call: Call, state: RunState, tool: Tool) -> Ruling:
        """What the policies say of a call whose arguments fit."""
        approved = call.status == "granted" and call.request is not None
        subject = BeforeTool(tool.spec, call.arguments, call.id, approved=approved)
        context = context_of(self._scene, state)
        return await self._flight.stoppable(lambda: self._policing.rule(subject, context, call))

    def _ruled(self, call: Call, ruling: Ruling, tool: Tool, launch: Launch) -> Checked:
        said, verdict = tuple(fact(one, call) for one in ruling.said), ruling.verdict
        if verdict is not None and isinstance(verdict.decision, Fail):
            return Fatal((*said, self._failed(call, verdict)))
        if verdict is not None and isinstance(verdict.decision, Deny):
            return self._denied(call, verdict.decision.reason, said)
        moved = changed(call.arguments, ruling.arguments)
        if moved and call.launches:
            policy = ruling.said[-1].policy
            told = say(self._scene.world.language, "policy_unsettled", policy=policy)
            return self._denied(call, told, said)
        if moved:
            try:
                launch = tool.bind(ruling.arguments)
            except InvalidArgumentsError as error:
                return self._denied(call, self._misfit(ruling, str(error)), said)
            call = call.evolve(arguments=ruling.arguments)
        if not ruling.voided and not ruling.pauses:
            return Ready(call, launch, said)
        earlier = call.request.policies if call.request and not moved else ()
        policies = tuple(dict.fromkeys((*earlier, *ruling.pauses)))
        return Held(call, said, policies, _why(ruling), again=ruling.voided)

    def _misfit(self, ruling: Ruling, problem: str) -> str:
        changes = (o.policy for o in ruling.said if isinstance(o.decision, Replace))
        policy = ", ".join(dict.fromkeys(changes))
        return say(self._scene.world.language, "policy_arguments", policy=policy, problem=problem)

    def _failed(self, call: Call, verdict: Said) -> RunFailed:
        params: Mapping[str, object] = {
            "policy": verdict.policy,
            "tool": call.name,
            "reason": reason_of(verdict.decision),
        }
        fails = verdict.decision
        resumable = isinstance(fails, Fail) and fails.resumable
        return RunFailed(code=PolicyFailedError.code, params=dict(params), resumable=resumable)

    def _denied(self, call: Call, why: str, said: tuple[GuardChecked, ...]) -> Refused:
        text = say(self._scene.world.language, "denied", reason=why)
        return Refused((*said, self._answer(call, "policy", text)))

    def _refused(self, call: Call, code: str, **params: object) -> Refused:
        return self._answered(call, code, say(self._scene.world.language, code, **params))

    def _answered(self, call: Call, code: str, text: str) -> Refused:
        return Refused((self._answer(call, code, text),))

    def _answer(self, call: Call, code: str, text: str) -> ToolRefused | ToolAbandoned:
        """Why it does not leave; of a call that left once, that nobody knows whether it acted."""
        if not call.launches or self._scene.world.plan.of(call.name).side_effects == "none":
            return ToolRefused(call_id=call.id, code=code, text=text)
        told = unknown(self._scene.world.language, call.doubt, text)
        return ToolAbandoned(call_id=call.id, text=told)


def _why(ruling: Ruling) -> str:
    reasons = (o.decision.reason for o in ruling.said if isinstance(o.decision, Pause))
    return " ; ".join(dict.fromkeys(r for r in reasons if r))
