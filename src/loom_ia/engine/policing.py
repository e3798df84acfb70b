"""Every policy speaks on a call: first on what is asked, then on what would leave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.events import GuardChecked, RunFailed
from loom_ia.core.policy import (
    CONTINUE,
    BeforeTool,
    Decision,
    Deny,
    Fail,
    Pause,
    PolicyContext,
    Replace,
    Said,
    Subject,
    kind_of,
    reason_of,
    strongest,
)
from loom_ia.core.sameness import same_call
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import Language, say

if TYPE_CHECKING:
    from loom_ia.engine.world import Scene


class Hook(Protocol):
    """A policy plugged into an agent. It never raises, and bounds its own time."""

    @property
    def name(self) -> str: ...

    async def decide(self, subject: Subject, context: PolicyContext) -> Decision:
        """What it decides of what it is shown."""
        ...


class PolicyEndedError(LoomError):
    """A policy ended the run."""

    kind = Kind.FORBIDDEN
    template = "policy {policy} ended the run ({point}): {reason}"


def failed(name: str, point: str, decision: Fail) -> RunFailed:
    """The end of a run that a policy wants."""
    params: Mapping[str, object] = {"policy": name, "point": point, "reason": decision.reason}
    return RunFailed(code=PolicyEndedError.code, params=dict(params), resumable=decision.resumable)


def context_of(scene: Scene, state: RunState) -> PolicyContext:
    """Where a policy is asked, in the present state of a run."""
    started, ref = state.started, scene.ref
    return PolicyContext(
        tenant_id=ref.tenant_id,
        session_id=ref.session_id,
        run_id=ref.run_id,
        agent=started.agent if started else "",
        turn=state.turns,
        caller=started.options.context if started else {},
        messages=tuple(state.messages),
        history=scene.history,
        at=state.at,
        language=scene.world.language,
    )


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policies make of a call."""

    arguments: Mapping[str, object]
    """As replaced."""
    said: tuple[Said, ...] = ()
    """Everything but what continues, in the order in which it was said."""
    voided: bool = False
    """A policy changed arguments that a human had approved."""

    @property
    def verdict(self) -> Said | None:
        """What holds; None lets the call go on with the arguments."""
        return strongest(self.said)

    @property
    def pauses(self) -> tuple[str, ...]:
        """Policies that want a human to decide."""
        return tuple(
            dict.fromkeys(one.policy for one in self.said if isinstance(one.decision, Pause))
        )


class Policing:
    """The policies of one agent, asked about one call."""

    def __init__(self, hooks: Sequence[Hook], language: Language) -> None:
        self._hooks = hooks
        self._language: Language = language

    async def rule(self, subject: BeforeTool, context: PolicyContext, call: Call) -> Ruling:
        """Ask each policy in order, with the arguments as replaced so far, then all on the last.

        A pause on arguments that a human approved for that policy says nothing more; a change of
        them voids the approval.
        """
        first, arguments = await self._pass(subject, context, final=False)
        if not changed(subject.arguments, arguments):
            return Ruling(arguments, _unanswered(first, call, approved=subject.approved))
        said = _unanswered(first, call, approved=False)
        if not subject.approved:
            said += (await self._pass(_on(subject, arguments), context, final=True))[0]
            return Ruling(arguments, said)
        if call.request is not None and call.request.again:
            return Ruling(arguments, tuple(self._settled(one) for one in said))
        said += (await self._pass(_on(subject, arguments), context, final=True))[0]
        return Ruling(arguments, said, voided=True)

    async def _pass(
        self, subject: BeforeTool, context: PolicyContext, *, final: bool
    ) -> tuple[tuple[Said, ...], Mapping[str, object]]:
        said: list[Said] = []
        arguments = subject.arguments
        for hook in self._hooks:
            decision = await hook.decide(_on(subject, arguments), context)
            if decision == CONTINUE:
                continue
            judged = arguments
            if isinstance(decision, Replace):
                if isinstance(decision.value, str) or not changed(arguments, decision.value):
                    continue
                if not final:
                    arguments = decision.value
            one = Said(hook.name, decision, judged)
            said.append(self._settled(one) if final else one)
        return tuple(said), arguments

    def _settled(self, one: Said) -> Said:
        """What was said when nothing may change any more: a change is a refusal."""
        if not isinstance(one.decision, Replace):
            return one
        reason = say(self._language, "policy_unsettled", policy=one.policy)
        return Said(one.policy, Deny(reason), one.arguments)


def fact(one: Said, call: Call) -> GuardChecked:
    """What is journaled of a decision."""
    kind = kind_of(one.decision)
    return GuardChecked(
        check=one.policy,
        subject=same_call(call.name, one.arguments),
        accepted=kind in {"continue", "replace"},
        diagnosis=reason_of(one.decision),
        point="before_tool",
        decision=kind,
        call_id=call.id,
    )


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """True when something else would leave; `1` and `true` are not the same."""
    return before is not after and _written(before) != _written(after)


def _written(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, sort_keys=True)


def _on(subject: BeforeTool, arguments: Mapping[str, object]) -> BeforeTool:
    """The subject with a copy of other arguments: what a policy does to it touches nobody."""
    approved = subject.approved and not changed(subject.arguments, arguments)
    return BeforeTool(subject.spec, deepcopy(dict(arguments)), subject.call_id, approved)


def _unanswered(said: tuple[Said, ...], call: Call, *, approved: bool) -> tuple[Said, ...]:
    """What was said, but the pauses of policies that a human has answered."""
    answered = call.request.policies if approved and call.request is not None else ()
    return tuple(
        one for one in said if not (isinstance(one.decision, Pause) and one.policy in answered)
    )
