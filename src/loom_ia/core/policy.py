"""What a policy sees and may answer, and which of several answers holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from loom_ia.core.model import Message, ToolSpec
from loom_ia.core.wording import Language

Point = Literal["before_tool"]
DecisionKind = Literal["continue", "replace", "deny", "pause", "fail"]

POINTS: Mapping[Point, tuple[DecisionKind, ...]] = {
    "before_tool": ("continue", "replace", "pause", "deny", "fail"),
}
"""What may be decided at each point, from the weakest decision to the strongest."""

TIMEOUT: Final = 5.0
"""Seconds that a policy may take."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Nothing to say against it."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Go on with this in place of what was judged: at `before_tool`, the arguments."""

    value: Mapping[str, object]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse; the model reads why and may correct itself."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Let a human decide; the human reads why."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run."""

    reason: str


Decision = Continue | Replace | Deny | Pause | Fail
CONTINUE: Final = Continue()


def kind_of(decision: Decision) -> DecisionKind:
    """Name of a decision, as policies declare it."""
    match decision:
        case Continue():
            return "continue"
        case Replace():
            return "replace"
        case Deny():
            return "deny"
        case Pause():
            return "pause"
        case Fail():
            return "fail"


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """A call whose arguments fit its tool, before it is asked about or leaves."""

    spec: ToolSpec
    """The tool, as the model sees it."""
    arguments: Mapping[str, object]
    """As replaced so far; a copy."""
    call_id: str
    approved: bool = False
    """A human approved these arguments."""


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """Where a policy is asked."""

    tenant_id: str
    session_id: str
    run_id: str
    agent: str
    turn: int = 0
    """Answers of the main model so far."""
    caller: Mapping[str, object] = field(default_factory=dict[str, object])
    """Metadata given with the request."""
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the configuration gives to this policy."""
    messages: Sequence[Message] = ()
    """The conversation of the run so far, from its request on, tool results included."""
    history: Sequence[Message] = ()
    """What was said in the session before this run."""
    at: datetime | None = None
    """The store's instant of the last event."""
    language: Language = "fr"
    """Language of what models are told."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one policy said of some arguments."""

    policy: str
    decision: Decision
    arguments: Mapping[str, object]
    """Those that it judged."""


def strongest(said: Sequence[Said]) -> Said | None:
    """Of several answers the one that holds, the first among equals; None when all continue."""
    order = POINTS["before_tool"]
    found: Said | None = None
    for one in said:
        strength = order.index(kind_of(one.decision))
        if strength > (order.index(kind_of(found.decision)) if found else 0):
            found = one
    return found
