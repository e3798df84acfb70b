"""Threads that do what would block the event loop, one queue each, with grouped syncs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar, cast

from loom_ia.core.errors import StoreUnavailableError

logger = logging.getLogger("loom_ia.io")

T = TypeVar("T")

BATCH = 64
"""Jobs done at most before their callers are answered."""


@dataclass(slots=True)
class Synced(Generic[T]):
    """A result that counts once `flush` has returned; jobs with the same key share one flush."""

    value: T
    key: Hashable
    flush: Callable[[], None]


class _Answer(asyncio.Future[T]):
    """A future that waits for its answer even when its task is cancelled.

    The task then raises CancelledError at this await, once the job is done.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002
        return False


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[], object]
    answer: asyncio.Future[object]
    loop: asyncio.AbstractEventLoop
    result: object = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.error is None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(self.error)
            self.error = None  # the traceback would hold the job that holds it


class Lane:
    """One daemon thread, started by its first job, which does jobs in the order of their calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._closed = False

    async def call(self, run: Callable[[], T | Synced[T]]) -> T:
        """Result of `run`, done in the thread. Once called, it is done whatever happens here.

        Raises:
            StoreUnavailableError: the lane is closed.

        """
        if self._closed:
            raise StoreUnavailableError(path=self._name, reason="closed")
        loop = asyncio.get_running_loop()
        answer: _Answer[T] = _Answer(loop=loop)
        self._queue.put(_Job(run, answer, loop))  # pyright: ignore[reportArgumentType]
        if self._thread is None:
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return await answer

    async def aclose(self, last: Callable[[], None]) -> None:
        """Do what is queued, then `last`, then end the thread."""
        if self._thread is not None and not self._closed:
            await self.call(last)
            self._queue.put(None)
        self._closed = True

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            try:
                while len(batch) < BATCH:
                    batch.append(self._queue.get_nowait())
            except Empty:
                pass
            _perform([job for job in batch if job is not None])
            if None in batch:
                return


def _perform(jobs: Sequence[_Job]) -> None:
    done: list[_Job] = []
    unsynced: dict[Hashable, list[tuple[_Job, Synced[object]]]] = {}
    for job in jobs:
        try:
            result = job.run()
        except BaseException as error:  # noqa: BLE001  it is the caller's, who waits elsewhere
            job.error = error
            done.append(job)
            continue
        if isinstance(result, Synced):
            synced = cast("Synced[object]", result)
            unsynced.setdefault(synced.key, []).append((job, synced))
        else:
            job.result = result
            done.append(job)
    _answer(done)
    for group in unsynced.values():
        _sync(group)
    if unsynced:
        _answer([job for group in unsynced.values() for job, _ in group])


def _sync(group: Sequence[tuple[_Job, Synced[object]]]) -> None:
    try:
        group[-1][1].flush()
    except BaseException as error:  # noqa: BLE001  each caller gets it
        for job, _ in group:
            job.error = error
        return
    for job, synced in group:
        job.result = synced.value


def _answer(jobs: Sequence[_Job]) -> None:
    """Wake each event loop once for all of its jobs."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            logger.warning("%d operations ended after their event loop", len(mine))


def _settle(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.settle()
