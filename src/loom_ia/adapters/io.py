"""Where a store does its jobs: what is brief in place, the rest in threads, syncs together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, Protocol, TypeVar, cast

from loom_ia.core.errors import StoreUnavailableError

logger = logging.getLogger("loom_ia.io")

T = TypeVar("T")

BATCH = 64
"""Jobs done at most before their callers are answered."""
WAIT = 10.0
"""Seconds that a job may wait for what another process holds."""
HASTE = 65_536
"""Bytes that a job done in place reads or writes at most."""
SLOW = 0.02
"""Seconds after which a job done in place was too long: the next ones go to their thread."""
REST = 1.0
"""Seconds during which they do."""
_PAUSES = (0.0001, 0.005)
_END = object()


class UnhurriedError(Exception):
    """Raised by a job done in place that is not brief, before it changes anything."""


class BlockedError(Exception):
    """Raised by a job that another process keeps from starting: it is tried again later."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__()
        self.refusal = refusal
        """What the caller gets once it has waited too long."""


class Sync(Protocol):
    """What puts a write on the disk, from any thread."""

    def flush(self) -> None: ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


@dataclass(slots=True)
class Synced(Generic[T]):
    """A result that counts once it is on the disk; results of the same key share one sync."""

    value: T
    key: Hashable
    sync: Sync


class Transaction(Protocol):
    """What several jobs write at once."""

    def commit(self) -> None:
        """Write it; a failure is that of each of its jobs."""
        ...


@dataclass(slots=True)
class Written(Generic[T]):
    """A result that counts once its transaction is committed."""

    value: T | Synced[T]
    transaction: Transaction


Result = T | Synced[T] | Written[T]


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
    deadline: float = 0.0

    def settle(self) -> None:
        if self.error is None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(self.error)
            self.error = None  # the traceback would hold the job that holds it


_Group = list[tuple[_Job, Synced[object]]]


