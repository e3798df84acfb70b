"""Files of sessions that live as long as their process."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.artifacts.address import Place, address, extension, place_of
from loom_ia.adapters.env import Env
from loom_ia.adapters.files import KEY_BYTES, keyed_digest

__all__ = ("MemoryArtifacts", "Settings")


class MemoryArtifacts:
    """Contents by place."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        self._kept: dict[Place, bytes] = {}

    async def put(self, tenant_id: str, session_id: str, data: bytes, media_type: str) -> str:
        name = keyed_digest(self._key, tenant_id, data) + extension(media_type)
        place = (tenant_id, session_id, name)
        self._kept[place] = data
        return address(place)

    async def get(self, uri: str) -> bytes | None:
        place = place_of(uri)
        return None if place is None else self._kept.get(place)

    async def drop(self, tenant_id: str, session_id: str) -> None:
        for place in [p for p in self._kept if p[:2] == (tenant_id, session_id)]:
            del self._kept[place]


class Settings(BaseModel):
    """`storage.artifacts` with `backend: memory`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[MemoryArtifacts]:  # noqa: ARG002
        """An empty store."""
        yield MemoryArtifacts()
