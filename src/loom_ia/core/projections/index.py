"""What a store keeps of each root run, without any content: enough to fence, list and recover."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

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

Standing = Status | Literal["running", "waiting", "idle"]
"""How a root run stands: how it ended, driven, waiting for a human, or left by its driver."""


_new = object.__new__


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
    waiting_until: datetime | None = None
    """Instant at which something can be done without that human."""
    lease_until: datetime | None = None
    """End of the present lease; None when nobody drives."""
    lease_holder: str = ""

    def evolve(self, **changes: object) -> RunEntry:
        """This entry with other values."""
        new = _new(RunEntry)
        _fill(new, self.__dict__ | changes)
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
        """True when nobody drives the run, and it has something to do or its driver died."""
        if self.ended is not None or self.driven(now):
            return False
        if self.lease_until is not None or not self.waiting:
            return True
        return self.waiting_until is not None and self.waiting_until <= now

    def standing(self, now: datetime) -> Standing:
        """How the run stands, as far as an index knows."""
        if self.ended is not None:
            return self.ended
        if self.driven(now):
            return "running"
        return "waiting" if self.waiting else "idle"


_fill = RunEntry.__dict__["__dict__"].__set__


@dataclass(frozen=True, kw_only=True)
class SessionEntry:
    """One session of the index."""

    session_id: str
    tenant_id: str
    started_at: datetime
    """Start of its first run."""
    updated_at: datetime
    """Last event of its root runs."""
    runs: int
    """Root runs."""
    open: int
    """Those of them that have not ended."""


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """What is left of an erased session."""

    session_id: str
    at: datetime
    by: str
    pending: bool = True
    """True while something of the session may be left, in the store or outside of it."""


def summed(entries: Iterable[RunEntry]) -> SessionEntry | None:
    """Entry of a session from those of its root runs."""
    runs = list(entries)
    if not runs:
        return None
    return SessionEntry(
        session_id=runs[0].session_id,
        tenant_id=runs[0].tenant_id,
        started_at=min(entry.started_at for entry in runs),
        updated_at=max(entry.updated_at for entry in runs),
        runs=len(runs),
        open=sum(entry.ended is None for entry in runs),
    )


def indexed(entry: RunEntry | None, event: Event) -> RunEntry:
    """Entry of a run after one more of its events; the lease is the store's own business."""
    payload = event.payload
    if entry is None:
        entry = _first(event)
    changes: dict[str, object] = {"position": event.position, "updated_at": event.at}
    match payload:
        case RunStarted():
            pass
        case RunClaimed():
            changes |= {"epoch": max(entry.epoch, event.epoch), "waiting": False}
        case ApprovalRequested():
            changes |= {"waiting": entry.ended is None, "waiting_until": payload.expires_at}
        case CancelRequested():
            changes |= {"cancel_requested": True, "waiting": False}
        case RunResumed():
            changes |= {"ended": None, "waiting": False}
        case Decided() | ToolReported():
            changes["waiting"] = False
        case _:
            if (status := status_of(payload)) is not None and entry.ended is None:
                changes |= {"ended": status, "waiting": False}
    if changes.get("waiting") is False:
        changes["waiting_until"] = None
    return entry.evolve(**changes)


def _first(event: Event) -> RunEntry:
    payload = event.payload
    started = payload if isinstance(payload, RunStarted) else None
    return _BLANK.evolve(  # copied, which takes less long than sixteen fields set one by one
        run_id=event.run_id,
        root_id=(started.root_id if started else "") or event.run_id,
        tenant_id=event.tenant_id,
        session_id=event.session_id,
        agent=started.agent if started else "",
        ordinal=started.ordinal if started else 1,
        started_at=event.at,
        updated_at=event.at,
    )


_BLANK = RunEntry(
    run_id="",
    root_id="",
    tenant_id="",
    session_id="",
    started_at=datetime.min.replace(tzinfo=UTC),
    updated_at=datetime.min.replace(tzinfo=UTC),
)
