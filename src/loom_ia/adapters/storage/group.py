"""What one append wrote: its facts, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from loom_ia.core.events import Event
from loom_ia.core.events.envelope import SCHEMA_VERSION
from loom_ia.core.ports import Draft, RunRef
from loom_ia.core.trusted import trusted


@dataclass(slots=True, eq=False)
class Group(Sequence[Event]):
    """The events of one append, each made when it is looked at: a driver knows what it wrote."""

    ref: RunRef
    drafts: Sequence[Draft]
    seq: int
    """Position of the first one in the session."""
    position: int
    """Position of the first one in the run."""
    at: datetime
    epoch: int

    def __len__(self) -> int:
        return len(self.drafts)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        numbers = range(len(self.drafts))[index]
        if isinstance(numbers, range):
            return [self._event(n) for n in numbers]
        return self._event(numbers)

    def _event(self, number: int) -> Event:
        ref, draft = self.ref, self.drafts[number]
        payload = draft.payload
        values: dict[str, object] = {
            "id": draft.id,
            "seq": self.seq + number,
            "tenant_id": ref.tenant_id,
            "session_id": ref.session_id,
            "run_id": ref.run_id,
            "position": self.position + number,
            "span_id": draft.span_id,
            "type": payload.type,
            "status": payload.outcome,
            "at": self.at,
            "epoch": self.epoch,
            "skippable": False,
            "version": SCHEMA_VERSION,
            "payload": payload,
        }
        return trusted(Event, values)
