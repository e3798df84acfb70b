"""What a run must do next. Pure: the same facts, plan and instant always give the same effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import product
from typing import Final, Literal

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
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.plan import CRASHES, Plan
from loom_ia.core.state import Call, RunState


class AgentTimeoutError(LoomError):
    """The driving time of the run is spent."""

    kind = Kind.UNAVAILABLE
    template = "run {run_id}: driving time of {seconds} s is spent; «loom resume {run_id}» goes on"


class StepCrashedError(LoomError):
    """The same step took its driver down again and again."""

    kind = Kind.BROKEN
    template = "run {run_id}: step {step} crashed its process {crashes} times; look at its tools"


class AnswerRefusedError(LoomError):
    """A check refused the answer and its repair."""

    kind = Kind.INVALID
    template = "answer refused by {check}: {diagnosis}"


class Nothing(Enum):
    """Answer of a row that matches and has nothing to do."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING
Found = Effect | Nothing | None
"""What a row says: an effect, nothing to do, or None when it does not match."""

Find = Callable[[RunState, Plan, datetime], Found]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the planner's table; the first that matches decides."""

    when: str
    then: str
    find: Find
    about: Literal["run", "step", "calls", "answer"] = "run"
    """What must be there for the row to match: an open step, calls, an answer, or nothing."""


def next_effect(state: RunState, plan: Plan, now: datetime) -> Effect | None:
    """Next effect of the run, or None when it has ended or waits."""
    calm = (
        state.ending is None
        and state.cancel is None
        and state.started is not None
        and plan.timeout is None
        and state.crashes < CRASHES
    )
    rows = _CALM if calm else _ROWS
    for find in rows[state.open_step is not None, bool(state.calls), state.answer is not None]:
        found = find(state, plan, now)
        if found is not None:
            return None if found is NOTHING else found
    return None


def _ended(state: RunState, _plan: Plan, _now: datetime) -> Found:
    return NOTHING if state.ending is not None or state.started is None else None


def _cancelled(state: RunState, _plan: Plan, _now: datetime) -> Found:
    return Stop() if state.cancel is not None else None


def _spent(state: RunState, plan: Plan, now: datetime) -> Found:
    if state.crashes >= CRASHES and state.crash_step == state.step:
        params: dict[str, object] = {"step": state.step, "crashes": state.crashes}
        return Fail(StepCrashedError.code, {"run_id": state.run_id, **params}, resumable=True)
    if plan.timeout is None:
        return None
    since = now - state.driven_at if state.driven_at is not None else now - now
    if state.driven + since < plan.timeout:
        return None
    return overdue(state, plan)


def overdue(state: RunState, plan: Plan) -> Fail:
    """The end of a run whose driving time is spent."""
    seconds = f"{plan.timeout.total_seconds() if plan.timeout else 0:g}"
    params: dict[str, object] = {"run_id": state.run_id, "seconds": seconds}
    return Fail(AgentTimeoutError.code, params, resumable=True)


def _expired(state: RunState, _plan: Plan, now: datetime) -> Found:
    late = tuple([c for c in state.calls if _past(c, now)])
    return Expire(late) if late else None


def _past(call: Call, now: datetime) -> bool:
    request = call.request
    return (
        call.status == "held"
        and request is not None
        and request.expires_at is not None
        and request.expires_at <= now
    )


def _unanswered(state: RunState, _plan: Plan, _now: datetime) -> Found:
    step = state.open_step
    if step is None or step.kind != "model":
        return None
    final = step.final or state.exhausted is not None
    return CallModel(step.number, attempt=step.attempts + 1, final=final)


def _turned(state: RunState, plan: Plan, _now: datetime) -> Found:
    turn = state.turn
    if turn is None or not plan.turn_checks or not (state.calls or state.answer):
        return None
    if turn.refused_by is not None:
        return Repair(turn.diagnosis)
    left = tuple(check for check in plan.turn_checks if check not in turn.passed)
    return Review(left, "turn") if left else None


def _given(state: RunState, plan: Plan, _now: datetime) -> Found:
    for call in state.calls:
        left = _unjudged(call, plan)
        if left:
            return Review(left, "result", call.id)
    return None


def _unjudged(call: Call, plan: Plan) -> tuple[str, ...]:
    """Checks that have not spoken yet of what a tool gave."""
    if not call.output:
        return ()
    return tuple([check for check in plan.of(call.name).checks if check not in call.passed])


def _checked(state: RunState, plan: Plan, _now: datetime) -> Found:
    answer = state.answer
    if answer is None or answer.refused_by is not None:
        return None
    left = tuple(check for check in plan.checks if check not in answer.passed)
    return Review(left) if left else None


def _refused(state: RunState, plan: Plan, _now: datetime) -> Found:
    answer = state.answer
    if answer is None or answer.refused_by is None:
        return None
    remedy, done = plan.remedy(answer.refused_by), state.repairs.get(answer.refused_by, 0)
    if not answer.final and done < remedy.max_repairs:
        return Repair(answer.diagnosis)
    if remedy.on_failure == "unverified":
        return Complete(verified=False)
    if remedy.on_failure == "fallback":
        return Complete(text=remedy.fallback or plan.fallback, verified=False)
    params: dict[str, object] = {"check": answer.refused_by, "diagnosis": answer.diagnosis}
    return Fail(AnswerRefusedError.code, params)


def _unopened(state: RunState, plan: Plan, _now: datetime) -> Found:
    if not state.calls or state.open_step is not None:
        return None
    return RunTools(state.step + 1, _runnable(state, plan), opens=True)


