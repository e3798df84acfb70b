"""Keys in one SQLite database, that the processes of a machine share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loom_ia.adapters.env import Env
from loom_ia.adapters.idempotency.sqlite.store import SqliteKeys
from loom_ia.adapters.storage.sqlite import is_file

__all__ = ("Settings", "SqliteKeys")


class Settings(BaseModel):
    """`storage.idempotency` with `backend: sqlite`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(min_length=1), AfterValidator(is_file)] = "data/keys.db"
    """File of the keys, not that of the journal; a relative one starts at the configuration file.
    """

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[SqliteKeys]:
        """The keys of that database, which is created if needed.

        Raises:
            StoreUnavailableError: the file cannot be used.

        """
        keys = SqliteKeys(env.path(self.path))
        try:
            await keys.start()
            yield keys
        finally:
            await keys.aclose()
