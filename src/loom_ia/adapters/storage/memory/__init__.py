"""A store that lives as long as its process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.memory.store import MemoryStore

__all__ = ("MemoryStore", "Settings")


class Settings(BaseModel):
    """`storage.events` with `backend: memory`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def folder(self) -> None:
        """Files of sessions live as long as their journal."""

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[MemoryStore]:
        """An empty store."""
        yield MemoryStore(env.clock)
