"""The run index of a tenant: one small line for each run, written before the run's first event."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypedDict, cast

from loom_ia.adapters.files import make_folder, read_file, replace_file, write_all
from loom_ia.core.errors import RunExistsError
from loom_ia.core.events import RunStarted, UndecodableError, decode
from loom_ia.core.ports import RunRef

_RUN = re.compile(rb'"run_id":("(?:[^"\\]|\\.)*")')


class _Line(TypedDict):
    run_id: str
    session_id: str
    root_id: str


class Index:
    """Where each run of a tenant is. It may name a run that was never written, never miss one."""

    def __init__(self, tenant_id: str, folder: Path, data: Path) -> None:
        self._tenant_id, self._folder, self._data = tenant_id, folder, data
        self._path = folder / ".index.jsonl"
        self._lock = Lock()
        self._read: tuple[int, int] = (0, 0)
        """Inode of the file, and bytes of it that were read."""
        self._runs: dict[str, RunRef] = {}
        self._sessions: dict[str, None] = {}

    def locate(self, run_id: str) -> RunRef | None:
        """Address of a run."""
        with self._lock:
            self._refresh()
            return self._runs.get(run_id)

    def sessions(self) -> list[str]:
        """Sessions that have a run, in order of their first one."""
        with self._lock:
            self._refresh()
            return list(self._sessions)

    def names(self, session_id: str) -> bool:
        """True when a run of this session was announced."""
        with self._lock:
            self._refresh()
            return session_id in self._sessions

    def announce(self, ref: RunRef) -> None:
        """Take a run id for a run about to be written.

        Raises:
            RunExistsError: a run of another session has it.

        """
        with self._lock, self._exclusive():
            self._refresh(locked=True)
            known = self._runs.get(ref.run_id)
            if known is None:
                self._write(ref)
            elif known.session_id != ref.session_id:
                raise RunExistsError(run_id=ref.run_id)

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # held for the time of one small write
            yield
        finally:
            os.close(fd)

    def _write(self, ref: RunRef) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = self._read[1]
            if os.fstat(fd).st_size > size:
                os.ftruncate(fd, size)  # a line cut by a crash; its run was never written
            try:
                write_all(fd, _line(ref))
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        self._refresh(locked=True)

    def _refresh(self, *, locked: bool = False) -> None:
        try:
            stat = os.stat(self._path)  # noqa: PTH116  called at each use
        except FileNotFoundError:
            if self._folder.is_dir():
                self._rebuild(locked=locked)
            return
        inode, size = self._read
        if stat.st_ino == inode and stat.st_size == size:
            return
        if stat.st_ino != inode or stat.st_size < size:
            self._read = (stat.st_ino, 0)
            self._runs.clear()
            self._sessions.clear()
        if not self._load():
            self._rebuild(locked=locked)

    def _load(self) -> bool:
        """Read the lines behind those read; False when one of them is damaged."""
        inode, size = self._read
        data = read_file(self._path)
        if data is None:
            return False
        end = data.rfind(b"\n") + 1
        for line in data[size:end].splitlines():
            ref = _parsed(line, self._tenant_id)
            if ref is None:
                return False
            self._take(ref)
        self._read = (inode, end)
        return True

    def _take(self, ref: RunRef) -> None:
        self._runs[ref.run_id] = ref
        self._sessions[ref.session_id] = None

    def _rebuild(self, *, locked: bool) -> None:
        """Write the index again from the sessions."""
        if not locked:
            make_folder(self._folder, top=self._data)
            with self._exclusive():
                self._rebuild(locked=True)
            return
        self._runs.clear()
        self._sessions.clear()
        for ref in _scanned(self._folder, self._tenant_id):
            self._take(ref)
        replace_file(self._path, b"".join(map(_line, self._runs.values())), sync=True)
        stat = self._path.stat()
        self._read = (stat.st_ino, stat.st_size)


def _line(ref: RunRef) -> bytes:
    line = _Line(run_id=ref.run_id, session_id=ref.session_id, root_id=ref.root_id)
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes, tenant_id: str) -> RunRef | None:
    try:
        data = cast("_Line", json.loads(line))
        return RunRef(tenant_id, data["session_id"], data["run_id"], data["root_id"])
    except (ValueError, KeyError, TypeError):
        return None


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
