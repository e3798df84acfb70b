"""Files of sessions in a folder, beside the journal."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.artifacts.address import Place, address, extension, place_of
from loom_ia.adapters.env import Env
from loom_ia.adapters.files import (
    folder_key,
    keyed_digest,
    make_folder,
    read_file,
    replace_file,
    reported,
    sync_folder,
)
from loom_ia.adapters.io import Lane
from loom_ia.adapters.names import encode

__all__ = ("LocalArtifacts", "Settings")


class LocalArtifacts:
    """Files at `<folder>/<tenant>/<session>/<digest>.<ext>`."""

    def __init__(self, folder: Path, lane: Lane) -> None:
        self._folder, self._lane = folder, lane
        self._key = b""

    async def start(self) -> None:
        """Make the folder ready.

        Raises:
            StoreUnavailableError: it cannot be used.

        """
        self._key = await self._lane.call(self._prepare)

    async def put(self, tenant_id: str, session_id: str, data: bytes, media_type: str) -> str:
        name = keyed_digest(self._key, tenant_id, data) + extension(media_type)
        place = (tenant_id, session_id, name)
        await self._lane.call(partial(self._write, self._path(place), data))
        return address(place)

    async def get(self, uri: str) -> bytes | None:
        place = place_of(uri)
        if place is None:
            return None
        return await self._lane.call(partial(_read, self._path(place)))

    async def drop(self, tenant_id: str, session_id: str) -> None:
        folder = self._folder / encode(tenant_id) / encode(session_id)
        await self._lane.call(partial(_erase, folder))

    def _prepare(self) -> bytes:
        self._folder = self._folder.absolute()  # the working directory may change
        with reported(self._folder):
            make_folder(self._folder, top=self._folder)
            return folder_key(self._folder)

    def _path(self, place: Place) -> Path:
        tenant_id, session_id, name = place
        return self._folder / encode(tenant_id) / encode(session_id) / name

    def _write(self, path: Path, data: bytes) -> None:
        with reported(path):
            if not path.exists():
                make_folder(path.parent, top=self._folder)
                replace_file(path, data, sync=True)


class Settings(BaseModel):
    """`storage.artifacts` with `backend: local`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = "data/.artifacts"
    """Folder of the files; a relative one starts at the configuration file."""

    @asynccontextmanager
    async def open(self, env: Env) -> AsyncGenerator[LocalArtifacts]:
        """The files of that folder, which is created if needed.

        Raises:
            StoreUnavailableError: the folder cannot be used.

        """
        lane = Lane("loom-artifacts")
        files = LocalArtifacts(env.path(self.path), lane)
        try:
            await files.start()
            yield files
        finally:
            await lane.aclose(_nothing)


def _read(path: Path) -> bytes | None:
    with reported(path):
        return read_file(path)


def _erase(folder: Path) -> None:
    with reported(folder):
        if folder.is_dir():
            shutil.rmtree(folder)
            sync_folder(folder.parent)


def _nothing() -> None:
    return
