"""A clock that moves when it is told to, and identifiers known in advance."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

_FIRST = 0x0190_0000_0000
"""Milliseconds of the first identifier."""


@dataclass(slots=True, eq=False)
class _Sleeper:
    until: float
    awake: asyncio.Future[None]


class ManualClock:
    """Stands still until `advance`."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._sleepers: list[_Sleeper] = []
        self._arrived = asyncio.Event()

    def monotonic(self) -> float:
        """Seconds since it was made, `start` included."""
        return self._now

    @property
    def sleeping(self) -> int:
        """How many wait for it."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until it was advanced by as much."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = _Sleeper(self._now + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        self._arrived.set()
        try:
            await sleeper.awake
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Move on, and wake those whose time has come, the earliest first."""
        self._now += seconds
        due = sorted((s for s in self._sleepers if s.until <= self._now), key=lambda s: s.until)
        for sleeper in due:
            self._sleepers.remove(sleeper)
            if not sleeper.awake.done():
                sleeper.awake.set_result(None)

    async def until_sleeping(self, sleepers: int = 1) -> None:
        """Wait until so many wait for it."""
        while len(self._sleepers) < sleepers:
            self._arrived.clear()
            await self._arrived.wait()


class ManualIds:
    """Identifiers of the usual form, the same in every run of a test."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = count(first)

    def new(self) -> str:
        """The next one."""
        number = next(self._numbers)
        stamp = f"{_FIRST + number:012x}"
        return f"{stamp[:8]}-{stamp[8:]}-7000-8000-{number:012x}"
