"""The tree of a run: its steps, their calls, what each took, cost and gave."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.events import (
    BudgetExceeded,
    CallFact,
    CancelRequested,
    ConfigChanged,
    Event,
    GuardChecked,
    JudgeEvaluated,
    LineQuarantined,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    Principal,
    RunClaimed,
    RunResumed,
    StepOpened,
)
from loom_ia.core.fold import apply
from loom_ia.core.model import Usage
from loom_ia.core.projections.calls import CallNode, CheckNode, checked, told
from loom_ia.core.projections.view import RunResult, result
from loom_ia.core.state import RunState

NoteKind = Literal[
    "crashed", "resumed", "cancel_requested", "config_changed", "budget_exceeded", "quarantined"
]


class Node(BaseModel):
    """A part of a trace."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class AskedCall(Node):
    """A call that a model asked for."""

    call_id: str
    name: str
    arguments: dict[str, object] = Field(default_factory=dict[str, object])
    malformed: str | None = None
    """What the model wrote instead of arguments."""


class ModelNode(Node):
    """One attempt of a model."""

    kind: Literal["model"] = "model"
    model: str
    """Name of the model that served; its id in the configuration until it has answered."""
    role: str
    attempt: int
    final: bool = False
    """An answer without tools was asked: iterations or budget were spent."""
    status: Literal["started", "ok", "error", "lost"] = "started"
    """`lost`: nothing came back and nothing will."""
    ms: float = 0
    usage: Usage | None = None
    cost: Decimal | None = None
    text: str = ""
    calls: tuple[AskedCall, ...] = ()
    not_executed: str = ""
    """What the model was told of calls that never ran."""
    error: str = ""
    error_code: str = ""


class StepNode(Node):
    """A call of the main model with its attempts, or one batch of tools."""

    number: int
    kind: Literal["model", "tools"]
    nodes: tuple[ModelNode | CallNode | CheckNode, ...] = ()


class Note(Node):
    """Something that happened to the run as a whole, between its first event and its last."""

    kind: NoteKind
    at: datetime
    by: Principal | None = None
    detail: str = ""


class TraceRun(Node):
    """A run as a tree."""

    result: RunResult
    message: str = ""
    """What was asked."""
    by: Principal | None = None
    started_at: datetime | None = None
    ms: float = 0
    """From the first event to the last, waits included."""
    steps: tuple[StepNode, ...] = ()
    notes: tuple[Note, ...] = ()


def trace(events: Iterable[Event]) -> TraceRun:
    """Tree of a run from its events."""
    tree, state = _Tree(), RunState()
    first: datetime | None = None
    for event in events:
        first = first or event.at
        before, state = state, apply(state, event)
        tree.take(event, state, applied=state.ignored == before.ignored)
    if state.ending is not None:
        tree.lose()
    span = state.at - first if state.at and first else timedelta()
    started = state.started
    return TraceRun(
        result=result(state),
        message=started.message.text if started else "",
        by=started.principal if started else None,
        started_at=first,
        ms=span / timedelta(milliseconds=1),
        steps=tree.steps(),
        notes=tuple(tree.notes),
    )


N = TypeVar("N", bound=BaseModel)


def _with(node: N, **changes: object) -> N:
    return node.model_copy(update=changes)


