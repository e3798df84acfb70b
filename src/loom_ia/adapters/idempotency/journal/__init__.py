"""No store but the journal: the intent of a call is its reservation, its outcome the result.

This is enough for technical keys, which one call of one run holds. What this process knows beside
it serves that run only: a key that several runs share asks for a shared store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env
from loom_ia.core.model import ContentBlock
from loom_ia.core.ports import Claim, Reservation

__all__ = ("JournalKeys", "Settings")


class JournalKeys:
    """Keys of single calls; each belongs to the call that asks for it."""

    shared = False

    async def reserve(self, claim: Claim, *, over: str | None = None) -> Reservation:  # noqa: ARG002
        return Reservation(claim, "")

    async def keep(self, held: Reservation, result: tuple[ContentBlock, ...]) -> None:
        """Nothing: the journal holds the outcome."""

    async def free(self, held: Reservation) -> None:
        """Nothing: the journal tells that the call did not act."""

    async def drop(self, tenant_id: str, session_id: str) -> None:
        """Nothing: the journal erases the session."""


class Settings(BaseModel):
    """`storage.idempotency` with `backend: journal`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[JournalKeys]:  # noqa: ARG002
        """What the journal already holds."""
        yield JournalKeys()
