"""What stands in the way of a run in the background: waited for, tried again, or said."""

import asyncio

import pytest

from loom_ia.core.errors import (
    RunHeldError,
    SessionBusyError,
    StoreUnavailableError,
    UnknownEventError,
)
from loom_ia.core.ports import RunRef
from loom_ia.core.state import RunState
from loom_ia.runtime.jobs import PARKED, TRIES, Jobs
from loom_ia.testing import ManualClock

REF = RunRef("t", "s", "r", "r")
DOWN = StoreUnavailableError(path="data", reason="en panne")
BUSY = SessionBusyError(session_id="s", run_id="q")


class Way:
    """Raises what it is given, one after the other, then lets the run pass."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tried = 0

    async def advance(self, ref: RunRef) -> RunState:
        self.tried += 1
        if self.errors:
            raise self.errors.pop(0)
        return RunState(run_id=ref.run_id)


async def elapsed(jobs: Jobs, clock: ManualClock) -> float:
    """Let time pass until nothing is queued; the seconds that it took."""
    drained = asyncio.ensure_future(jobs.drain(None))
    while True:
        for _ in range(20):
            await asyncio.sleep(0)
        if drained.done():
            return clock.monotonic()
        clock.advance(0.05)


@pytest.mark.parametrize(
    ("errors", "seconds"),
    [([], 0), ([DOWN], 1), ([DOWN, DOWN, DOWN], 7), ([BUSY] * 10, 6), ([BUSY, DOWN, BUSY], 1)],
)
async def test_what_passes_is_waited_for_a_longer_time_at_each_try(
    errors: list[Exception], seconds: float
) -> None:
    way, clock = Way(*errors), ManualClock()
    jobs = Jobs(way.advance, clock, 2)
    assert jobs.put(REF)
    assert not jobs.put(REF), "it is queued already"
    assert seconds <= await elapsed(jobs, clock) < seconds + 1.2
    assert way.tried == len(errors) + 1
    assert jobs.parked == {}


@pytest.mark.parametrize(
    ("errors", "tried"),
    [
        ([DOWN] * 50, TRIES),
        ([UnknownEventError(run_id="r", type="x")], 1),
        ([ZeroDivisionError("0")], 1),
    ],
)
async def test_what_does_not_pass_is_parked_said_and_tried_much_later(
    errors: list[Exception], tried: int
) -> None:
    way, clock = Way(*errors), ManualClock()
    jobs = Jobs(way.advance, clock, 2)
    jobs.put(REF)
    await elapsed(jobs, clock)
    assert way.tried == tried
    assert "r" in jobs.parked
    assert str(jobs.parked["r"])
    assert not jobs.put(REF, asked=False)
    way.errors.clear()
    clock.advance(PARKED)
    assert jobs.put(REF, asked=False)
    await elapsed(jobs, clock)
    assert jobs.parked == {}


async def test_what_another_process_drives_is_left_to_it() -> None:
    way, clock = Way(RunHeldError(run_id="r", holder="b:1", until="x")), ManualClock()
    jobs = Jobs(way.advance, clock, 2)
    jobs.put(REF)
    await elapsed(jobs, clock)
    assert (way.tried, jobs.parked) == (1, {})


async def test_once_stopped_nothing_begins_and_nothing_is_tried_again() -> None:
    way, clock = Way(*[DOWN] * 3), ManualClock()
    jobs = Jobs(way.advance, clock, 1)
    jobs.put(REF)
    await clock.until_sleeping()
    jobs.stop()
    await jobs.close()
    assert not jobs.put(REF)
    assert way.tried == 1
