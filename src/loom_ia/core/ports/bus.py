"""What wakes followers when a session gets events. A lost wake-up delays; it never loses events."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Listener(Protocol):
    """Hears of one session; wake-ups that come before it waits count as one."""

    async def heard(self, seconds: float) -> bool:
        """Wait for the next wake-up, or for so many seconds; False once the bus is closed."""
        ...


class Bus(Protocol):
    """Wake-ups without any content; who hears one reads the journal."""

    def wake(self, tenant_id: str, session_id: str) -> None:
        """Tell that a session got events. Takes no time, and never fails."""
        ...

    def listen(
        self, tenant_id: str, session_id: str
    ) -> AbstractAsyncContextManager[Listener, None]:
        """Hear of a session, from when the context is entered to when it is left."""
        ...
