"""What a drive has in flight, and how it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal

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

    def on_halt(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Call `stop` when the flight is halted (now, if it is); returns what forgets it."""
        self._stops.add(stop)
        if self.reason is not None:
            stop()
        return lambda: self._stops.discard(stop)

    @asynccontextmanager
    async def stoppable(self) -> AsyncGenerator[None]:
        """Work that a halt cuts.

        Raises:
            HaltedError: it was cut.

        """
        if self.reason is not None:
            raise HaltedError
        scope = asyncio.timeout(None)
        try:
            async with scope:
                forget = self.on_halt(lambda: _cut(scope))
                try:
                    yield
                finally:
                    forget()
        except TimeoutError:
            if not scope.expired():
                raise
            raise HaltedError from None


def _cut(scope: asyncio.Timeout) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
