"""Contents in files named by their digest."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from loom_ia.adapters.files import keyed_digest, make_folder, read_file, replace_file, reported
from loom_ia.adapters.io import Lane
from loom_ia.adapters.names import encode

_DIGEST = re.compile("[0-9a-f]{32}")


class JsonlBlobs:
    """Blobs of every tenant, at `<tenant>/.blobs/<2 characters>/<digest>`."""

    def __init__(self, data: Path, key: bytes, lane: Lane) -> None:
        self._data, self._key, self._lane = data, key, lane

    def digest(self, tenant_id: str, data: bytes) -> str:
        return keyed_digest(self._key, tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        digest = self.digest(tenant_id, data)
        await self._lane.call(partial(self._write, self._path(tenant_id, digest), data))
        return digest

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        if _DIGEST.fullmatch(digest) is None:
            return None
        return await self._lane.call(partial(_read, self._path(tenant_id, digest)))

    def _path(self, tenant_id: str, digest: str) -> Path:
        return self._data / encode(tenant_id) / ".blobs" / digest[:2] / digest

    def _write(self, path: Path, data: bytes) -> None:
        with reported(path):
            if path.exists():
                return
            make_folder(path.parent, top=self._data)
            replace_file(path, data, sync=True)


def _read(path: Path) -> bytes | None:
    with reported(path):
        return read_file(path)
