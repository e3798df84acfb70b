"""Lease files: who drives each root run."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from loom_ia.adapters.files import make_folder, read_file, replace_file
from loom_ia.adapters.names import encode
from loom_ia.adapters.storage.ledger import Track
from loom_ia.adapters.storage.process import Process, gone
from loom_ia.core.projections.index import RunEntry


class Record(BaseModel):
    """Content of a lease file."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    run_id: str
    epoch: int
    until: datetime | None
    """None once it was given back."""
    holder: str
    pid: int
    machine: str
    born: str
    position: int
    """Position of the run when the lease was given back."""
    waiting: bool
    waiting_until: datetime | None = None

    @property
    def process(self) -> Process:
        """The process that holds it."""
        return Process(self.pid, self.machine, self.born)


class LeaseFiles:
    """Leases of a tenant; each is read and written under the lock of its session."""

    def __init__(self, tenant: Path, data: Path, here: Process) -> None:
        self._folder, self._data, self._here = tenant / ".leases", data, here
        self._prefix = f"{self._folder}{os.sep}"
        self.ready = False
        """True once the folder is there."""

    def refresh(self, track: Track, now: datetime, *, living: bool) -> None:
        """Bring an entry up to date; `living`: a lease whose process is gone ends now."""
        entry = track.entry
        raw = read_file(self._path(entry.run_id))
        if entry.ended is not None:
            record = _parsed(raw)
            if record is not None and record.epoch > entry.epoch:
                track.entry = entry.evolve(epoch=record.epoch)
            return
        if raw == track.lease and not (living and raw is not None):
            return
        record = _parsed(raw)
        if raw != track.lease:
            track.lease = raw
            if record is None:
                cut = None if raw is None else now  # damaged: nobody can hold it
                entry = entry.evolve(lease_until=cut, lease_holder="")
            else:
                entry = _leased(entry, record, told=track.woken > record.position)
        ended = record is not None and living and gone(record.process, self._here)
        if ended and entry.driven(now):
            entry = entry.evolve(lease_until=now)
        track.entry = entry

    def store(self, track: Track, entry: RunEntry) -> None:
        """Write the lease of an entry, which becomes the track's."""
        here = self._here
        record = Record(
            run_id=entry.run_id,
            epoch=entry.epoch,
            until=entry.lease_until,
            holder=entry.lease_holder,
            pid=here.pid,
            machine=here.machine,
            born=here.born,
            position=entry.position,
            waiting=entry.waiting,
            waiting_until=entry.waiting_until,
        )
        raw = record.model_dump_json().encode()
        if not self.ready:
            make_folder(self._folder, top=self._data)
            self.ready = True
        # Not synced: after a power cut nobody drives, and events tell the epochs that wrote any.
        replace_file(Path(self._path(entry.run_id)), raw, sync=False)
        track.lease, track.entry = raw, entry

    def end(self, track: Track, *, written: int) -> None:
        """Give the lease of an ended run back; `written`: the highest epoch known to its events.

        A higher one is kept, so that no epoch is allotted twice if the run is resumed.
        """
        path = Path(self._path(track.entry.run_id))
        record = _parsed(read_file(path))
        track.lease = None
        if record is not None and record.epoch > track.epoch:
            track.entry = track.entry.evolve(epoch=record.epoch)
        if record is None or record.epoch <= written:
            path.unlink(missing_ok=True)
        elif record.until is not None:
            kept = record.model_copy(update={"until": None, "waiting": False})
            replace_file(path, kept.model_dump_json().encode(), sync=False)

    def _path(self, run_id: str) -> str:
        return f"{self._prefix}{encode(run_id)}.json"  # read at each append


def _parsed(raw: bytes | None) -> Record | None:
    if raw is None:
        return None
    try:
        return Record.model_validate_json(raw)
    except ValidationError:
        return None


def _leased(entry: RunEntry, record: Record, *, told: bool) -> RunEntry:
    """Entry under a lease; `told`: an event said since whether the run waits."""
    says = entry if told else record
    return entry.evolve(
        epoch=max(entry.epoch, record.epoch),
        lease_until=record.until,
        lease_holder=record.holder if record.until is not None else "",
        waiting=says.waiting,
        waiting_until=says.waiting_until,
    )
