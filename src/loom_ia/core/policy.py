"""What a policy sees and may answer at each point of the loop, and which of several holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from loom_ia.core.model import Message, ToolCallBlock, ToolSpec
from loom_ia.core.wording import Language

Point = Literal["before_model", "after_model", "before_tool", "after_tool", "on_output"]
DecisionKind = Literal["continue", "replace", "repair", "deny", "pause", "stop", "fail"]

POINTS: Mapping[Point, tuple[DecisionKind, ...]] = {
    "before_model": ("continue", "replace", "stop", "fail"),
    "after_model": ("continue", "repair", "stop", "fail"),
    "before_tool": ("continue", "replace", "pause", "deny", "fail"),
    "after_tool": ("continue", "replace", "repair", "fail"),
    "on_output": ("continue", "replace", "repair", "fail"),
}
"""What may be decided at each point, from the weakest decision to the strongest."""

TIMEOUT: Final = 5.0
"""Seconds that a policy may take."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Nothing to say against it."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Go on with this in place of what was judged.

    `before_tool`: the arguments. `after_tool` and `on_output`: a text. `before_model`: a mapping of
    what changes of the request, `system` (text), `messages` (messages) or `tools` (names).
    """

    value: Mapping[str, object] | str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """Refuse; the author reads why and gives another answer.

    `after_tool`: the model reads why, instead of the result, and the tool is not called again.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse; the model reads why and may correct itself."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Let a human decide; the human reads why."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Call no tool any more: the model gives its last answer."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run."""

    reason: str
    resumable: bool = False
    """The run may go on later, and the policy is then asked again."""


Decision = Continue | Replace | Repair | Deny | Pause | Stop | Fail
CONTINUE: Final = Continue()


def kind_of(decision: Decision) -> DecisionKind:
    """Name of a decision, as policies declare it."""
    match decision:
        case Continue():
            return "continue"
        case Replace():
            return "replace"
        case Repair():
            return "repair"
        case Deny():
            return "deny"
        case Pause():
            return "pause"
        case Stop():
            return "stop"
        case Fail():
            return "fail"


def reason_of(decision: Decision) -> str:
    """Why it was decided."""
    return "" if isinstance(decision, Continue) else decision.reason


@dataclass(frozen=True, slots=True)
class BeforeModel:
    """A request of the main model, before it leaves."""

    system: str
    messages: Sequence[Message]
    """The conversation, that of the session first."""
    tools: Sequence[ToolSpec]
    model: str
    """Id of the model in the configuration."""
    final: bool = False
    """A last answer without tools is asked."""


@dataclass(frozen=True, slots=True)
class AfterModel:
    """An answer of the main model, before its calls are made or its text is judged."""

    text: str
    calls: Sequence[ToolCallBlock]
    """What it asks for."""
    used: Sequence[str] = ()
    """Tools that answered in this run, in order."""
    final: bool = False
    """It is a last answer: what a policy wants repaired is let through."""


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
class AfterTool:
    """What a tool gave, before the model reads it."""

    tool: str
    """Its name, as the model sees it."""
    arguments: Mapping[str, object]
    """Those that left; a copy."""
    result: str
    """The text of the result, as replaced so far."""
    call_id: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class OnOutput:
    """The answer of the run, once it has its form, before judges and before it leaves."""

    text: str
    """As replaced so far."""
    data: object = None
    """The JSON value that a contract read in it; None without one."""
    final: bool = False
    """It is a last answer: it cannot be repaired any more."""


Subject = BeforeModel | AfterModel | BeforeTool | AfterTool | OnOutput


def point_of(subject: Subject) -> Point:
    """Where a subject is judged."""
    match subject:
        case BeforeModel():
            return "before_model"
        case AfterModel():
            return "after_model"
        case BeforeTool():
            return "before_tool"
        case AfterTool():
            return "after_tool"
        case OnOutput():
            return "on_output"


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