def _unknown(state: RunState, plan: Plan, _now: datetime) -> Found:
    for call in state.calls:
        tool = plan.of(call.name)
        left_earlier = call.status == "started" and call.epoch < state.epoch
        waited_earlier = call.status == "waiting" and call.epoch < state.epoch
        if tool.child and (waited_earlier or left_earlier):
            return Drive(call)
        if call.status != "unknown" and not left_earlier:
            continue
        if tool.repeatable:
            return RunTools(state.step, (call,))
        if tool.settles and not call.settle_tried:
            return Settle(call)
        return Abandon(call) if tool.on_unknown == "error" else Ask((call,), "unknown")
    return None


def _ready(state: RunState, plan: Plan, _now: datetime) -> Found:
    calls = _runnable(state, plan)
    return RunTools(state.step, calls) if calls else None


def _runnable(state: RunState, plan: Plan) -> tuple[Call, ...]:
    return tuple(
        [
            c
            for c in state.calls
            if (c.status == "asked" and plan.of(c.name).approval != "always")
            or (c.status == "granted" and not _changed(c, plan))
        ]
    )


def _to_ask(state: RunState, plan: Plan, _now: datetime) -> Found:
    fresh = tuple(
        [c for c in state.calls if c.status == "asked" and plan.of(c.name).approval == "always"]
    )
    if fresh:
        return Ask(fresh, "declared")
    moved = tuple([c for c in state.calls if c.status in {"held", "granted"} and _changed(c, plan)])
    return Ask(moved, "changed") if moved else None


def _changed(call: Call, plan: Plan) -> bool:
    """True when the tool is there and is no longer the one that the human was asked about."""
    asked = call.request.definition if call.request is not None else ""
    now = plan.of(call.name).definition
    return bool(asked and now) and asked != now


def _settled(state: RunState, _plan: Plan, _now: datetime) -> Found:
    step = state.open_step
    if not state.calls or step is None:
        return None
    return Close(step.number) if _all_settled(state) else None


def _all_settled(state: RunState) -> bool:
    return not [call for call in state.calls if call.status != "settled"]


def closable(state: RunState, plan: Plan) -> bool:
    """True when the step of a batch may be closed with its last outcome, without being planned."""
    return (
        state.open_step is not None
        and state.ending is None
        and state.cancel is None
        and state.answer is None
        and bool(state.calls)
        and _all_settled(state)
        and not any(_unjudged(call, plan) for call in state.calls)
    )


def _waiting(state: RunState, _plan: Plan, _now: datetime) -> Found:
    return NOTHING if state.calls else None


def _accepted(state: RunState, plan: Plan, _now: datetime) -> Found:
    if state.answer is None:
        return None
    empty = state.answer.final and not state.answer.text.strip()
    return Complete(text=plan.fallback) if empty else Complete()


def _last(state: RunState, plan: Plan, _now: datetime) -> Found:
    if state.turns < plan.max_iterations and state.exhausted is None:
        return None
    return CallModel(state.step + 1, final=True)


def _next(state: RunState, _plan: Plan, _now: datetime) -> Found:
    return CallModel(state.step + 1)


TABLE: tuple[Row, ...] = (
    Row("the run has ended", "nothing", _ended),
    Row("a cancel was requested", "Stop", _cancelled),
    Row("driving time is over, or one step crashed five times", "Fail", _spent),
    Row("a held request is past its date", "Expire", _expired, "calls"),
    Row("a model step is open without an answer", "CallModel", _unanswered, "step"),
    Row("a policy has not spoken of the last turn, or refused it", "Review or Repair", _turned),
    Row("what a tool gave has a check left", "Review", _given, "calls"),
    Row("an answer has a check left and no refusal", "Review", _checked, "answer"),
    Row("an answer was refused", "Repair, Complete or Fail", _refused, "answer"),
    Row("calls are pending and no tool step is open", "RunTools", _unopened, "calls"),
    Row(
        "the outcome of a call is unknown",
        "Drive, RunTools, Settle, Abandon or Ask",
        _unknown,
        "calls",
    ),
    Row("calls can run", "RunTools", _ready, "calls"),
    Row("calls need an approval, or their tool changed", "Ask", _to_ask, "calls"),
    Row("every call of the open step is settled", "Close", _settled, "calls"),
    Row("a call is not settled", "nothing", _waiting, "calls"),
    Row("an answer is accepted", "Complete", _accepted, "answer"),
    Row("iterations or budget are exhausted", "CallModel (final)", _last),
    Row("otherwise", "CallModel", _next),
)


_STOPS: tuple[Find, ...] = (_ended, _cancelled, _spent)
"""Rows that cannot match a calm run: started, not ended, nobody stops it, its time is not limited.
"""

Present = tuple[bool, ...]
"""Whether there are an open step, calls, an answer."""


def _rows(present: Present, *, calm: bool) -> tuple[Find, ...]:
    """The rows of the table that can match, in its order."""
    there = {"run": True, **dict(zip(("step", "calls", "answer"), present, strict=True))}
    return tuple(
        row.find for row in TABLE if there[row.about] and not (calm and row.find in _STOPS)
    )


_ROWS: dict[Present, tuple[Find, ...]] = {
    present: _rows(present, calm=False) for present in product((False, True), repeat=3)
}
_CALM: dict[Present, tuple[Find, ...]] = {
    present: _rows(present, calm=True) for present in product((False, True), repeat=3)
}


def diagram() -> str:
    """The table as a Mermaid flow chart."""
    lines = ["flowchart TD"]
    for n, row in enumerate(TABLE):
        lines.append(f'    q{n}{{"{row.when}"}} -->|yes| e{n}["{row.then}"]')
        if n + 1 < len(TABLE):
            lines.append(f"    q{n} -->|no| q{n + 1}")
    return "\n".join(lines) + "\n"
