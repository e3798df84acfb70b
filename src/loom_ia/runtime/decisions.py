"""What humans decide of waiting calls: recorded once, before anything happens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from loom_ia.core.errors import (
    JournalMovedError,
    RequestExpiredError,
    RunEndedError,
    RunNotFoundError,
    RunStoppedError,
    sentence,
)
from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ApprovalSettled,
    CancelRequested,
    Decided,
    Event,
    ModelResponded,
    Payload,
    Principal,
    RunFailed,
    RunResumed,
)
from loom_ia.core.fold import fold
from loom_ia.core.ports import Append, Draft, Fence, Guard, RunRef
from loom_ia.core.state import Call, RunState
from loom_ia.core.text import Text
from loom_ia.core.wording import Language, say, unknown
from loom_ia.engine.checking import Checks, Fatal, Refused
from loom_ia.engine.flight import Flight
from loom_ia.engine.world import Ports, Scene, World
from loom_ia.runtime.errors import (
    AlreadyDecidedError,
    NotResumableError,
    NotUnknownError,
    NotWaitingError,
    ScopeMissingError,
    WrongArgumentsError,
)
from loom_ia.runtime.settlements import doubtful, settled_before, settlement


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of one person."""

    verdict: Literal["approve", "reject"]
    by: Principal
    call: str | None = None
    """None decides every open question of the run."""
    arguments: Mapping[str, object] | None = None
    reason: str = ""
    on_behalf_of: str = ""
    happened: bool | None = None
    """What a person says of a call of unknown outcome; nothing is then launched."""
    scopes: frozenset[str] | None = None
    """Scopes of the key of who decides; None where there are no keys."""


@dataclass(frozen=True, slots=True)
class Known:
    """A run as it was read last."""

    events: Sequence[Event]
    state: RunState

    def then(self, events: Sequence[Event]) -> Known:
        """The run after what was written behind it."""
        return Known([*self.events, *events], fold(events, self.state))


