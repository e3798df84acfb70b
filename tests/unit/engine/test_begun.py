"""A coroutine begun at once is as one started by its loop, but for the waiting."""

import asyncio
from contextvars import ContextVar

import pytest

from loom_ia.engine.begun import Begun

mark = ContextVar("mark", default="outside")


async def test_what_answers_at_once_waits_for_no_turn_of_the_loop():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)

    async def work():
        return "done"

    begun = Begun(work())
    task = begun.begin()
    assert (begun.ended, begun.result(), turns) == (True, "done", [])
    await asyncio.wait({task})
    assert task.result() is None


async def test_what_fails_at_once_says_so_to_who_began_it_only():
    async def work():
        return int("no")

    begun = Begun(work())
    task = begun.begin()
    with pytest.raises(ValueError, match="invalid literal"):
        begun.result()
    await asyncio.wait({task})
    assert task.exception() is None


async def test_the_first_step_sees_the_task_that_takes_the_others():
    outer, seen = asyncio.current_task(), []

    async def work():
        mark.set("inside")
        for _ in range(2):
            seen.append((asyncio.current_task(), mark.get()))
            await asyncio.sleep(0)
        return "done"

    begun = Begun(work())
    task = begun.begin()
    assert (begun.ended, asyncio.current_task(), mark.get()) == (False, outer, "outside")
    assert await task == "done"
    assert seen == [(task, "inside")] * 2


async def test_a_deadline_set_in_the_first_step_holds():
    async def work():
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await Begun(work()).begin()


async def test_a_group_of_tasks_opened_in_the_first_step_is_awaited():
    done = []

    async def part(number):
        await asyncio.sleep(0)
        done.append(number)

    async def work():
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(part(number))
        return sorted(done)

    assert await Begun(work()).begin() == [0, 1, 2]


async def test_it_can_be_cancelled_before_its_loop_has_seen_it():
    cleaned = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    task = Begun(work()).begin()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [1]


async def test_what_is_waited_for_may_have_come_before_the_loop_turns():
    future = asyncio.get_running_loop().create_future()

    async def work():
        return await future

    task = Begun(work()).begin()
    future.set_result("early")
    assert await task == "early"


async def test_one_can_be_begun_inside_another():
    async def inner():
        return asyncio.current_task()

    async def work():
        own, begun = asyncio.current_task(), Begun(inner())
        begun.begin()
        return own is asyncio.current_task() is not begun.result()

    begun = Begun(work())
    begun.begin()
    assert begun.result()
