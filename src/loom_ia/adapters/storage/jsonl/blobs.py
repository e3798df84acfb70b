"""Contents in files named by their digest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from loom_ia.adapters.files import keyed_digest, make_folder, read_file, replace_file, reported
from loom_ia.adapters.io import Lane
from loom_ia.adapters.names import encode
from loom_ia.adapters.storage.ledger import BLOB_GRACE

REMEMBERED = 4096
"""Contents that a store knows to be kept."""
_DIGEST = re.compile("[0-9a-f]{32}")


class JsonlBlobs:
    """Blobs of every tenant, at `<tenant>/.blobs/<2 characters>/<digest>`."""

    def __init__(self, data: Path, key: bytes, lane: Lane, clock: Callable[[], datetime]) -> None:
        self._data, self._key, self._lane, self._clock = data, key, lane, clock
        self._put: dict[tuple[str, str], datetime] = {}
        """When contents were put last, as their files tell."""

    def digest(self, tenant_id: str, data: bytes) -> str:
        return keyed_digest(self._key, tenant_id, data)

    async def put(self, tenant_id: str, data: bytes) -> str:
        digest = self.digest(tenant_id, data)
        known = self._put.get((tenant_id, digest))
        if known is None or not known <= self._clock() <= known + BLOB_GRACE / 2:
            write = partial(self._write, self._path(tenant_id, digest), data)
            at = await self._lane.call(write)
            if len(self._put) >= REMEMBERED:
                self._put.clear()
            self._put[tenant_id, digest] = at
        return digest

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        if _DIGEST.fullmatch(digest) is None:
            return None
        return await self._lane.call(partial(_read, self._path(tenant_id, digest)))

    def _path(self, tenant_id: str, digest: str) -> Path:
        return blob_path(self._data / encode(tenant_id), digest)

    def _write(self, path: Path, data: bytes) -> datetime:
        """Keep a content; when it was put last."""
        with reported(path):
            now = self._clock()
            try:
                at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                if now - at <= BLOB_GRACE / 2:
                    return at
            except FileNotFoundError:
                make_folder(path.parent, top=self._data)
                replace_file(path, data, sync=True)
            os.utime(path, (now.timestamp(), now.timestamp()))
            return now


def blob_path(tenant: Path, digest: str) -> Path:
    """File of a content; its time tells when it was put last, within half of the grace."""
    return tenant / ".blobs" / digest[:2] / digest


def _read(path: Path) -> bytes | None:
    with reported(path):
        return read_file(path)
