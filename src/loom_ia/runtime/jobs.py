"""Runs driven in the background: so many at a time, tried again when something is in the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loom_ia.core.errors import (
    Kind,
    LoomError,
    RunHeldError,
    RunNotFoundError,
    SessionBusyError,
    SessionErasedError,
)
from loom_ia.core.ports import Clock, RunRef
from loom_ia.core.state import RunState

logger = logging.getLogger("loom_ia.runtime")

FIRST_DELAY = 1.0
"""Seconds before the second try; each delay doubles the one before."""
TRIES = 6
TURN = (0.05, 1.0)
"""Seconds between two looks at a busy session: the first, doubled up to the second."""
PARKED = 900.0
"""Seconds after which a parked run may be taken up again."""

Advance = Callable[[RunRef], Awaitable[RunState]]


@dataclass(frozen=True, slots=True)
class Parked:
    """A run that this process tried in vain to drive."""

    error: LoomError
    at: float
    """Monotonic instant."""


class Jobs:
    """Runs that this process drives for nobody who waits, in the order in which they came."""

    def __init__(self, advance: Advance, clock: Clock, limit: int) -> None:
        self._advance, self._clock = advance, clock
        self._room = asyncio.Semaphore(limit)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._driving: set[str] = set()
        self._parked: dict[str, Parked] = {}
        self._stopped = False

    @property
    def parked(self) -> dict[str, LoomError]:
        """Runs that could not be driven, and why; each is tried again later."""
        return {run_id: parked.error for run_id, parked in self._parked.items()}

    def put(self, ref: RunRef, *, asked: bool = True) -> bool:
        """Queue a run; False when it is queued already, or no more runs are taken.

        `asked`: even one that was parked a short time ago.
        """
        parked = self._parked.get(ref.run_id)
        fresh = parked is not None and self._clock.monotonic() - parked.at < PARKED
        if self._stopped or ref.run_id in self._tasks or (fresh and not asked):
            return False
        self._parked.pop(ref.run_id, None)
        task = asyncio.get_running_loop().create_task(self._job(ref))
        self._tasks[ref.run_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(ref.run_id, None))
        return True

    async def drain(self, within: float | None) -> bool:
        """Wait until nothing is queued or driven; False when the time is over first."""
        end = None if within is None else self._clock.monotonic() + within
        while self._tasks:
            left = None if end is None else end - self._clock.monotonic()
            if left is not None and left <= 0:
                return False
            await asyncio.wait(self._tasks.values(), timeout=left)
        return True

    def stop(self) -> None:
        """Begin no other run: what is queued stays in its journal."""
        self._stopped = True
        for run_id, task in tuple(self._tasks.items()):
            if run_id not in self._driving:
                task.cancel()

    async def close(self) -> None:
        """Wait for the last ones, which somebody stopped."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _job(self, ref: RunRef) -> None:
        delay, turn, tries = FIRST_DELAY, TURN[0], 0
        while not self._stopped:
            async with self._room:
                error = await self._tried(ref)
            if error is None or self._stopped:
                return
            if isinstance(error, SessionBusyError):
                await self._clock.sleep(turn)
                turn = min(turn * 2, TURN[1])
                continue
            tries += 1
            if error.kind is not Kind.UNAVAILABLE or tries == TRIES:
                logger.error("run %s is parked: %s", ref.run_id, error)
                self._parked[ref.run_id] = Parked(error, self._clock.monotonic())
                return
            logger.warning("run %s: %s; tried again in %g s", ref.run_id, error, delay)
            await self._clock.sleep(delay)
            delay *= 2

    async def _tried(self, ref: RunRef) -> LoomError | None:
        """What stands in the way of the run; None once it has ended, waits, or is elsewhere."""
        self._driving.add(ref.run_id)
        try:
            await self._advance(ref)
        except (RunHeldError, RunNotFoundError, SessionErasedError):
            return None
        except LoomError as error:
            return error
        except Exception as error:  # the border of what nobody waits for
            logger.exception("run %s: its drive was cut by a defect", ref.run_id)
            return DriveBrokenError(run_id=ref.run_id, what=f"{type(error).__name__}: {error}")
        finally:
            self._driving.discard(ref.run_id)
        return None


class DriveBrokenError(LoomError):
    """Something else than an error of ours cut a drive in the background."""

    kind = Kind.BROKEN
    template = "run {run_id}: its drive was cut by a defect ({what}); look at the logs"
