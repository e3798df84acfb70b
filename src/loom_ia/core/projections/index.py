"""What a store keeps of each root run, without any content: enough to fence, list and recover."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from loom_ia.core.events import (
    ApprovalRequested,
    CancelRequested,
    Decided,
    Event,
    RunClaimed,
    RunResumed,
    RunStarted,
    ToolReported,
    status_of,
)
from loom_ia.core.state import Status


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run of the index. Positions count events; instants are the store's."""

    run_id: str
    root_id: str
    tenant_id: str
    session_id: str
    agent: str = ""
    ordinal: int = 1
    started_at: datetime
    updated_at: datetime
    position: int = 0
    epoch: int = 0
    ended: Status | None = None
    cancel_requested: bool = False
    waiting: bool = False
    """True when the last drive stopped for a human and nothing was decided since."""
    lease_until: datetime | None = None
    """End of the present lease; None when nobody drives."""
    lease_holder: str = ""

    def evolve(self, **changes: object) -> RunEntry:
        """This entry with other values."""
        new = object.__new__(RunEntry)
        object.__setattr__(new, "__dict__", self.__dict__ | changes)
        return new

    def driven(self, now: datetime) -> bool:
        """True while a lease holds."""
        return self.lease_until is not None and self.lease_until > now

    def busy(self, now: datetime) -> bool:
        """True when the run is queued or driven, so that its session takes no other run."""
        if self.ended is not None:
            return False
        return self.driven(now) if self.lease_until is not None else not self.waiting

    def due(self, now: datetime) -> bool:
        """True when nobody drives the run and it has something to do."""
        return self.ended is None and not self.waiting and not self.driven(now)


def indexed(entry: RunEntry | None, event: Event) -> RunEntry:
    """Entry of a run after one more of its events; the lease is the store's own business."""
    payload = event.payload
    if entry is None:
        entry = _first(event)
    changes: dict[str, object] = {"position": event.position, "updated_at": event.at}
    match payload:
        case RunClaimed():
            changes |= {"epoch": max(entry.epoch, event.epoch), "waiting": False}
        case ApprovalRequested():
            changes["waiting"] = True
        case CancelRequested():
            changes |= {"cancel_requested": True, "waiting": False}
        case RunResumed():
            changes |= {"ended": None, "waiting": False}
        case Decided() | ToolReported():
            changes["waiting"] = False
        case _:
            if (status := status_of(payload)) is not None and entry.ended is None:
                changes |= {"ended": status, "waiting": False}
    return entry.evolve(**changes)


def _first(event: Event) -> RunEntry:
    payload = event.payload
    started = payload if isinstance(payload, RunStarted) else None
    return RunEntry(
        run_id=event.run_id,
        root_id=(started.root_id if started else "") or event.run_id,
        tenant_id=event.tenant_id,
        session_id=event.session_id,
        agent=started.agent if started else "",
        ordinal=started.ordinal if started else 1,
        started_at=event.at,
        updated_at=event.at,
    )
