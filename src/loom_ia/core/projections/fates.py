"""Whether one call acted, as the journal of its run tells whoever meets the key that it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalSettled,
    CallFact,
    Event,
    RunResumed,
    ToolAbandoned,
    ToolCalled,
    ToolCompleted,
    ToolRefused,
    ToolSettled,
    ToolUnknown,
    status_of,
)
from loom_ia.core.model import ContentBlock, TextBlock

Outlook = Literal["held", "left", "unknown", "acted", "idle"]
"""It may leave; it left and gave nothing yet; nobody knows; it acted; it did not act."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of a call."""

    outlook: Outlook = "held"
    result: tuple[ContentBlock, ...] = ()
    """What it gave, once it acted."""
    ended: bool = False
    """Its run has ended: a call that has not left will not, unless the run is resumed."""


HELD = Fate()


def fate_of(events: Iterable[Event], call_id: str) -> Fate:
    """What the events of a run tell of one of its calls, late facts included."""
    fate, ended = HELD, False
    for event in events:
        payload = event.payload
        if status_of(payload) is not None:
            ended = True
        elif isinstance(payload, RunResumed):
            ended = False
        elif isinstance(payload, CallFact) and payload.call_id == call_id:
            fate = _then(fate, payload)
    return Fate(fate.outlook, fate.result, ended)


def _then(fate: Fate, fact: CallFact) -> Fate:
    match fact:
        case ToolCalled() | ToolUnknown() | ToolAbandoned():
            return Fate("left" if isinstance(fact, ToolCalled) else "unknown")
        case ToolCompleted():
            return Fate("idle") if fact.is_error else Fate("acted", fact.blocks)
        case ToolSettled(sent=True):
            return Fate("acted", (TextBlock(text=fact.text or fact.evidence),))
        case ToolSettled(sent=False) | ApprovalGranted():
            return HELD  # it may leave once more
        case ApprovalSettled(happened=True):
            return Fate("acted", (TextBlock(text=fact.text),))
        case ApprovalSettled() | ToolRefused():
            return Fate("idle")
        case ApprovalRejected() | ApprovalExpired():
            return fate if fate.outlook in {"left", "unknown"} else Fate("idle")
        case _:
            return fate
