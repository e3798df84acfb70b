"""What humans decide of waiting calls: recorded once, before anything happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loom_ia.core.errors import JournalMovedError, RunEndedError, RunNotFoundError
from loom_ia.core.events import (
    ApprovalGranted,
    ApprovalRejected,
    CancelRequested,
    Decided,
    Event,
    Payload,
    Principal,
    RunResumed,
)
from loom_ia.core.fold import fold
from loom_ia.core.ports import Append, Draft, Fence, Guard, InvalidArgumentsError, RunRef
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.world import Ports, World
from loom_ia.runtime.errors import (
    AlreadyDecidedError,
    NotResumableError,
    NotWaitingError,
    WrongArgumentsError,
)


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

    Raises:
        NotWaitingError, AlreadyDecidedError: there is no such question, or no longer.
        RunEndedError: the run is over.
        WrongArgumentsError: corrected arguments do not fit the tool; nothing is recorded.

    """
    while True:
        page = await ports.journal.read(ref)
        known = Known(page.events, fold(page.events))
        calls = _asked(known.state, known.events, decision)
        if calls is None:
            return known
        world = mount(known.state)
        facts = [_fact(call, decision, world) for call in calls]
        written = await _written(ref, facts, known.state.position, ports)
        if written is not None:
            return known.then(written)


def _asked(state: RunState, events: Sequence[Event], decision: Decision) -> list[Call] | None:
    """The questions to decide; None when the same decision is recorded already."""
    if state.started is None:
        raise RunNotFoundError(run_id=state.run_id)
    open_calls = [c for c in state.calls if c.status == "held"]
    chosen = [c for c in open_calls if decision.call in {None, c.id}]
    if chosen and state.ending is None:
        return chosen
    earlier = _earlier(events, decision)
    if earlier is not None:
        same = isinstance(earlier.payload, ApprovalGranted) == (decision.verdict == "approve")
        if same and decision.arguments is None:
            return None
        raise _conflict(state, earlier)
    if state.ending is not None:
        raise RunEndedError(run_id=state.run_id, status=state.status)
    names = ", ".join(c.id for c in open_calls) or "-"
    raise NotWaitingError(run_id=state.run_id, call=decision.call or "*", open=names)


def _earlier(events: Sequence[Event], decision: Decision) -> Event | None:
    if decision.call is None:
        return None
    found: Event | None = None
    for event in events:
        if isinstance(event.payload, Decided):
            found = event if event.payload.call_id == decision.call else found
    return found


def _conflict(state: RunState, earlier: Event) -> AlreadyDecidedError:
    payload = earlier.payload
    by = payload.by.id if isinstance(payload, Decided) else ""
    call = payload.call_id if isinstance(payload, Decided) else ""
    at = earlier.at.isoformat(timespec="seconds")
    return AlreadyDecidedError(run_id=state.run_id, call=call, by=by, decision=earlier.type, at=at)


def _fact(call: Call, decision: Decision, world: World) -> Payload:
    if decision.verdict == "reject":
        text = say(world.language, "rejected_bare")
        if decision.reason:
            text = say(world.language, "rejected", reason=decision.reason)
        return ApprovalRejected(
            call_id=call.id,
            by=decision.by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            text=text,
        )
    arguments = dict(decision.arguments) if decision.arguments is not None else None
    tool = world.tools.get(call.name)
    if arguments is not None and tool is not None:
        try:
            tool.bind(arguments)
        except InvalidArgumentsError as error:
            raise WrongArgumentsError(call=call.id, reason=str(error)) from None
    return ApprovalGranted(
        call_id=call.id,
        by=decision.by,
        on_behalf_of=decision.on_behalf_of,
        reason=decision.reason,
        arguments=arguments,
    )


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
