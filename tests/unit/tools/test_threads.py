"""Threads that take what blocks."""

import asyncio
import threading

import pytest

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.ports import STILL_RUNNING, ToolError
from loom_ia.tools import threads
from loom_ia.tools.threads import NeverStartedError, Pool, Raised, Returned, ThreadsExhaustedError


async def blocked(pool: Pool, gate: threading.Event, late=None) -> asyncio.Task[object]:
    """Task whose function runs in a thread of the pool until the gate opens."""
    started, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait() -> str:
        loop.call_soon_threadsafe(started.set)
        gate.wait(10)
        return "done"

    task = asyncio.ensure_future(pool.run(wait, late))
    await started.wait()
    return task


async def leave(task: asyncio.Task[object]) -> tuple[object, ...]:
    """Cancel a call; what its cancellation says."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    return cancelled.value.args


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - a thread changes it
            await asyncio.sleep(0)


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


async def test_a_result_and_an_exception_come_back():
    pool = Pool()
    assert await pool.run(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)


async def test_no_thread_starts_before_it_is_needed_and_one_serves_many_calls():
    pool = Pool()
    assert pool.threads == 0
    for _ in range(20):
        await pool.run(lambda: None)
    assert pool.threads == 1


async def test_calls_run_at_the_same_time_up_to_the_size():
    pool, barrier = Pool(size=3), threading.Barrier(3)
    await asyncio.gather(*(pool.run(lambda: barrier.wait(5)) for _ in range(3)))
    await asyncio.gather(*(pool.run(lambda: None) for _ in range(20)))
    assert pool.threads == 3


async def test_threads_do_not_keep_the_process_alive():
    assert await Pool().run(lambda: threading.current_thread().daemon)


async def test_a_caller_that_leaves_is_free_at_once_and_its_thread_leaves_the_pool(gate):
    pool = Pool()
    task = await blocked(pool, gate)
    assert await leave(task) == (STILL_RUNNING,)
    assert (pool.threads, pool.abandoned) == (0, 1)
    assert await pool.run(lambda: "another") == "another"
    gate.set()
    await until(lambda: pool.abandoned == 0)
    assert pool.threads == 1


async def test_calls_that_wait_get_a_thread_when_one_is_abandoned(gate):
    pool = Pool(size=1)
    stuck = await blocked(pool, gate)
    waiting = asyncio.ensure_future(pool.run(lambda: "went on"))
    await asyncio.sleep(0)
    await leave(stuck)
    assert await waiting == "went on"


async def test_what_comes_late_is_told_on_the_loop(gate):
    told: asyncio.Future[object] = asyncio.Future()
    task = await blocked(Pool(), gate, told.set_result)
    await leave(task)
    gate.set()
    assert await told == Returned("done")


async def test_a_call_that_had_not_started_never_starts_and_this_is_told(gate):
    pool, ran = Pool(size=1), []
    told: asyncio.Future[object] = asyncio.Future()
    stuck = await blocked(pool, gate)
    waiting = asyncio.ensure_future(pool.run(lambda: ran.append(1), told.set_result))
    await asyncio.sleep(0)
    assert await leave(waiting) == ()
    outcome = await told
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, NeverStartedError)
    gate.set()
    await stuck
    await pool.run(lambda: None)
    assert ran == []


async def test_a_result_that_arrives_with_the_cancellation_is_told(monkeypatch):
    told: asyncio.Future[object] = asyncio.Future()
    settle = threads._Job.settle

    def settle_then_cancel(job, outcome) -> None:
        settle(job, outcome)
        task.cancel()

    monkeypatch.setattr(threads._Job, "settle", settle_then_cancel)
    task = asyncio.ensure_future(Pool().run(lambda: "done", told.set_result))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await told == Returned("done")


async def test_beyond_the_limit_of_abandoned_threads_a_call_is_refused_as_not_made(gate):
    pool = Pool(most_abandoned=2)
    for _ in range(3):
        await leave(await blocked(pool, gate))
    with pytest.raises(ThreadsExhaustedError, match="3 calls of synchronous") as caught:
        await pool.run(lambda: None)
    assert isinstance(caught.value, LoomError)
    assert isinstance(caught.value, ToolError)
    assert caught.value.kind is Kind.UNAVAILABLE
    gate.set()
    await until(lambda: pool.abandoned == 0)
    assert await pool.run(lambda: 1) == 1


def test_a_loop_that_is_gone_is_no_error_for_the_thread():
    pool, gate = Pool(), threading.Event()

    async def start() -> None:
        await leave(await blocked(pool, gate, lambda _: None))

    asyncio.run(start())
    gate.set()
    assert asyncio.run(pool.run(lambda: "next loop")) == "next loop"


async def test_a_thousand_calls_at_once_all_come_back():
    pool = Pool(size=8)
    results = await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(1000)))
    assert results == list(range(1000))
    assert pool.threads <= 8
