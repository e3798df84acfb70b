"""Whether an append may be made, by kind of fact, over every situation of a run."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from loom_ia.core.errors import (
    EpochStaleError,
    JournalMovedError,
    RunExistsError,
    RunNotFoundError,
    RunStoppedError,
    SessionBusyError,
)
from loom_ia.core.fencing import judge
from loom_ia.core.ports import Append, Fence, Guard, RunRef
from loom_ia.core.projections.index import RunEntry

T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
ENTRY = RunEntry(
    run_id="r",
    root_id="r",
    tenant_id="t",
    session_id="s",
    started_at=T0,
    updated_at=T0,
    position=5,
    epoch=2,
)
CHILD = ENTRY.evolve(run_id="c", position=3, epoch=0)


def verdict(fence, entry=ENTRY, root=ENTRY, others=(), *, idle=False):
    """Class of what refuses the write; None when it may be made."""
    ref = RunRef("t", "s", "r", "r")
    write = Append(ref, [], fence, guard=Guard(session_idle=True) if idle else None)
    try:
        judge(write, entry, root, others, T0)
    except Exception as error:  # noqa: BLE001  the class is what is compared
        return type(error)
    return None


@pytest.mark.parametrize(
    ("moved", "stale", "ended", "cancelled"), list(product((False, True), repeat=4))
)
def test_each_kind_of_fact_is_judged_by_its_own_rule(moved, stale, ended, cancelled):
    entry = ENTRY.evolve(ended="completed" if ended else None, cancel_requested=cancelled)
    at = {"position": 4 if moved else 5, "epoch": 1 if stale else 2}
    late = EpochStaleError if stale else JournalMovedError if moved else None
    stopped = RunStoppedError if ended or cancelled else None
    assert verdict(Fence("plan", **at), entry, entry) is (late or stopped)
    only_ended = RunStoppedError if ended else None
    assert verdict(Fence("plan", **at, stop=True), entry, entry) is (late or only_ended)
    assert verdict(Fence("outcome", **at), entry, entry) is (late or only_ended)
    assert verdict(Fence("decision", **at), entry, entry) is (JournalMovedError if moved else None)
    assert verdict(Fence("report", **at), entry, entry) is None


@pytest.mark.parametrize("change", [{"ended": "cancelled"}, {"cancel_requested": True}])
def test_a_child_plans_nothing_once_its_root_is_stopped(change):
    root = ENTRY.evolve(**change)
    assert verdict(Fence("plan", 3, 2), CHILD, ENTRY) is None
    assert verdict(Fence("plan", 3, 2), CHILD, root) is RunStoppedError
    assert verdict(Fence("outcome", 3, 2), CHILD, root) is None
    assert verdict(Fence("outcome", 3, 1), CHILD, root) is EpochStaleError


def test_a_run_starts_once_and_is_written_to_once_it_started():
    assert verdict(Fence("start")) is RunExistsError
    assert verdict(Fence("start"), None, None) is None
    for kind in ("plan", "outcome", "decision", "report"):
        assert verdict(Fence(kind), None, None) is RunNotFoundError


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("change", "busy"),
    [
        ({}, True),
        ({"lease_until": T0 + HOUR}, True),
        ({"lease_until": T0 + HOUR, "waiting": True}, True),
        ({"lease_until": T0}, False),
        ({"waiting": True}, False),
        ({"ended": "failed"}, False),
    ],
)
def test_a_session_is_busy_while_a_run_of_it_is_queued_or_driven(change, busy):
    other = ENTRY.evolve(run_id="o", root_id="o", **change)
    start = Fence("start")
    expected = SessionBusyError if busy else None
    assert verdict(start, None, None, [other], idle=True) is expected
    assert verdict(start, None, None, [other]) is None
    assert verdict(Fence("decision", 5), others=[other], idle=True) is expected
