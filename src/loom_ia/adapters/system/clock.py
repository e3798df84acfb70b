"""Durations by a clock that counts the time spent asleep, where the system has one."""

from __future__ import annotations

import asyncio
import time

_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Seconds since the machine started, suspended time included; never backwards."""
        return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
