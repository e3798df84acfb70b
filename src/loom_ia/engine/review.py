"""Judges what a model or a tool gave before anything is made of it; sets aside what is refused.

Checks speak in order; each is a fact, so that a review goes on at the first that has not spoken.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from loom_ia.core import policy
from loom_ia.core.effects import Repair, Review
from loom_ia.core.errors import NotPerformedError
from loom_ia.core.events import AnswerRefused, GuardChecked, Payload, RunFailed
from loom_ia.core.model import ToolResultBlock, text_of, user
from loom_ia.core.policy import (
    AfterModel,
    AfterTool,
    Continue,
    Decision,
    Fail,
    OnOutput,
    Replace,
    Stop,
    Subject,
    kind_of,
    point_of,
    reason_of,
)
from loom_ia.core.ports import Form
from loom_ia.core.state import CONTRACT, RunState
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.policing import context_of, failed

if TYPE_CHECKING:
    from loom_ia.engine.policing import Hook
    from loom_ia.engine.world import Scene


@dataclass(frozen=True, slots=True)
class Judged:
    """What a check is about, as its fact names it."""

    text: str
    call_id: str = ""

    @property
    def digest(self) -> str:
        """Digest of what is judged."""
        return blake2b(self.text.encode(), digest_size=16).hexdigest()


class Reviews:
    """Performs Review and Repair."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight

    async def review(self, effect: Review, pen: Pen) -> None:
        """Write what the checks that are left say, until one of them changes what is judged."""
        if not await pen.flush():  # what was paid for is kept, however long the checks take
            return
        for check in effect.checks:
            try:
                facts = await self._said(check, effect, pen.state)
            except HaltedError:
                return  # the driver plans nothing more
            ended = isinstance(facts[-1], RunFailed)
            if ended:
                pen.take("plan", str(pen.state.step), *facts[:-1])
                await end(pen, facts[-1])
                return
            if not pen.take("plan", effect.call_id or str(pen.state.step), *facts):
                return
            if not _goes_on(facts[0]):
                return

    async def _said(self, check: str, effect: Review, state: RunState) -> Sequence[Payload]:
        match effect.of:
            case "turn":
                subject, hooks = _turn(state), self._scene.world.after_model
                return await self._ruled(
                    _hook(check, hooks), subject, Judged(_written(subject)), state
                )
            case "result":
                return await self._given(check, effect.call_id, state)
            case "answer":
                return await self._answered(check, state)

    async def _given(self, check: str, call_id: str, state: RunState) -> Sequence[Payload]:
        world, call = self._scene.world, state.call(call_id)
        if call is None or call.result is None:
            return self._unperformed()
        text = text_of(call.result.content)
        judged = Judged(text, call_id)
        form = world.forms.get(call.name)
        if check == CONTRACT and form is not None:
            if call.result.is_error:
                return (
                    GuardChecked(
                        check=check, subject=judged.digest, accepted=True, call_id=call_id
                    ),
                )
            return (await self._formed(form, judged, told="misformed"),)
        subject = AfterTool(
            call.name, deepcopy(dict(call.arguments)), text, call_id, call.result.is_error
        )
        return await self._ruled(_hook(check, world.after_tool), subject, judged, state)

    async def _answered(self, check: str, state: RunState) -> Sequence[Payload]:
        world, answer = self._scene.world, state.answer
        if answer is None:
            return self._unperformed()
        judged = Judged(answer.text)
        if check == CONTRACT and world.contract is not None:
            return (await self._formed(world.contract, judged),)
        data: object = json.loads(answer.text) if answer.parsed else None
        subject = OnOutput(answer.text, data, answer.final)
        return await self._ruled(_hook(check, world.on_output), subject, judged, state)

    async def _formed(self, form: Form, judged: Judged, told: str = "") -> GuardChecked:
        found = await self._flight.stoppable(lambda: form.check(judged.text))
        text = found.text
        if told and not found.accepted:
            text = say(self._scene.world.language, told, diagnosis=found.diagnosis)
        return GuardChecked(
            check=CONTRACT,
            subject=judged.digest,
            accepted=found.accepted,
            diagnosis=found.diagnosis,
            call_id=judged.call_id,
            text=text,
            parsed=found.parsed and not judged.call_id,
        )

    async def _ruled(
        self, hook: Hook | None, subject: Subject, judged: Judged, state: RunState
    ) -> Sequence[Payload]:
        """What a policy says, and the end of the run when it wants it."""
        if hook is None:
            return self._unperformed()
        context = context_of(self._scene, state)
        decision = await self._flight.stoppable(lambda: hook.decide(subject, context))
        if isinstance(subject, AfterModel | OnOutput) and subject.final:
            decision = _last(decision)
        said = GuardChecked(
            check=hook.name,
            subject=judged.digest,
            accepted=not isinstance(decision, policy.Repair | Fail),
            diagnosis=reason_of(decision),
            point=point_of(subject),
            decision="" if isinstance(decision, Continue) else kind_of(decision),
            call_id=judged.call_id,
            text=self._text(decision, subject),
        )
        if not isinstance(decision, Fail):
            return (said,)
        return said, failed(hook.name, point_of(subject), decision)

    def _text(self, decision: Decision, subject: Subject) -> str | None:
        """What takes the place of what was judged."""
        if isinstance(decision, Replace) and isinstance(decision.value, str):
            return decision.value
        if isinstance(decision, policy.Repair) and isinstance(subject, AfterTool):
            return say(self._scene.world.language, "withheld", reason=decision.reason)
        return None

    def _unperformed(self) -> Sequence[Payload]:
        params: dict[str, object] = {"run_id": self._scene.ref.run_id, "effect": "Review"}
        return (RunFailed(code=NotPerformedError.code, params=params, resumable=True),)

    def repair(self, effect: Repair, pen: Pen) -> None:
        """Set what was refused aside, and tell its author why."""
        language, state = self._scene.world.language, pen.state
        stopped = state.turn is not None and state.exhausted == state.turn.refused_by
        key = "stopped" if stopped and state.exhausted else "repair"
        fact = AnswerRefused(
            message=user(say(language, key, diagnosis=effect.diagnosis)),
            not_executed=say(language, "set_aside"),
        )
        pen.take("plan", str(state.step), fact)


def _goes_on(fact: Payload) -> bool:
    """True when the next check judges the same thing."""
    return (
        isinstance(fact, GuardChecked)
        and fact.accepted
        and fact.text is None
        and fact.decision != "stop"
    )


def _last(decision: Decision) -> Decision:
    """A decision on a last answer: nothing is repaired and nothing is left to stop."""
    return Continue() if isinstance(decision, Stop) else decision


def _hook(name: str, hooks: Sequence[Hook]) -> Hook | None:
    return next((hook for hook in hooks if hook.name == name), None)


def _turn(state: RunState) -> AfterModel:
    answer = state.answer
    last = next(m for m in reversed(state.messages) if m.role == "assistant")
    used = [
        block.name
        for message in state.messages
        if message.role == "tool"
        for block in message.blocks
        if isinstance(block, ToolResultBlock) and not block.is_error
    ]
    return AfterModel(last.text, last.calls, used, final=answer is not None and answer.final)


def _written(subject: AfterModel) -> str:
    calls = [[call.name, call.arguments] for call in subject.calls]
    return json.dumps([subject.text, calls], sort_keys=True, ensure_ascii=False)
