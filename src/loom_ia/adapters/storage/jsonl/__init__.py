"""A store in plain files: one JSON line for each event, one file for each session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.jsonl.store import JsonlStore

__all__ = ("JsonlStore", "Settings")


class Settings(BaseModel):
    """`storage.events` with `backend: jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = "data"
    """Folder of the journals; a relative one starts at the configuration file."""

    @property
    def folder(self) -> str:
        """Where the files of sessions go when nothing else is said."""
        return self.path

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[JsonlStore]:
        """The store in that folder, which is created if needed.

        Raises:
            StoreUnavailableError: the folder cannot be used.

        """
        store = JsonlStore(env.path(self.path), env.clock)
        try:
            await store.start()
            yield store
        finally:
            await store.aclose()
