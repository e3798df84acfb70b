"""Runs functions that block in daemon threads; one that does not come back leaves its pool."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import cache
from queue import SimpleQueue
from typing import Generic, Literal, TypeVar

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.ports import STILL_RUNNING, ToolError

T = TypeVar("T")

SIZE = 64
MOST_ABANDONED = 32


class ThreadsExhaustedError(LoomError, ToolError):
    """Too many threads did not come back; the call did not leave."""

    kind = Kind.UNAVAILABLE
    template = (
        "{count} calls of synchronous functions were given up and still hold their thread; "
        "no other starts until some of them return"
    )


class NeverStartedError(ToolError):
    """The caller left before a thread was free: the function did not run."""


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """What a function gave."""

    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """Why a function gave nothing."""

    error: Exception


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    function: Callable[[], T]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Returned[T] | Raised]
    late: Callable[[Returned[T] | Raised], None] | None
    state: Literal["queued", "running", "abandoned", "over"] = "queued"

    def perform(self) -> Returned[T] | Raised:
        """Outcome of the function; what would end a loop if it got there is made an error."""
        try:
            return Returned(self.context.run(self.function))
        except StopIteration as error:
            return Raised(_wrapped(error))
        except Exception as error:  # noqa: BLE001 - the border where tools end
            return Raised(error)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a tool ends the tool only
            return Raised(_wrapped(error))

    def deliver(self, outcome: Returned[T] | Raised) -> None:
        """Bring the outcome to the loop; a closed loop has nobody left to tell."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.settle, outcome)

    def settle(self, outcome: Returned[T] | Raised) -> None:
        """Give the outcome to who waits, or to `late` if they left."""
        if not self.future.done():
            self.future.set_result(outcome)
        elif self.late is not None:
            self.late(outcome)


def _wrapped(error: BaseException) -> RuntimeError:
    wrapped = RuntimeError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


@dataclass(slots=True, eq=False)
class _Counts:
    """What a pool knows of its threads; `busy` are those of the pool that run a function."""

    pid: int = field(default_factory=os.getpid)
    threads: int = 0
    busy: int = 0
    queued: int = 0
    abandoned: int = 0


class Pool:
    """Daemon threads, started when they are needed; nobody has to close it."""

    def __init__(
        self, name: str = "loom-tool", *, size: int = SIZE, most_abandoned: int = MOST_ABANDONED
    ) -> None:
        self._name, self._size, self._most = name, size, most_abandoned
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Job[object]] = SimpleQueue()
        self._counts = _Counts()

    @property
    def threads(self) -> int:
        """Threads that can take work."""
        return self._counts.threads

    @property
    def abandoned(self) -> int:
        """Threads whose caller left before they came back."""
        return self._counts.abandoned

    async def run(
        self,
        function: Callable[[], object],
        late: Callable[[Returned[object] | Raised], None] | None = None,
    ) -> object:
        """Result of the function, run in a thread under a copy of the caller's context.

        When the caller is cancelled the thread is abandoned at once, which the cancellation says
        (`STILL_RUNNING`) if the function runs. What it gives afterwards goes to `late`, called on
        the loop; a function that had not started never does, and `late` is told so.

        Raises:
            ThreadsExhaustedError: too many threads are abandoned.

        """
        loop = asyncio.get_running_loop()
        job = _Job(function, copy_context(), loop, loop.create_future(), late)
        self._submit(job)
        try:
            outcome = await job.future
        except asyncio.CancelledError:
            if self._abandon(job):
                raise asyncio.CancelledError(STILL_RUNNING) from None
            raise
        if isinstance(outcome, Raised):
            raise outcome.error
        return outcome.value

    def _submit(self, job: _Job[object]) -> None:
        if self._counts.pid != os.getpid():  # a fork has the counts but not the threads
            self._reset()
        with self._lock:
            if self._counts.abandoned > self._most:
                raise ThreadsExhaustedError(count=self._counts.abandoned)
            self._counts.queued += 1
            self._grow()
        self._queue.put(job)

    def _grow(self) -> None:
        counts = self._counts
        if counts.queued > counts.threads - counts.busy and counts.threads < self._size:
            counts.threads += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _abandon(self, job: _Job[object]) -> bool:
        """Leave a job; True when its function goes on."""
        counts, outcome = self._counts, None
        with self._lock:
            if job.state == "queued":
                job.state, outcome = "over", Raised(NeverStartedError("never started"))
            elif job.state == "running":
                job.state = "abandoned"
                counts.busy -= 1
                counts.threads -= 1
                counts.abandoned += 1
                self._grow()
        if job.future.done() and not job.future.cancelled():
            outcome = job.future.result()
        if job.late is not None and outcome is not None:
            job.loop.call_soon(job.late, outcome)
        return outcome is None

    def _work(self) -> None:
        queue = self._queue
        while True:
            job = queue.get()
            if not self._begin(job):
                continue
            outcome = job.perform()
            kept = self._end(job)
            job.deliver(outcome)
            del job, outcome  # an idle thread keeps nothing alive
            if not kept:
                return

    def _begin(self, job: _Job[object]) -> bool:
        with self._lock:
            self._counts.queued -= 1
            if job.state != "queued":
                return False
            job.state = "running"
            self._counts.busy += 1
            return True

    def _end(self, job: _Job[object]) -> bool:
        with self._lock:
            kept = job.state == "running"
            job.state = "over"
            if kept:
                self._counts.busy -= 1
            else:
                self._counts.abandoned -= 1
            return kept


@cache
def shared() -> Pool:
    """The pool of this process's synchronous tools."""
    return Pool()