class Lane:
    """Does jobs one at a time, in one daemon thread or in place, in the order of their calls.

    Syncs are done by `syncers` other threads, so that those of several files overlap. Threads start
    when they are needed.
    """

    def __init__(self, name: str, *, syncers: int = 0) -> None:
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._busy = Lock()
        """Held by whoever does jobs."""
        self._due: dict[Hashable, _Group] = {}
        self._syncing: set[Hashable] = set()
        self._gate = Lock()
        self._keys: SimpleQueue[Hashable] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=name, daemon=True)]
        self._threads += [
            Thread(target=self._sync, name=f"{name}-sync", daemon=True) for _ in range(syncers)
        ]
        self._used = self._started = self._closed = False
        self._late: list[_Job] = []
        self._rested = 0.0

    async def call(
        self, run: Callable[[], Result[T]], here: Callable[[], Result[T]] | None = None
    ) -> T:
        """Result of `run`, done in the thread. Once called, it is done whatever happens here.

        `here` does the same in place, or raises UnhurriedError: it is tried first, unless another
        job is being done or waits.

        Raises:
            StoreUnavailableError: the lane is closed.

        """
        if self._closed:
            raise StoreUnavailableError(path=self._name, reason="closed")
        self._used = True
        done = None if here is None else self._in_place(here)
        if done is not None and not isinstance(done[0], Synced):
            return done[0]
        loop = asyncio.get_running_loop()
        answer: _Answer[T] = _Answer(loop=loop)
        job = _Job(run, answer, loop)  # pyright: ignore[reportArgumentType]
        if done is None:
            self._queue.put(job)
        else:
            self._defer(job, cast("Synced[object]", done[0]))
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        return await answer

    def _in_place(self, run: Callable[[], Result[T]]) -> tuple[T | Synced[T]] | None:
        """The result of a job done at once; None for one that is not."""
        start = time.monotonic()
        if (
            start < self._rested
            or not self._queue.empty()
            or not self._busy.acquire(blocking=False)
        ):
            return None
        try:
            return (_settled(run()),)
        except (BlockedError, UnhurriedError):
            return None
        finally:
            self._busy.release()
            end = time.monotonic()
            if end - start > SLOW:
                self._rested = end + REST

    def _defer(self, job: _Job, synced: Synced[object]) -> None:
        """Have a sync done, by the one that is already due if there is one."""
        with self._gate:
            group = self._due.get(synced.key)
            if group is None:
                self._due[synced.key] = [(job, synced)]
                if synced.key not in self._syncing:
                    self._keys.put(synced.key)
            else:
                group.append((job, synced))

    async def aclose(self, last: Callable[[], None]) -> None:
        """Do what is queued, then `last`, then end the threads."""
        if self._used and not self._closed:
            await self.call(last)
            self._queue.put(None)
        self._closed = True

    def _work(self) -> None:
        pause, longest = _PAUSES
        while True:
            first = self._first(pause if self._late else None)
            pause = min(pause * 2, longest) if self._late else _PAUSES[0]
            with self._busy:
                batch = [*self._late, *first, *self._rest(BATCH - len(first))]
                self._late = []
                self._perform([job for job in batch if job is not None])
            if None in batch and not self._late:
                break
            if None in batch:
                self._queue.put(None)
        for _ in self._threads[1:]:
            self._keys.put(_END)

    def _first(self, timeout: float | None) -> list[_Job | None]:
        try:
            return [self._queue.get(timeout=timeout)]
        except Empty:
            return []

    def _rest(self, most: int) -> list[_Job | None]:
        """What waits behind the first one; the end is the last thing that ever does."""
        batch: list[_Job | None] = []
        try:
            while len(batch) < most:
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _perform(self, jobs: Sequence[_Job]) -> None:
        done: list[_Job] = []
        opened: dict[int, tuple[Transaction, list[_Job]]] = {}
        for job in jobs:
            try:
                result = job.run()
            except BlockedError as error:
                if self._waits(job):
                    self._late.append(job)
                    continue
                job.error = error.refusal
            except BaseException as error:  # noqa: BLE001  it is the caller's, who waits elsewhere
                job.error = error
            else:
                if isinstance(result, Written):
                    written = cast("Written[object]", result)
                    job.result = written.value
                    opened.setdefault(id(written.transaction), (written.transaction, []))[1].append(
                        job
                    )
                    continue
                job.result = result
            done.append(job)
        for transaction, mine in opened.values():
            _commit(transaction, mine)
            done += mine
        _answer([job for job in done if not self._deferred(job)])

    def _deferred(self, job: _Job) -> bool:
        """True for a job that now waits for the disk."""
        result = job.result
        if job.error is not None or not isinstance(result, Synced):
            return False
        self._defer(job, cast("Synced[object]", result))
        return True

    def _waits(self, job: _Job) -> bool:
        now = time.monotonic()
        job.deadline = job.deadline or now + WAIT
        return now < job.deadline

    def _sync(self) -> None:
        while (key := self._keys.get()) is not _END:
            while group := self._taken(key):
                _flush(group)

    def _taken(self, key: Hashable) -> _Group | None:
        """What waits for a sync of one file, which one thread does at a time so that it is shared.

        None once nothing does: the file is then left to any thread.
        """
        with self._gate:
            group = self._due.pop(key, None)
            if group is None:
                self._syncing.discard(key)
            else:
                self._syncing.add(key)
            return group


def _settled(result: Result[T]) -> T | Synced[T]:
    """What a job gives once its transaction, which is its own, is committed."""
    if not isinstance(result, Written):
        return result
    written = cast("Written[T]", result)
    written.transaction.commit()
    return written.value


def _commit(transaction: Transaction, jobs: Sequence[_Job]) -> None:
    try:
        transaction.commit()
    except BaseException as error:  # noqa: BLE001  each caller gets it
        for job in jobs:
            job.error = error


def _flush(group: _Group) -> None:
    """Put on the disk, once, what the jobs of a group wrote to the same file."""
    failure: BaseException | None = None
    try:
        group[-1][1].sync.flush()
    except BaseException as error:  # noqa: BLE001  each caller gets it
        failure = error
    for job, synced in group:
        synced.sync.close()
        job.result, job.error = synced.value, failure
    _answer([job for job, _ in group])


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
