"""The run index of a tenant: one small line for each run, written before the run's first event."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypedDict, cast

from loom_ia.adapters.files import lock_file, make_folder, replace_file, reported, write_all
from loom_ia.core.errors import RunExistsError
from loom_ia.core.events import RunStarted, UndecodableError, decode
from loom_ia.core.ports import RunRef

_HEADER = b'{"loom-index":1}\n'
_RUN = re.compile(rb'"run_id":("(?:[^"\\]|\\.)*")')


class _Line(TypedDict):
    run_id: str
    session_id: str
    root_id: str
    open: bool


class Index:
    """Where each run of a tenant is. It may name a run that was never written, never miss one.

    It may also say that an ended run is open, never the contrary.
    """

    def __init__(self, tenant_id: str, folder: Path, data: Path) -> None:
        self._tenant_id, self._folder, self._data = tenant_id, folder, data
        self._path = folder / ".index.jsonl"
        self._lock, self._syncing = Lock(), Lock()
        self._dirty = True  # what other processes announced may not be on the disk either
        self._inode = self._size = 0
        self._runs: dict[str, RunRef] = {}
        self._sessions: dict[str, None] = {}
        self._open: dict[str, None] = {}

    def locate(self, run_id: str) -> RunRef | None:
        """Address of a run."""
        with self._lock:
            self._refresh()
            return self._runs.get(run_id)

    def sessions(self, *, going: bool) -> list[str]:
        """Sessions that have a run, in order of their first one; `going`: one that is open."""
        with self._lock:
            self._refresh()
            if not going:
                return list(self._sessions)
            return list(dict.fromkeys(self._runs[run_id].session_id for run_id in self._open))

    def names(self, session_id: str) -> bool:
        """True when a run of this session was announced."""
        with self._lock:
            self._refresh()
            return session_id in self._sessions

    def announce(self, ref: RunRef) -> None:
        """Take a run id for a run about to be written, or say that it is open again.

        Raises:
            RunExistsError: a run of another session has it.

        """
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            known = self._runs.get(ref.run_id)
            if known is not None and known.session_id != ref.session_id:
                raise RunExistsError(run_id=ref.run_id)
            if known is None or (ref.run_id == ref.root_id and ref.run_id not in self._open):
                self._write(ref, going=True)

    def close(self, ref: RunRef) -> None:
        """Say that a root run has ended."""
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            if ref.run_id in self._open:
                self._write(ref, going=False)

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

    def _write(self, ref: RunRef, *, going: bool) -> None:
        line = _line(ref, going=going)
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
        self._dirty = self._dirty or going
        self._take(ref, going=going)

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
            data = cast("_Line", json.loads(line))
            ref = RunRef(self._tenant_id, data["session_id"], data["run_id"], data["root_id"])
            self._take(ref, going=data["open"])
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _take(self, ref: RunRef, *, going: bool) -> None:
        self._runs[ref.run_id] = ref
        self._sessions[ref.session_id] = None
        if not going:
            self._open.pop(ref.run_id, None)
        elif ref.run_id == ref.root_id:
            self._open[ref.run_id] = None

    def _rebuild(self, *, locked: bool) -> None:
        """Write the index again from the sessions, and from what was read of it."""
        if not locked:
            make_folder(self._folder, top=self._data)
            with self._exclusive():
                self._refresh(locked=True)  # another process may have done it meanwhile
            return
        for ref in _scanned(self._folder, self._tenant_id):
            self._take(ref, going=True)
        lines = [_line(ref, going=True) for ref in self._runs.values()]
        replace_file(self._path, _HEADER + b"".join(lines), sync=True)
        stat = self._path.stat()
        self._inode, self._size = stat.st_ino, stat.st_size


def _line(ref: RunRef, *, going: bool) -> bytes:
    line = _Line(run_id=ref.run_id, session_id=ref.session_id, root_id=ref.root_id, open=going)
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _scanned(folder: Path, tenant_id: str) -> Iterator[RunRef]:
    """Runs of every session file, oldest session first."""
    paths = [p for p in folder.glob("*.jsonl") if not p.name.startswith(".")]
    for path in sorted(paths, key=lambda p: p.stat().st_mtime_ns):
        seen: set[bytes] = set()
        with path.open("rb") as file:
            for line in file:
                found = _RUN.search(line)
                if found is None or found.group(1) in seen:
                    continue
                ref = _announced(line, tenant_id)
                if ref is not None:
                    seen.add(found.group(1))
                    yield ref


def _announced(line: bytes, tenant_id: str) -> RunRef | None:
    try:
        event = decode(line)
    except UndecodableError:
        return None
    payload = event.payload
    root_id = payload.root_id if isinstance(payload, RunStarted) else ""
    return RunRef(tenant_id, event.session_id, event.run_id, root_id or event.run_id)
