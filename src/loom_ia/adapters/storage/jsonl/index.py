"""The run index of a tenant: one small line for each run, written before the run's first event."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock, RLock
from typing import Required, TypedDict

from pydantic_core import from_json

from loom_ia.adapters.files import lock_file, make_folder, replace_file, reported, write_all
from loom_ia.adapters.io import HASTE, UnhurriedError
from loom_ia.core.errors import RunExistsError
from loom_ia.core.events import UndecodableError, decode
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.index import RunEntry, indexed
from loom_ia.core.state import Status

_HEADER = b'{"loom-index":1}\n'
_RUN = re.compile(rb'"run_id":("(?:[^"\\]|\\.)*")')


class _Line(TypedDict, total=False):
    run_id: Required[str]
    session_id: Required[str]
    root_id: Required[str]
    at: Required[str]
    agent: str
    ordinal: int
    ended: Status
    updated: str
    position: int
    epoch: int
    cancel: bool


class _Erased(TypedDict):
    erased: str


class Index:
    """Where each run of a tenant is, and how it ended.

    It may name a run that was never written, never miss one; it may say that an ended run is open,
    never the contrary. Only its open runs are to be looked up in their sessions.
    """

    def __init__(self, tenant_id: str, folder: Path, data: Path) -> None:
        self._tenant_id, self._folder, self._data = tenant_id, folder, data
        self._path = folder / ".index.jsonl"
        self._lock, self._syncing = RLock(), Lock()
        self._dirty = True  # what other processes announced may not be on the disk either
        self._inode = self._size = 0
        self._runs: dict[str, RunEntry] = {}
        self._sessions: dict[str, dict[str, None]] = {}
        """Runs of each session, in order of their start."""
        self._open: dict[str, None] = {}
        """Root runs that have not ended."""

    @contextmanager
    def hurried(self) -> Generator[None]:
        """Keep other threads out, to do what is brief.

        Raises:
            UnhurriedError: it would not be.

        """
        if not self._lock.acquire(blocking=False):
            raise UnhurriedError
        try:
            if not self._near():
                raise UnhurriedError
            yield
        finally:
            self._lock.release()

    def _near(self) -> bool:
        """True when little is left to read."""
        try:
            stat = os.stat(self._path)  # noqa: PTH116  called at each use
        except FileNotFoundError:
            return False
        known = stat.st_ino == self._inode and self._size > 0
        return known and 0 <= stat.st_size - self._size <= HASTE

    def locate(self, run_id: str) -> RunRef | None:
        """Address of a run."""
        with self._lock:
            self._refresh()
            entry = self._runs.get(run_id)
            if entry is None:
                return None
            return RunRef(entry.tenant_id, entry.session_id, run_id, entry.root_id)

    def going(self) -> list[str]:
        """Sessions that have an open run."""
        with self._lock:
            self._refresh()
            return list(dict.fromkeys(self._runs[run_id].session_id for run_id in self._open))

    def roots(self, session_id: str | None = None) -> list[RunEntry]:
        """Root runs, of one session or of all, in order of their announcements."""
        with self._lock:
            self._refresh()
            if session_id is None:
                found = iter(self._runs.values())
            else:
                found = (self._runs[name] for name in self._sessions.get(session_id, ()))
            return [entry for entry in found if entry.root_id == entry.run_id]

    def names(self, session_id: str) -> bool:
        """True when a run of this session was announced."""
        with self._lock:
            self._refresh()
            return session_id in self._sessions

    def announce(self, entry: RunEntry) -> None:
        """Take a run id for a run about to be written, or say that one is open again.

        Raises:
            RunExistsError: a run of another session has it.

        """
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            known = self._runs.get(entry.run_id)
            if known is not None and known.session_id != entry.session_id:
                raise RunExistsError(run_id=entry.run_id)
            if known is None or known.ended is not None:
                self._write(_line(entry, going=True))

    def close(self, entry: RunEntry) -> None:
        """Say how a root run has ended."""
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            if entry.run_id in self._open:
                self._write(_line(entry, going=False))

    def erase(self, session_id: str) -> None:
        """Forget the runs of a session."""
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            if session_id in self._sessions:
                self._write(_Erased(erased=session_id))

    def flush(self) -> None:
        """Put on the disk what was announced."""
        with self._syncing:
            if not self._dirty:
                return
            with reported(self._path):
                try:
                    fd = os.open(self._path, os.O_WRONLY)
                except FileNotFoundError:
                    return  # it will be built again from the sessions
                try:
                    self._dirty = False
                    os.fdatasync(fd)
                except OSError:
                    self._dirty = True
                    raise
                finally:
                    os.close(fd)

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(fd, self._folder / ".lock")
            yield
        finally:
            os.close(fd)

    def _write(self, data: _Line | _Erased) -> None:
        line = _encoded(data)
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.fstat(fd).st_size > self._size:
                os.ftruncate(fd, self._size)  # a line cut by a crash; its run was never written
            try:
                write_all(fd, line)
            except OSError:
                os.ftruncate(fd, self._size)
                raise
            self._inode = os.fstat(fd).st_ino
        finally:
            os.close(fd)
        self._size += len(line)
        self._dirty = self._dirty or "ended" not in data
        self._take(data)

    def _refresh(self, *, locked: bool = False) -> None:
        try:
            stat = os.stat(self._path)  # noqa: PTH116  called at each use
        except FileNotFoundError:
            if self._folder.is_dir():
                self._rebuild(locked=locked)
            return
        if stat.st_ino == self._inode and stat.st_size == self._size != 0:
            return
        if stat.st_ino != self._inode or stat.st_size < self._size:
            self._forget()
            self._inode = stat.st_ino
        if not self._load():
            self._rebuild(locked=locked)

    def _forget(self) -> None:
        self._size = 0
        self._runs.clear()
        self._sessions.clear()
        self._open.clear()

    def _load(self) -> bool:
        """Read the lines behind those read; False when one of them is damaged."""
        with self._path.open("rb") as file:
            file.seek(self._size)
            data = file.read()
        end = data.rfind(b"\n") + 1
        lines = data[:end].splitlines(keepends=True)
        sound = bool(self._size) or lines[:1] == [_HEADER]
        for line in lines:
            sound = (line == _HEADER or self._parse(line)) and sound
        self._size += end
        if not sound:
            self._inode = 0
        return sound

    def _parse(self, line: bytes) -> bool:
        try:
            self._take(from_json(line))
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _take(self, data: _Line | _Erased) -> None:
        if "erased" in data:
            for run_id in self._sessions.pop(data["erased"], ()):
                self._runs.pop(run_id, None)
                self._open.pop(run_id, None)
            return
        entry = self._entry(data)
        self._runs[entry.run_id] = entry
        self._sessions.setdefault(entry.session_id, {})[entry.run_id] = None
        if entry.ended is not None:
            self._open.pop(entry.run_id, None)
        elif entry.run_id == entry.root_id:
            self._open[entry.run_id] = None

    def _entry(self, line: _Line) -> RunEntry:
        at = line["at"]
        return RunEntry(
            run_id=line["run_id"],
            root_id=line["root_id"],
            tenant_id=self._tenant_id,
            session_id=line["session_id"],
            agent=line.get("agent", ""),
            ordinal=line.get("ordinal", 1),
            started_at=datetime.fromisoformat(at),
            updated_at=datetime.fromisoformat(line.get("updated", at)),
            position=line.get("position", 0),
            epoch=line.get("epoch", 0),
            ended=line.get("ended"),
            cancel_requested=line.get("cancel", False),
        )

    def _rebuild(self, *, locked: bool) -> None:
        """Write the index again from the sessions, and from what was read of it."""
        if not locked:
            make_folder(self._folder, top=self._data)
            with self._exclusive():
                self._refresh(locked=True)  # another process may have done it meanwhile
            return
        for entry in _scanned(self._folder):
            self._take(_line(entry, going=True))
        lines = [_encoded(_line(entry, going=True)) for entry in self._runs.values()]
        replace_file(self._path, _HEADER + b"".join(lines), sync=True)
        stat = self._path.stat()
        self._inode, self._size = stat.st_ino, stat.st_size


def _line(entry: RunEntry, *, going: bool) -> _Line:
    line = _Line(
        run_id=entry.run_id,
        session_id=entry.session_id,
        root_id=entry.root_id,
        at=entry.started_at.isoformat(),
        agent=entry.agent,
        ordinal=entry.ordinal,
    )
    if not going and entry.ended is not None:
        line["ended"] = entry.ended
        line["updated"] = entry.updated_at.isoformat()
        line["position"] = entry.position
        line["epoch"] = entry.epoch
        line["cancel"] = entry.cancel_requested
    return line


def _encoded(data: _Line | _Erased) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _scanned(folder: Path) -> Iterator[RunEntry]:
    """Runs of every session file, oldest session first."""
    paths = [p for p in folder.glob("*.jsonl") if not p.name.startswith(".")]
    for path in sorted(paths, key=lambda p: p.stat().st_mtime_ns):
        seen: set[bytes] = set()
        with path.open("rb") as file:
            for line in file:
                found = _RUN.search(line)
                if found is None or found.group(1) in seen:
                    continue
                try:
                    event = decode(line)
                except UndecodableError:
                    continue
                seen.add(found.group(1))
                yield indexed(None, event)
