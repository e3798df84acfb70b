"""One tool call as a trace tells it: what left, what was asked of people, what came back."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ApprovalSettled,
    ChildWaiting,
    Decided,
    Event,
    GuardChecked,
    JudgeEvaluated,
    Principal,
    ToolAbandoned,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
    ToolReported,
    ToolSettled,
    ToolUnknown,
)
from loom_ia.core.model import text_of

CallState = Literal["asked", "waiting", "started", "ok", "error", "refused", "unknown"]
Answer = Literal["granted", "rejected", "settled", "expired"]


class Question(BaseModel):
    """What was asked of people about a call, and what one of them answered."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    asked_at: datetime | None = None
    """None: a person settled a call of unknown outcome without being asked."""
    why: Literal["declared", "policy", "unknown", "changed"] = "declared"
    expires_at: datetime | None = None
    answer: Answer | None = None
    at: datetime | None = None
    """When it was answered, or when it expired."""
    by: Principal | None = None
    on_behalf_of: str = ""
    reason: str = ""
    corrected: dict[str, object] | None = None
    """Arguments given by who approved; None when they were kept."""
    happened: bool | None = None
    """What a person said of a call whose outcome nobody knew."""


class CheckNode(BaseModel):
    """What code or a judge said of a text, of a request or of a call."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["check"] = "check"
    name: str
    point: str = ""
    """Where a policy spoke; empty for a contract or a judge."""
    decision: str = ""
    """What a policy decided."""
    accepted: bool
    diagnosis: str = ""
    changed: bool = False
    """It put another text in the place of what it judged."""
    scores: dict[str, float] = {}
    """Of each criterion of a judge, from 0 to 1."""
    skipped: str = ""
    """Why a judge did not run."""


class CallNode(BaseModel):
    """One call of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: Literal["tool"] = "tool"
    call_id: str
    name: str
    arguments: dict[str, object]
    """What left, once it has left; what the model asked before."""
    status: CallState = "asked"
    launches: int = 0
    ms: float = 0
    result: str = ""
    """What the model is told, or what came too late for it."""
    recalled: str = ""
    """Run and call that gave the result earlier, kept under the idempotency key."""
    late: bool = False
    """The outcome came when the run no longer waited for it."""
    code: str = ""
    """Why it was refused: `arguments`, `unknown_tool`, `policy`, `limit`, …"""
    doubt: str = ""
    """Why nobody knew whether it acted: `timeout`, `crash`, `lease_lost`, …"""
    detail: str = ""
    still_running: bool = False
    """It did not stop when it was asked to."""
    questions: tuple[Question, ...] = ()
    checks: tuple[CheckNode, ...] = ()
    """What was said of its arguments and of its result."""


def checked(payload: GuardChecked | JudgeEvaluated) -> CheckNode:
    """What one check said."""
    judged = payload if isinstance(payload, JudgeEvaluated) else None
    guard = payload if isinstance(payload, GuardChecked) else None
    return CheckNode(
        name=payload.check,
        point=guard.point if guard else "",
        decision=guard.decision if guard else "",
        accepted=payload.accepted,
        diagnosis=payload.diagnosis,
        changed=guard is not None and guard.text is not None,
        scores=judged.scores if judged else {},
        skipped=judged.skipped if judged else "",
    )


def told(node: CallNode, event: Event, *, applied: bool) -> CallNode:
    """The call after one more fact about it; without `applied`, it came too late for the run."""
    changes = _changes(node, event)
    if not applied:
        late = isinstance(event.payload, ToolCompleted)
        return node.model_copy(update={**changes, "late": True}) if late else node
    return node.model_copy(update=changes)


def _changes(node: CallNode, event: Event) -> dict[str, object]:
    payload = event.payload
    match payload:
        case ToolCalled():
            arguments = node.arguments if payload.arguments is None else dict(payload.arguments)
            return {"status": "started", "launches": payload.launch, "arguments": arguments}
        case ToolCompleted():
            return {
                "status": "error" if payload.is_error else "ok",
                "ms": payload.ms or node.ms,
                "result": _content(payload),
                "recalled": payload.recalled,
                "late": isinstance(payload, ToolReported),
            }
        case ToolRefused():
            return {"status": "refused", "result": payload.text, "code": payload.code}
        case ToolUnknown():
            return {
                "status": "unknown",
                "ms": payload.ms,
                "doubt": payload.reason,
                "detail": payload.detail,
                "still_running": payload.still_running,
            }
        case ToolSettled():
            return _settled(payload)
        case ToolAbandoned():
            doubt = node.doubt or "crash"
            return {"status": "unknown", "doubt": doubt, "result": payload.text}
        case ChildWaiting():
            return {"status": "waiting"}
        case _:
            return _asked_of_people(node, event)


def _content(payload: ToolCompleted) -> str:
    others = [f"[{b.type} {b.uri}]" for b in payload.blocks if b.type != "text"]
    return " ".join(part for part in (text_of(payload.blocks), *others) if part)


def _settled(payload: ToolSettled) -> dict[str, object]:
    if payload.sent is None:
        return {"status": "unknown"}
    if not payload.sent:
        return {"status": "asked", "detail": payload.evidence}
    return {"status": "ok", "result": payload.evidence}


def _asked_of_people(node: CallNode, event: Event) -> dict[str, object]:
    payload = event.payload
    if isinstance(payload, ApprovalRequested):
        asked = Question(asked_at=event.at, why=payload.why, expires_at=payload.expires_at)
        return {"status": "waiting", "questions": (*node.questions, asked)}
    if not isinstance(payload, Decided | ApprovalExpired):
        return {}
    questions = node.questions
    if isinstance(payload, ApprovalSettled) and not (questions and questions[-1].answer is None):
        questions = (*questions, Question(why="unknown"))
    if not questions:
        return {}
    changes, answer = _decided(payload)
    last = questions[-1].model_copy(update={**answer, "at": event.at})
    if last.why == "unknown" and last.answer in {"rejected", "expired"}:
        changes["status"] = "unknown"  # it left once: that it will not leave again says no more
    return {**changes, "questions": (*questions[:-1], last)}


def _decided(payload: Decided | ApprovalExpired) -> tuple[dict[str, object], dict[str, object]]:
    """What the decision changes of the call, and what it is of the question."""
    if isinstance(payload, ApprovalExpired):
        return {"status": "refused", "result": payload.text}, {"answer": "expired"}
    answer: dict[str, object] = {
        "by": payload.by,
        "on_behalf_of": payload.on_behalf_of,
        "reason": payload.reason,
    }
    match payload:
        case ApprovalGranted(arguments=None):
            return {"status": "asked"}, {**answer, "answer": "granted"}
        case ApprovalGranted():
            corrected = dict(payload.arguments or {})
            changes: dict[str, object] = {"status": "asked", "arguments": corrected}
            return changes, {**answer, "answer": "granted", "corrected": corrected}
        case ApprovalRejected():
            changes = {"status": "refused", "result": payload.text}
            return changes, {**answer, "answer": "rejected"}
        case ApprovalSettled():
            status = "ok" if payload.happened else "refused"
            changes = {"status": status, "result": payload.text}
            return changes, {**answer, "answer": "settled", "happened": payload.happened}
        case _:
            return {}, answer
