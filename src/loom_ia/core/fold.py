"""`apply` and `fold`: the state of a run from its events, whatever they are."""

from __future__ import annotations

from collections.abc import Iterable

from loom_ia.core.events import CannotApplyError, Event, Foreign, RunClaimed
from loom_ia.core.state import RunState
from loom_ia.core.vec import Ranked, Vec


def apply(state: RunState, event: Event) -> RunState:
    """State after one more event. Total: what cannot apply counts in the position, nothing else."""
    payload = event.payload
    if isinstance(payload, Foreign):
        carried = state if event.skippable else state.evolve(foreign=event.type)
        return _clocked(state, carried, event)
    if state.ending is not None and not payload.after_end:
        return _ignored(state, event)
    if event.epoch and event.epoch < state.epoch and not payload.after_end:
        return _ignored(state, event)
    try:
        after = payload.evolve(state)
    except (CannotApplyError, ArithmeticError):
        return _ignored(state, event)
    return _clocked(state, after, event)


_BLANK = RunState()
"""Copied for each run, which costs less than its thirty defaults; what grows is never shared."""


def fold(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """State of a run from its journal, or from a state and what came after it."""
    folded = _BLANK.evolve(messages=Vec(), ids=Ranked[str]()) if state is None else state
    for event in events:
        folded = apply(folded, event)
    return folded


def _ignored(state: RunState, event: Event) -> RunState:
    return state.evolve(position=state.position + 1, ignored=state.ignored + 1, at=event.at)


def _clocked(before: RunState, after: RunState, event: Event) -> RunState:
    """Position, instant, epoch and driving time; only the driver's own events count as driving."""
    changes: dict[str, object] = {"position": before.position + 1, "at": event.at}
    if not before.position:
        changes |= {
            "run_id": event.run_id,
            "tenant_id": event.tenant_id,
            "session_id": event.session_id,
        }
    if event.epoch and event.epoch >= before.epoch:
        since = after.driven_at
        if since is not None and not isinstance(event.payload, RunClaimed):
            changes["driven"] = after.driven + (event.at - since)
        changes |= {"epoch": event.epoch, "driven_at": event.at}
    if after is before:
        return before.evolve(**changes)
    after.__dict__.update(changes)  # made by `evolve` just now: nobody else holds it
    return after
