"""What a person says of calls of unknown outcome that no longer wait for anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom_ia.core.events import ApprovalSettled, Event
from loom_ia.core.wording import say
from loom_ia.runtime.errors import AlreadyDecidedError

if TYPE_CHECKING:
    from loom_ia.core.state import RunState
    from loom_ia.runtime.decisions import Decision


def doubtful(state: RunState, decision: Decision) -> Sequence[str]:
    """Calls that a decision settles though nobody was asked about them, or no longer is.

    Those of a run that goes on are the ones that its model was told of: the others are its
    driver's, which records them first.
    """
    calls = state.doubts if state.ending is None else state.unsettled
    return [call for call in calls if decision.call in {None, call}]


def settlement(
    call: str, decision: Decision, state: RunState, *, happened: bool
) -> ApprovalSettled:
    """What is recorded of a call."""
    language = state.started.language if state.started else "fr"
    key = "happened" if happened else "did_not_happen"
    return ApprovalSettled(
        call_id=call,
        by=decision.by,
        on_behalf_of=decision.on_behalf_of,
        reason=decision.reason,
        happened=happened,
        text=say(language, key, reason=decision.reason).strip(),
    )


def settled_before(events: Sequence[Event], decision: Decision) -> bool:
    """True when the same was already said of the call.

    Raises:
        AlreadyDecidedError: somebody said the opposite, or let it leave once more since.

    """
    for event in reversed(events):
        payload = event.payload
        if not isinstance(payload, ApprovalSettled) or decision.call not in {None, payload.call_id}:
            continue
        if payload.happened == decision.happened:
            return True
        at = event.at.isoformat(timespec="seconds")
        raise AlreadyDecidedError(
            run_id=event.run_id, call=payload.call_id, by=payload.by.id, decision=event.type, at=at
        )
    return False
