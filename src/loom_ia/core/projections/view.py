"""A run as its callers see it: its state, its result, what it waits for."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.errors import sentence
from loom_ia.core.events import Event
from loom_ia.core.model import Usage
from loom_ia.core.projections.index import RunEntry, SessionEntry, Standing
from loom_ia.core.state import RunState, Status


class PendingApproval(BaseModel):
    """A call that waits for a human."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    call_id: str
    tool: str
    arguments: dict[str, object]
    why: str = "declared"
    reason: str = ""
    """Why a policy wants a human to decide."""
    scope: str = ""
    """Scope that the key of who decides must have."""
    expires_at: datetime | None = None


class RunView(BaseModel):
    """State of a run at one moment."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    run_id: str
    session_id: str
    tenant_id: str
    agent: str
    status: Status
    position: int
    """Events of the run."""
    iterations: int
    """Answers of the main model."""
    usage: Usage
    cost: Decimal | None
    """Dollars; None when a part is unknown."""
    pending_approvals: tuple[PendingApproval, ...] = ()
    stopping: bool = False
    """True once somebody asked to stop the run, until it has ended: it may still be at work."""
    still_running: tuple[str, ...] = ()
    """Calls that had not stopped when the run did; what they do is no longer waited for."""
    updated_at: datetime | None = None


class RunResult(RunView):
    """What a run produced so far."""

    text: str = ""
    """The answer; empty until there is one."""
    verified: bool = True
    error: str | None = None
    """Why the run failed, in the reader's language."""
    error_code: str | None = None
    resumable: bool = False
    data: object = None
    """The JSON value of an answer that a contract with a schema accepted."""
    artifacts: tuple[str, ...] = Field(default=())


class SessionView(BaseModel):
    """A session, as the index knows it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    session_id: str
    tenant_id: str
    started_at: datetime
    updated_at: datetime
    runs: int
    open_runs: int
    """Runs that have not ended."""


class SessionPage(BaseModel):
    """Sessions, newest first."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    sessions: tuple[SessionView, ...]
    next: str = ""
    """What to give as `after` for the page behind; empty when this one is the last."""


class RunLine(BaseModel):
    """A run in a list, without its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    run_id: str
    session_id: str
    agent: str
    status: Standing
    started_at: datetime
    updated_at: datetime


class RunPage(BaseModel):
    """Root runs, newest first."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    runs: tuple[RunLine, ...]
    next: str = ""
    """What to give as `after` for the page behind; empty when this one is the last."""


class EventPage(BaseModel):
    """Events, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    events: tuple[Event, ...]
    next: str = ""
    """What to give as `after` for the page behind; empty when this one is the last."""


class SessionDetail(SessionView):
    """A session and a page of its runs, newest first."""

    lines: tuple[RunLine, ...] = ()
    next: str = ""
    """What to give as `after` for the page behind; empty when this one is the last."""


class ErasedSession(BaseModel):
    """What is left of an erased session."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    session_id: str
    at: datetime
    by: str
    pending: bool = False
    """True while something that other sessions may be about to use is kept; it goes later."""


def line(entry: RunEntry, now: datetime) -> RunLine:
    """A run of the index as its callers see it."""
    return RunLine(
        run_id=entry.run_id,
        session_id=entry.session_id,
        agent=entry.agent,
        status=entry.standing(now),
        started_at=entry.started_at,
        updated_at=entry.updated_at,
    )


def session_fields(entry: SessionEntry) -> dict[str, object]:
    """What callers see of a session of the index."""
    return {
        "session_id": entry.session_id,
        "tenant_id": entry.tenant_id,
        "started_at": entry.started_at,
        "updated_at": entry.updated_at,
        "runs": entry.runs,
        "open_runs": entry.open,
    }


def pending(state: RunState) -> tuple[PendingApproval, ...]:
    """Questions that wait for a decision, in call order."""
    return tuple(
        PendingApproval(
            call_id=call.id,
            tool=call.name,
            arguments=dict(call.arguments),
            why=call.request.why,
            reason=call.request.reason,
            scope=call.request.scope,
            expires_at=call.request.expires_at,
        )
        for call in state.calls
        if call.status == "held" and call.request is not None
    )


def _fields(state: RunState) -> dict[str, object]:
    return {
        "run_id": state.run_id,
        "session_id": state.session_id,
        "tenant_id": state.tenant_id,
        "agent": state.started.agent if state.started else "",
        "status": state.status,
        "position": state.position,
        "iterations": state.turns,
        "usage": state.usage,
        "cost": state.cost_known,
        "pending_approvals": () if state.ending else pending(state),
        "stopping": state.cancel is not None and state.ending is None,
        "still_running": state.ending.still_running if state.ending else (),
        "updated_at": state.at,
    }


def view(state: RunState) -> RunView:
    """State of the run as its callers see it."""
    return RunView.model_validate(_fields(state))


def result(state: RunState) -> RunResult:
    """Result of the run as its callers see it."""
    fields = _fields(state)
    ending = state.ending
    if ending is not None:
        fields |= {"text": ending.text, "verified": ending.verified, "resumable": ending.resumable}
        if ending.parsed:
            fields["data"] = json.loads(ending.text)
        if ending.code:
            fields |= {
                "error": str(sentence(ending.code, dict(ending.params))),
                "error_code": ending.code,
            }
    return RunResult.model_validate(fields)
