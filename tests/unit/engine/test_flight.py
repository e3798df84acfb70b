"""What is in flight is cut by a halt, and by nothing else."""

import asyncio

import pytest

from loom_ia.engine.flight import Flight, HaltedError


async def started(flight, work):
    task = asyncio.get_running_loop().create_task(flight.stoppable(work))
    await asyncio.sleep(0)
    return task


async def test_a_halt_cuts_the_work_and_the_task_goes_on():
    flight, forever = Flight(), asyncio.Event()

    async def caller():
        with pytest.raises(HaltedError):
            await flight.stoppable(forever.wait)
        await asyncio.sleep(0)
        return asyncio.current_task().cancelling()

    task = asyncio.get_running_loop().create_task(caller())
    await asyncio.sleep(0)
    flight.halt("timeout")
    flight.halt("cancelled")
    assert await task == 0
    assert flight.reason == "timeout"


async def test_work_does_not_start_once_halted():
    flight, ran = Flight(), []

    async def work():
        ran.append(1)

    flight.halt("cancelled")
    with pytest.raises(HaltedError):
        await flight.stoppable(work)
    assert not ran


async def test_a_cancellation_of_the_task_is_not_taken_for_a_halt():
    flight = Flight()
    task = await started(flight, asyncio.Event().wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_comes_with_a_halt_is_kept():
    flight = Flight()
    task = await started(flight, asyncio.Event().wait)
    flight.halt("cancelled")
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_halts_its_own_flight_and_ends_is_not_cut():
    flight = Flight()

    async def work():
        flight.halt("cancelled")
        return "done"

    async def caller():
        result = await flight.stoppable(work)
        await asyncio.sleep(0)
        return result, asyncio.current_task().cancelling()

    assert await asyncio.get_running_loop().create_task(caller()) == ("done", 0)


async def test_work_that_keeps_its_cut_to_itself_gives_its_result():
    flight, forever = Flight(), asyncio.Event()

    async def work():
        try:
            await forever.wait()
        except asyncio.CancelledError:
            return "late"

    async def caller():
        result = await flight.stoppable(work)
        return result, asyncio.current_task().cancelling()

    task = asyncio.get_running_loop().create_task(caller())
    await asyncio.sleep(0)
    flight.halt("cancelled")
    assert await task == ("late", 0)
