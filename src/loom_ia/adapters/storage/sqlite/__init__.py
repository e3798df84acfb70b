"""A store in one SQLite database, that several processes may share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite.store import SqliteStore

__all__ = ("Settings", "SqliteStore", "is_file")


def is_file(path: str) -> str:
    """The path, once it is known to be that of a file."""
    if path == ":memory:" or path.startswith("file:"):
        code = "not_a_file"  # its message is translated, that of another error would not be
        raise PydanticCustomError(
            code, "a path of a file is expected; for a journal in memory, write backend: memory"
        )
    return path


class Settings(BaseModel):
    """`storage.events` with `backend: sqlite`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(min_length=1), AfterValidator(is_file)] = "data/loom.db"
    """File of the database; a relative one starts at the configuration file."""

    @property
    def folder(self) -> str:
        """Where the files of sessions go when nothing else is said."""
        return str(PurePath(self.path).parent)

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[SqliteStore]:
        """The store in that database, which is created if needed.

        Raises:
            StoreUnavailableError: the file cannot be used.

        """
        store = SqliteStore(env.path(self.path), env.clock)
        try:
            await store.start()
            yield store
        finally:
            await store.aclose()
