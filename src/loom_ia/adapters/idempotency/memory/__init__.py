"""Keys that live as long as their process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env
from loom_ia.adapters.idempotency.table import KeyTable

__all__ = ("Settings",)


class Settings(BaseModel):
    """`storage.idempotency` with `backend: memory`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[KeyTable]:  # noqa: ARG002
        """An empty store."""
        yield KeyTable()
