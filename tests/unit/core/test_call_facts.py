"""Which fact may follow in which status of a call; the others are ignored and change nothing."""

import pytest

from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalSettled,
    CannotApplyError,
    Payload,
    Principal,
    ToolAbandoned,
    ToolSettled,
    ToolUnknown,
)
from loom_ia.core.state import Call, RunState

BY = Principal(id="cli:dupont")
STATUSES = ("asked", "held", "granted", "started", "unknown", "waiting", "settled")
ALLOWED: list[tuple[Payload, set[str]]] = [
    (ApprovalGranted(call_id="c", by=BY), {"held"}),
    (ApprovalRejected(call_id="c", by=BY, text="non"), {"held"}),
    (ApprovalSettled(call_id="c", by=BY, happened=True, text="oui"), {"held"}),
    (ApprovalExpired(call_id="c", text="trop tard"), {"held"}),
    (ToolUnknown(call_id="c", reason="timeout"), {"started"}),
    (ToolSettled(call_id="c", sent=False), {"unknown", "started"}),
    (ToolAbandoned(call_id="c", text="inconnu"), {"unknown", "started", "granted"}),
]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(("fact", "allowed"), ALLOWED, ids=lambda value: getattr(value, "type", ""))
def test_a_fact_follows_only_in_its_statuses(fact: Payload, allowed: set[str], status: str):
    call = Call("c", 0, "envoyer", {}, status=status)
    state = RunState(run_id="r", calls=(call,))
    if status in allowed:
        assert fact.evolve(state).calls != state.calls
    else:
        with pytest.raises(CannotApplyError):
            fact.evolve(state)
