"""What a model was sent: one request of a run, put together again from what its journal names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from loom_ia.core.events import Event, ModelCalled
from loom_ia.core.fold import apply
from loom_ia.core.model import Message, ToolSpec
from loom_ia.core.state import RunState


class SentRequest(BaseModel):
    """One request, as it left."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    run_id: str
    number: int
    """From 1, attempts included."""
    requests: int
    """How many the run has made."""
    step: int
    attempt: int
    role: str
    model: str
    """Id of the model in the configuration."""
    final: bool
    """An answer without tools was asked."""
    at: datetime
    intact: bool
    """The messages of the run are those whose digests were recorded when it left."""
    params: dict[str, object]
    system: str
    tools: tuple[ToolSpec, ...]
    history: tuple[Message, ...]
    """Messages of earlier runs of the session."""
    messages: tuple[Message, ...]
    """Messages of the run."""


@dataclass(frozen=True, slots=True)
class Trail:
    """What a journal says of one request."""

    called: ModelCalled
    at: datetime
    state: RunState
    """The run just before it left."""
    prefix: Mapping[str, str]
    """Digests of what stood before the conversation."""
    told: Sequence[str]
    """Digests of the messages of the run."""


def trails(events: Iterable[Event]) -> list[Trail]:
    """Every request of a run, in order."""
    found: list[Trail] = []
    state = RunState()
    told: tuple[str, ...] = ()
    for event in events:
        before, state = state, apply(state, event)
        called = event.payload
        if isinstance(called, ModelCalled) and state.ignored == before.ignored:
            told = called.added if called.prefix else (*told, *called.added)
            prefix = called.prefix or before.prefix
            found.append(Trail(called, event.at, before, prefix, told))
    return found
