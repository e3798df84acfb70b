"""Wake-ups inside one process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env

__all__ = ("MemoryBus", "Settings")


class MemoryListener:
    """A flag, however many wake-ups come: a slow follower costs no memory."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus, self._flag = bus, asyncio.Event()

    def wake(self) -> None:
        self._flag.set()

    async def heard(self, seconds: float) -> bool:
        if not self._bus.closed:
            try:
                async with asyncio.timeout(seconds):
                    await self._flag.wait()
            except TimeoutError:
                pass
            self._flag.clear()
        return not self._bus.closed


class MemoryBus:
    """Listeners by session."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, str], set[MemoryListener]] = defaultdict(set)
        self.closed = False

    def wake(self, tenant_id: str, session_id: str) -> None:
        for listener in self._listeners.get((tenant_id, session_id), ()):
            listener.wake()

    @asynccontextmanager
    async def listen(self, tenant_id: str, session_id: str) -> AsyncGenerator[MemoryListener]:
        listener, key = MemoryListener(self), (tenant_id, session_id)
        self._listeners[key].add(listener)
        try:
            yield listener
        finally:
            self._listeners[key].discard(listener)
            if not self._listeners[key]:
                del self._listeners[key]

    def close(self) -> None:
        """Let every follower go."""
        self.closed = True
        for key in tuple(self._listeners):
            self.wake(*key)


class Settings(BaseModel):
    """`storage.bus` with `backend: memory`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[MemoryBus]:  # noqa: ARG002
        """A bus that nobody listens to."""
        bus = MemoryBus()
        try:
            yield bus
        finally:
            bus.close()
