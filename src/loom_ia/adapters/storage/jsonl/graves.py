"""What is left of erased sessions: a tombstone, and until it is all gone, what remains to erase."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from loom_ia.adapters.files import make_folder, read_file, replace_file, sync_folder
from loom_ia.adapters.names import encode
from loom_ia.adapters.storage.jsonl.blobs import blob_path
from loom_ia.adapters.storage.jsonl.log import Log
from loom_ia.adapters.storage.ledger import BLOB_GRACE
from loom_ia.core.events import UndecodableError, decode
from loom_ia.core.projections.index import Tombstone

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the instant of a tombstone that cannot be read."""
BESIDE = (".torn", ".quarantine")
"""Endings of the files that may stand beside a session's."""


class Grave(BaseModel):
    """Content of a tombstone."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    session_id: str
    at: datetime
    by: str
    runs: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    """Digests to drop, unless another session names them."""


class Graves:
    """Tombstones of a tenant: in `.erasing` while something may be left, then in `.erased`.

    The session's own file says whether it is erased: a tombstone in `.erasing` is older than that.
    One in `.erased` beside such a file is that of a session that a backup brought back.
    """

    def __init__(self, tenant: Path, data: Path) -> None:
        self._tenant, self._data = tenant, data
        self._erasing, self._erased = tenant / ".erasing", tenant / ".erased"

    def dig(self, log: Log, at: datetime, by: str) -> None:
        """Note what is about to be erased, on the disk; the first note stands."""
        if self.open(log.session_id):
            return
        blobs = tuple(sorted(set(_named(log))))
        runs = tuple(log.ledger.tracks)
        grave = self.find(log.session_id) or Grave(session_id=log.session_id, at=at, by=by)
        self._write(self._erasing, grave.model_copy(update={"runs": runs, "blobs": blobs}))

    def find(self, session_id: str) -> Grave | None:
        """Tombstone of a session."""
        name = _name(session_id)
        for folder in (self._erasing, self._erased):
            if (raw := read_file(folder / name)) is not None:
                return _parsed(raw) or Grave(session_id=session_id, at=_LONG_AGO, by="-")
        return None

    def open(self, session_id: str) -> bool:
        """True while something of the session may be left."""
        return (self._erasing / _name(session_id)).exists()

    def pending(self) -> list[Grave]:
        """Tombstones of the sessions of which something may be left, or was brought back."""
        back = _names(self._erased, ".json") & _names(self._tenant, ".jsonl")
        paths = [self._erasing / f"{name}.json" for name in _names(self._erasing, ".json")]
        paths += [self._erased / f"{name}.json" for name in back]
        found = [_parsed(read_file(path) or b"") for path in sorted(paths)]
        return [grave for grave in found if grave is not None]

    def tombstones(self, session_id: str | None) -> list[Tombstone]:
        """The tombstone of a session if there is one, or all that are pending."""
        if session_id is None:
            return [tombstone(grave, pending=True) for grave in self.pending()]
        grave = self.find(session_id)
        return [] if grave is None else [tombstone(grave, pending=self.open(session_id))]

    def clear(self, session_id: str, now: datetime, *, complete: bool) -> Tombstone | None:
        """Erase what is left beside the file of a session, which is gone; its tombstone."""
        grave = self.find(session_id)
        if grave is None:
            return None
        if self.open(session_id):
            self._clear(grave, now, complete=complete)
        return tombstone(grave, pending=self.open(session_id))

    def _clear(self, grave: Grave, now: datetime, *, complete: bool) -> None:
        for run_id in grave.runs:
            (self._tenant / ".leases" / f"{encode(run_id)}.json").unlink(missing_ok=True)
        for ending in BESIDE:
            log = self._tenant / f"{encode(grave.session_id)}.jsonl{ending}"
            log.unlink(missing_ok=True)
        snapshot_path(self._tenant, grave.session_id).unlink(missing_ok=True)
        left = tuple(self._kept(grave.blobs, now))
        if left or not complete:
            self._write(self._erasing, grave.model_copy(update={"runs": (), "blobs": left}))
            return
        self._write(self._erased, grave.model_copy(update={"runs": (), "blobs": ()}))
        (self._erasing / _name(grave.session_id)).unlink(missing_ok=True)

    def _kept(self, digests: Sequence[str], now: datetime) -> Iterator[str]:
        """Drop the blobs that nobody names; those that are too young to tell are given back."""
        for digest in self._unnamed(digests):
            path = blob_path(self._tenant, digest)
            try:
                young = now.timestamp() - path.stat().st_mtime < BLOB_GRACE.total_seconds()
            except FileNotFoundError:
                continue
            if young:
                yield digest
            else:
                path.unlink(missing_ok=True)

    def _unnamed(self, digests: Sequence[str]) -> Iterable[str]:
        left = {digest.encode(): digest for digest in digests}
        for path in self._tenant.glob("*.jsonl"):
            if not left:
                break
            if not path.name.startswith("."):
                data = read_file(path) or b""
                left = {raw: digest for raw, digest in left.items() if raw not in data}
        return left.values()

    def _write(self, folder: Path, grave: Grave) -> None:
        make_folder(folder, top=self._data)
        path = folder / _name(grave.session_id)
        replace_file(path, grave.model_dump_json(exclude_defaults=True).encode(), sync=True)


def snapshot_path(tenant: Path, session_id: str) -> Path:
    """File of what can be made again from that of a session."""
    return tenant / ".snapshots" / f"{encode(session_id)}.jsonl"


def erase_file(log: Log) -> None:
    """Take the file of a session off its folder, under its lock: from here on it is erased."""
    log.path.unlink(missing_ok=True)
    sync_folder(log.path.parent)


def tombstone(grave: Grave, *, pending: bool) -> Tombstone:
    """A grave as the port gives it."""
    return Tombstone(session_id=grave.session_id, at=grave.at, by=grave.by, pending=pending)


def _named(log: Log) -> Iterator[str]:
    """Blobs that the session names."""
    for _, line in log.lines(range(len(log.starts))):
        if b'"prefix":{' in line:
            try:
                yield from decode(line).payload.blobs
            except UndecodableError:
                continue


def _name(session_id: str) -> str:
    return f"{encode(session_id)}.json"


def _names(folder: Path, ending: str) -> set[str]:
    """Names of the files of a folder, of those that end so, without that ending."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  thousands of names, at each opening
    except FileNotFoundError:
        return set()
    return {name.removesuffix(ending) for name in names if name.endswith(ending)}


def _parsed(raw: bytes) -> Grave | None:
    try:
        return Grave.model_validate_json(raw)
    except ValidationError:
        return None
