"""A clock that obeys, and identifiers known in advance."""

import asyncio
import uuid

from loom_ia.testing import ManualClock, ManualIds


async def test_a_sleeper_wakes_when_its_time_has_come():
    clock, woken = ManualClock(), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.ensure_future(sleep(seconds)) for seconds in (3, 1, 2)]
    await clock.until_sleeping(3)
    clock.advance(2)
    await asyncio.gather(*tasks[1:])
    assert woken == [1, 2]
    assert (clock.monotonic(), clock.sleeping) == (2, 1)
    clock.advance(1)
    await tasks[0]


async def test_a_sleeper_that_is_cancelled_is_forgotten():
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(1))
    await clock.until_sleeping()
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleeping == 0
    clock.advance(1)


async def test_no_time_to_sleep_is_no_wait():
    await ManualClock().sleep(0)


def test_identifiers_are_the_same_each_time_and_grow():
    first, second = ManualIds(), ManualIds()
    made = [first.new() for _ in range(300)]
    assert made == [second.new() for _ in range(300)] == sorted(made)
    assert uuid.UUID(made[0]).version == 7