class _Tree:
    """Nodes by step, in the order in which they came."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._kinds: dict[int, Literal["model", "tools"]] = {}
        self._models: dict[tuple[str, str], tuple[int, ModelNode]] = {}
        self._calls: dict[str, tuple[int, CallNode]] = {}
        self._checks: list[tuple[int, CheckNode]] = []

    def steps(self) -> tuple[StepNode, ...]:
        """The steps, in order."""
        nodes: dict[int, list[ModelNode | CallNode | CheckNode]] = {n: [] for n in self._kinds}
        for number, node in (*self._calls.values(), *self._models.values(), *self._checks):
            nodes.setdefault(number, []).append(node)
        return tuple(
            StepNode(number=number, kind=kind, nodes=tuple(nodes[number]))
            for number, kind in sorted(self._kinds.items())
        )

    def take(self, event: Event, state: RunState, *, applied: bool) -> None:
        """Take one event; an outcome that came too late to change the run is still told."""
        payload = event.payload
        if isinstance(payload, CallFact):
            self._call(event, payload, applied=applied)
        elif not applied:
            return
        elif isinstance(payload, ModelCalled | ModelFailed | ModelResponded):
            self._model(payload, (event.span_id or str(payload.step), payload.role))
        elif isinstance(payload, GuardChecked | JudgeEvaluated):
            self._check(payload, state)
        elif isinstance(payload, StepOpened):
            self._open(payload.step, state)
        else:
            self._note(event)

    def _call(self, event: Event, payload: CallFact, *, applied: bool) -> None:
        known = self._calls.get(payload.call_id)
        if known is not None and (applied or known[1].status == "unknown"):
            self._calls[payload.call_id] = known[0], told(known[1], event, applied=applied)

    def _check(self, payload: GuardChecked | JudgeEvaluated, state: RunState) -> None:
        """Beside the call it is about, else in the step of what was judged."""
        call_id = payload.call_id if isinstance(payload, GuardChecked) else ""
        known, said = self._calls.get(call_id), checked(payload)
        if known is None:
            self._checks.append((state.step, said))
            return
        number, node = known
        self._calls[call_id] = number, _with(node, checks=(*node.checks, said))

    def _open(self, number: int, state: RunState) -> None:
        self._kinds.setdefault(number, "tools")
        for call in state.calls:
            node = CallNode(call_id=call.id, name=call.name, arguments=dict(call.arguments))
            self._calls[call.id] = number, node

    def _model(
        self, payload: ModelCalled | ModelFailed | ModelResponded, key: tuple[str, str]
    ) -> None:
        if isinstance(payload, ModelCalled):
            self._kinds.setdefault(payload.step, "model")
            self._models[key] = payload.step, _attempt(payload)
        elif key in self._models:
            number, node = self._models[key]
            self._models[key] = number, _answered(node, payload)

    def _note(self, event: Event) -> None:
        payload = event.payload
        match payload:
            case RunClaimed(crashed=True):
                self.lose()
                note = Note(kind="crashed", at=event.at, detail=payload.holder)
            case RunResumed():
                note = Note(kind="resumed", at=event.at, by=payload.by)
            case CancelRequested():
                note = Note(
                    kind="cancel_requested", at=event.at, by=payload.by, detail=payload.reason
                )
            case ConfigChanged():
                note = Note(kind="config_changed", at=event.at, detail=", ".join(payload.parts))
            case BudgetExceeded():
                detail = f"{payload.scope}.{payload.limit} {payload.spent} / {payload.ceiling}"
                note = Note(kind="budget_exceeded", at=event.at, detail=detail)
            case LineQuarantined():
                self.lose()
                note = Note(kind="quarantined", at=event.at, detail=payload.file)
            case _:
                return
        self.notes.append(note)

    def lose(self) -> None:
        """Nobody waits any longer for what had left: its driver died, or the run ended."""
        for key, (number, node) in self._models.items():
            if node.status == "started":
                self._models[key] = number, _with(node, status="lost")
        for call_id, (number, call) in self._calls.items():
            if call.status == "started":
                lost = _with(call, status="unknown", doubt=call.doubt or "crash")
                self._calls[call_id] = number, lost


def _attempt(payload: ModelCalled) -> ModelNode:
    return ModelNode(
        model=payload.model, role=payload.role, attempt=payload.attempt, final=payload.final
    )


def _answered(node: ModelNode, payload: ModelFailed | ModelResponded) -> ModelNode:
    seen: dict[str, object] = {
        "model": payload.model or node.model,
        "ms": payload.ms,
        "usage": payload.usage,
        "cost": payload.cost,
    }
    if isinstance(payload, ModelFailed):
        error = payload.detail or payload.code
        return _with(node, **seen, status="error", error=error, error_code=payload.code)
    calls = tuple(
        AskedCall(call_id=c.id, name=c.name, arguments=dict(c.arguments), malformed=c.malformed)
        for c in payload.message.calls
    )
    text, never = payload.message.text, payload.not_executed
    return _with(node, **seen, status="ok", text=text, calls=calls, not_executed=never)