async def decide(
    ref: RunRef, decision: Decision, mount: Callable[[RunState], World], ports: Ports
) -> Known:
    """Record a decision, on the disk; nothing is launched here. The run as it is then.

    Only questions that were open when the run was first read are decided: what is asked while
    others write to the run is another question, that this decision did not see.

    Raises:
        NotWaitingError, AlreadyDecidedError: there is no such question, or no longer.
        RequestExpiredError: it comes too late.
        RunEndedError, RunStoppedError: the run is over, or being cancelled.
        WrongArgumentsError: corrected arguments do not fit the tool, or its policies; nothing is
            recorded.
        ScopeMissingError: the key may not decide this.

    """
    seen: frozenset[str] | None = None
    while True:
        page = await ports.journal.read(ref)
        known = Known(page.events, fold(page.events))
        asked = _chosen(page.events, decision)
        if seen is None:
            seen = frozenset(question.asked.id for question in asked)
        asked = [question for question in asked if question.asked.id in seen]
        calls = _open(known.state, asked, page.now)
        if not calls:
            if late := _late_facts(known, decision, mount):
                written = await _written(ref, late, known.state.position, ports)
                if written is None:
                    continue
                return known.then(written)
            if decision.happened is None or not settled_before(page.events, decision):
                _closed(known.state, asked, decision)
            return known
        _scoped(calls, decision, ref)
        if decision.arguments is not None and len(calls) > 1:
            names = ", ".join(call.id for call in calls)
            reason = Text("several calls wait; say of which one these are the arguments")
            raise WrongArgumentsError(call=names, reason=reason)
        scene = Scene(ref, mount(known.state), ports)
        facts = [await _fact(call, decision, scene, known.state) for call in calls]
        guard = Guard(before=_first_expiry(calls))
        with suppress(RequestExpiredError):
            position = known.state.position
            written = await _written(ref, facts, position, ports, guard=guard)
            if written is not None:
                return known.then(written)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what was answered if it was."""

    call_id: str
    asked: Event
    answer: Event | None = None


def _chosen(events: Sequence[Event], decision: Decision) -> list[Asked]:
    """The last question about each call that the decision names; all of them have one turn."""
    found: dict[str, Asked] = {}
    turn: dict[str, Asked] = {}
    for event in events:
        payload = event.payload
        if isinstance(payload, ModelResponded):
            turn = {}
        elif isinstance(payload, ApprovalRequested):
            turn[payload.call_id] = Asked(payload.call_id, event)
        elif isinstance(payload, Decided | ApprovalExpired) and payload.call_id in turn:
            turn[payload.call_id] = replace(turn[payload.call_id], answer=event)
        found = found | turn if decision.call is not None else turn or found
    return [question for question in found.values() if decision.call in {None, question.call_id}]


def _open(state: RunState, asked: Sequence[Asked], now: datetime) -> list[Call]:
    if state.started is None:
        raise RunNotFoundError(run_id=state.run_id)
    if state.ending is not None or state.cancel is not None:
        return []
    waiting = {question.call_id for question in asked if question.answer is None}
    return [
        call
        for call in state.calls
        if call.status == "held" and call.id in waiting and not _late(call.request, now)
    ]


def _late(request: ApprovalRequested | None, now: datetime) -> bool:
    return request is not None and request.expires_at is not None and request.expires_at <= now


def _closed(state: RunState, asked: Sequence[Asked], decision: Decision) -> None:
    """Return when the same was decided already; raise what stands in the way of the decision."""
    decided = [question for question in asked if _is_decided(question)]
    if any(_same(question, decision) for question in decided):
        return
    if decided:
        raise _conflict(state, decided[0])
    if state.ending is not None and not any(question.answer for question in asked):
        raise RunEndedError(run_id=state.run_id, status=state.status)
    if state.cancel is not None:
        raise RunStoppedError(run_id=state.run_id)
    for question in asked:
        payload = question.asked.payload
        if isinstance(payload, ApprovalRequested) and payload.expires_at is not None:
            call = state.call(question.call_id)
            if question.answer is not None or (call is not None and call.status == "held"):
                at = payload.expires_at.isoformat(timespec="seconds")
                raise RequestExpiredError(run_id=state.run_id, call=question.call_id, at=at)
    names = ", ".join(c.id for c in state.calls if c.status == "held") or "-"
    raise NotWaitingError(run_id=state.run_id, call=decision.call or "*", open=names)


def _is_decided(question: Asked) -> bool:
    return question.answer is not None and isinstance(question.answer.payload, Decided)


def _same(question: Asked, decision: Decision) -> bool:
    """True when the recorded decision is this one, with the same arguments if it has one call."""
    answer = question.answer.payload if question.answer is not None else None
    if isinstance(answer, ApprovalSettled) or decision.happened is not None:
        said = answer.happened if isinstance(answer, ApprovalSettled) else None
        return decision.happened is not None and said == decision.happened
    if isinstance(answer, ApprovalRejected):
        return decision.verdict == "reject"
    shown = question.asked.payload
    if not isinstance(answer, ApprovalGranted) or decision.verdict != "approve":
        return False
    if decision.call is None and decision.arguments is None:
        return True
    kept = shown.arguments if isinstance(shown, ApprovalRequested) else {}
    given = kept if decision.arguments is None else dict(decision.arguments)
    return given == (kept if answer.arguments is None else answer.arguments)


def _conflict(state: RunState, question: Asked) -> AlreadyDecidedError:
    answer = question.answer
    payload = answer.payload if answer is not None else None
    by = payload.by.id if isinstance(payload, Decided) else ""
    at = answer.at.isoformat(timespec="seconds") if answer is not None else ""
    kind = answer.type if answer is not None else ""
    return AlreadyDecidedError(
        run_id=state.run_id, call=question.call_id, by=by, decision=kind, at=at
    )


def _scoped(calls: Sequence[Call], decision: Decision, ref: RunRef) -> None:
    for call in calls:
        scope = call.request.scope if call.request is not None else ""
        if scope and decision.scopes is not None and scope not in decision.scopes:
            raise ScopeMissingError(run_id=ref.run_id, call=call.id, scope=scope, by=decision.by.id)


def _first_expiry(calls: Sequence[Call]) -> datetime | None:
    ends = [c.request.expires_at for c in calls if c.request is not None]
    return min((end for end in ends if end is not None), default=None)


async def _fact(call: Call, decision: Decision, scene: Scene, state: RunState) -> Payload:
    if decision.happened is not None:
        if call.request is None or call.request.why != "unknown":
            raise NotUnknownError(call=call.id)
        return settlement(call.id, decision, state, happened=decision.happened)
    if decision.verdict == "reject":
        return ApprovalRejected(
            call_id=call.id,
            by=decision.by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            text=_refusal(call, decision.reason, scene.world.language),
        )
    arguments = dict(decision.arguments) if decision.arguments is not None else None
    text = ""
    if arguments is not None and arguments != call.arguments:
        await _check(call, arguments, scene, state)
        text = _correction(call.arguments, arguments, decision, scene.world.language)
    return ApprovalGranted(
        call_id=call.id,
        by=decision.by,
        on_behalf_of=decision.on_behalf_of,
        reason=decision.reason,
        arguments=arguments,
        text=text,
    )


def _late_facts(
    known: Known, decision: Decision, mount: Callable[[RunState], World]
) -> list[Payload]:
    """What is recorded of calls of unknown outcome about which nobody is asked any more."""
    calls = doubtful(known.state, decision) if decision.happened is not None else ()
    if not calls or decision.happened is None:
        return []
    scope = mount(known.state).plan.asking.scope
    if scope and decision.scopes is not None and scope not in decision.scopes:
        names, run_id = ", ".join(calls), known.state.run_id
        raise ScopeMissingError(run_id=run_id, call=names, scope=scope, by=decision.by.id)
    happened = decision.happened
    return [settlement(call, decision, known.state, happened=happened) for call in calls]


def _refusal(call: Call, reason: str, language: Language) -> str:
    """What the model is told; of a call that left once, not that it did not act."""
    if call.launches:
        again = say(language, "rejected_again")
        return unknown(language, call.doubt, f"{again} {reason}".strip())
    return say(language, "rejected", reason=reason) if reason else say(language, "rejected_bare")


async def _check(call: Call, arguments: dict[str, object], scene: Scene, state: RunState) -> None:
    """Refuse corrected arguments that the tool or a policy does not let through."""
    if call.launches:
        reason: object = Text("it may have acted; it can only be launched again as it was")
        raise WrongArgumentsError(call=call.id, reason=reason)
    corrected = call.evolve(arguments=arguments, status="granted")
    checked = await Checks(scene, Flight()).check(corrected, state, room=1)
    if not isinstance(checked, Refused | Fatal):
        return
    last = checked.facts[-1]
    reason = sentence(last.code, dict(last.params)) if isinstance(last, RunFailed) else ""
    raise WrongArgumentsError(call=call.id, reason=reason or getattr(last, "text", ""))


def _correction(
    before: Mapping[str, object],
    after: Mapping[str, object],
    decision: Decision,
    language: Language,
) -> str:
    """What the model is told of corrected arguments: what changed, and by whom."""
    changes = [
        f"{key} = {json.dumps(after[key], ensure_ascii=False)}"
        for key in after
        if key not in before or before[key] != after[key]
    ]
    changes += [f"{key} {say(language, 'removed')}" for key in before if key not in after]
    by = decision.on_behalf_of or decision.by.id
    return say(language, "corrected", by=by, changes=" ; ".join(changes))


async def cancel(ref: RunRef, by: Principal, reason: str, ports: Ports) -> RunState:
    """Record that the run must stop; nothing changes for one that has ended. State of the run."""
    while True:
        state = fold((await ports.journal.read(ref)).events)
        if state.ending is not None or state.cancel is not None:
            return state
        fact = CancelRequested(by=by, reason=reason)
        if await _written(ref, [fact], state.position, ports) is not None:
            return state


async def reopen(ref: RunRef, by: Principal, ports: Ports) -> RunState:
    """Record that a failed run goes on; a run that has not ended needs nothing. State of the run.

    Raises:
        NotResumableError: it was cancelled, or failed for good.
        SessionBusyError: another run of the session is going.

    """
    while True:
        state = fold((await ports.journal.read(ref)).events)
        ending = state.ending
        if ending is None or ending.status == "completed":
            return state
        if not ending.resumable:
            raise NotResumableError(run_id=ref.run_id, status=ending.status)
        guard = Guard(session_idle=True)
        fact = RunResumed(by=by)
        if await _written(ref, [fact], state.position, ports, guard=guard) is not None:
            return state


async def _written(
    ref: RunRef, facts: list[Payload], position: int, ports: Ports, *, guard: Guard | None = None
) -> Sequence[Event] | None:
    """Events of the facts; None when the run moved and must be read again."""
    drafts = [Draft(ports.ids.new(), fact, getattr(fact, "call_id", "")) for fact in facts]
    write = Append(ref, drafts, Fence("decision", position), guard=guard, sync=True)
    try:
        return (await ports.journal.append(write)).events
    except JournalMovedError:
        return None
