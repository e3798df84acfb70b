"""The tree of a run: its steps, their calls, what each took, cost and gave."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSettled,
    Decided,
    Event,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    StepOpened,
    ToolAbandoned,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
    ToolReported,
    ToolUnknown,
)
from loom_ia.core.fold import apply
from loom_ia.core.model import Usage, text_of
from loom_ia.core.projections.view import RunResult, result
from loom_ia.core.state import RunState


class Node(BaseModel):
    """A part of a trace."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class ModelNode(Node):
    """One attempt of a model."""

    kind: Literal["model"] = "model"
    model: str
    role: str
    attempt: int
    status: Literal["ok", "error", "lost"] = "lost"
    """`lost`: it was called and nothing came back."""
    ms: float = 0
    usage: Usage | None = None
    cost: Decimal | None = None
    text: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    error: str = ""


class ToolNode(Node):
    """One call of a tool."""

    kind: Literal["tool"] = "tool"
    call_id: str
    name: str
    arguments: dict[str, object]
    status: Literal["asked", "started", "ok", "error", "refused", "unknown", "waiting"] = "asked"
    launches: int = 0
    ms: float = 0
    result: str = ""
    decisions: tuple[str, ...] = ()
    """What was asked of humans and decided, in order: `type by at`."""


class StepNode(Node):
    """A call of the main model with its attempts, or one batch of tools."""

    number: int
    nodes: list[ModelNode | ToolNode]


class Trace(Node):
    """A run as a tree."""

    result: RunResult
    started_at: datetime | None = None
    ms: float = 0
    """From the first event to the last, waits included."""
    steps: list[StepNode]


class _Tree:
    def __init__(self) -> None:
        self.steps: list[StepNode] = []
        self.tools: dict[str, ToolNode] = {}
        self.attempt: ModelNode | None = None

    def step(self, number: int) -> StepNode:
        """The step with this number; a new one when it is the next."""
        if not self.steps or self.steps[-1].number != number:
            self.steps.append(StepNode(number=number, nodes=[]))
        return self.steps[-1]

    def model(self, payload: ModelCalled | ModelFailed | ModelResponded) -> None:
        """Take a fact about the model."""
        if isinstance(payload, ModelCalled):
            self.attempt = ModelNode(
                model=payload.model, role=payload.role, attempt=payload.attempt
            )
            self.step(payload.step).nodes.append(self.attempt)
            return
        node = self.attempt
        if node is None:
            return
        node.model = payload.model or node.model
        node.ms, node.usage, node.cost = payload.ms, payload.usage, payload.cost
        if isinstance(payload, ModelFailed):
            node.status, node.error = "error", payload.detail or payload.code
            return
        node.status, node.text = "ok", payload.message.text
        node.calls = tuple((call.name, call.arguments) for call in payload.message.calls)

    def tool(self, event: Event) -> None:
        """Take a fact about a call."""
        payload = event.payload
        node = self.tools.get(getattr(payload, "call_id", ""))
        if node is None:
            return
        match payload:
            case ToolCalled():
                node.status, node.launches = "started", payload.launch
                node.arguments = payload.arguments or node.arguments
            case ToolReported() | ToolCompleted():
                node.status = "error" if payload.is_error else "ok"
                node.ms, node.result = payload.ms or node.ms, text_of(payload.blocks)
            case ToolRefused() | ApprovalExpired():
                node.status, node.result = "refused", payload.text
            case ToolUnknown():
                node.status, node.ms = "unknown", payload.ms
                node.result = f"{payload.reason} {payload.detail}".strip()
            case ToolAbandoned():
                node.status, node.result = "unknown", payload.text
            case ApprovalRequested():
                node.status = "waiting"
                node.decisions += (f"{event.type} {event.at:%Y-%m-%d %H:%M:%S}",)
            case Decided():
                self._decided(node, event, payload)
            case _:
                return

    def _decided(self, node: ToolNode, event: Event, payload: Decided) -> None:
        at = f"{event.at:%Y-%m-%d %H:%M:%S}"
        node.decisions += (f"{event.type} {payload.by.id} {at} {payload.reason}".strip(),)
        node.status = "asked"
        told = getattr(payload, "text", "")
        if told:
            node.result = told
            happened = isinstance(payload, ApprovalSettled) and payload.happened
            node.status = "ok" if happened else "refused"


def trace(events: Iterable[Event]) -> Trace:
    """Tree of a run from its events."""
    tree, state = _Tree(), RunState()
    first: datetime | None = None
    for event in events:
        first = first or event.at
        state = apply(state, event)
        payload = event.payload
        if isinstance(payload, ModelCalled | ModelFailed | ModelResponded):
            tree.model(payload)
        elif isinstance(payload, StepOpened):
            _open(tree, payload.step, state)
        else:
            tree.tool(event)
    span = state.at - first if state.at and first else timedelta()
    ms = span / timedelta(milliseconds=1)
    return Trace(result=result(state), started_at=first, ms=ms, steps=tree.steps)


def _open(tree: _Tree, number: int, state: RunState) -> None:
    step = tree.step(number)
    for call in state.calls:
        node = ToolNode(call_id=call.id, name=call.name, arguments=dict(call.arguments))
        tree.tools[call.id] = node
        step.nodes.append(node)
