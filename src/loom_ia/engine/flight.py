"""What a drive has in flight, and how it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

T = TypeVar("T")

HaltReason = Literal["cancelled", "timeout", "lease_lost"]


class HaltedError(Exception):
    """The work was stopped from outside; what it was doing has no outcome."""


class Flight:
    """Stops everything in flight at once; nothing new starts afterwards."""

    def __init__(self) -> None:
        self.reason: HaltReason | None = None
        self._stops: set[Callable[[], None]] = set()

    def halt(self, reason: HaltReason) -> None:
        """Ask what is in flight to stop; the first reason is kept."""
        if self.reason is not None:
            return
        self.reason = reason
        for stop in tuple(self._stops):
            stop()

    def on_halt(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the flight is halted (now, if it is)."""
        self._stops.add(stop)
        if self.reason is not None:
            stop()

    def forget(self, stop: Callable[[], None]) -> None:
        """Call `stop` no more."""
        self._stops.discard(stop)

    async def stoppable(self, work: Callable[[], Awaitable[T]]) -> T:
        """Result of work that a halt cuts, and that does not start once it was halted.

        Raises:
            HaltedError: it was cut.

        """
        if self.reason is not None:
            raise HaltedError
        cut = _Cut()
        self._stops.add(cut)
        try:
            return await work()
        except asyncio.CancelledError:
            if cut.alone():
                raise HaltedError from None
            raise
        finally:
            cut.end()
            self._stops.discard(cut)


class _Cut:
    """Cancels the task it was made in, until it is ended.

    `asyncio.timeout` does as much and costs ten times more where nothing is cut.
    """

    __slots__ = ("_before", "_cutting", "_ended", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0
        self._cutting = self._ended = False

    def __call__(self) -> None:
        """Cut, on the next turn of the loop: the task must be suspended to take it."""
        asyncio.get_running_loop().call_soon(self._cut)

    def _cut(self) -> None:
        if self._task is not None and not self._cutting and not self._ended:
            self._cutting = True
            self._task.cancel()

    def alone(self) -> bool:
        """True when the task was cancelled by this cut and by nobody else."""
        self._ended = True
        if not self._cutting or self._task is None:
            return False
        self._cutting = False
        return self._task.uncancel() <= self._before

    def end(self) -> None:
        """Cut no more; a cut that the work has taken for itself is forgotten."""
        self._ended = True
        if self._cutting and self._task is not None:
            self._task.uncancel()
