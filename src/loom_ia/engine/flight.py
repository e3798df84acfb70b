"""What a drive has in flight, and how it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
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
        scope = asyncio.timeout(None)
        stop = partial(_cut, scope)
        try:
            async with scope:
                self._stops.add(stop)
                return await work()
        except TimeoutError:
            if not scope.expired():
                raise
            raise HaltedError from None
        finally:
            self._stops.discard(stop)


def _cut(scope: asyncio.Timeout) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
