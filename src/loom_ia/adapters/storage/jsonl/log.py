"""One session file: its lock, its lines, and what is known of them."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Required, TypedDict

from pydantic_core import from_json

from loom_ia.adapters.files import lock_file, refusal, write_all
from loom_ia.adapters.io import UnhurriedError
from loom_ia.adapters.storage.ledger import Ledger, moving
from loom_ia.core.errors import JournalDamagedError, StoreUnavailableError
from loom_ia.core.events import Event, UndecodableError, decode
from loom_ia.core.events.envelope import TYPES

logger = logging.getLogger("loom_ia.journal")

_MOVING = frozenset(name for name, kind in TYPES.items() if moving(kind))
_HEAD = 64
"""Bytes by which a file opened again is known: an inode may have been given to another one."""
_RUN = re.compile(rb'"run_id":("(?:[^"\\]|\\.)*")')


class _Fields(TypedDict, total=False):
    """What a scan looks at in a line; nothing was checked."""

    run_id: Required[str]
    position: Required[int]
    seq: Required[int]
    type: Required[str]
    at: Required[str]
    epoch: int


class MovedError(Exception):
    """The path names another file than the open one: open it again."""


@dataclass(slots=True)
class Damage:
    """A line that cannot be read."""

    line: int
    """Index of the line, from 0."""
    run_id: str | None
    """Its run; None while unknown, empty when it cannot be known."""
    suspect: str
    """Run of the line before it, or the only one that was going on."""


class Log:
    """A session file and its ledger. Used by one thread; other processes are kept out by a lock.

    `rows` gives, for each run, the line of each position; `~line` for a damaged one.
    """

    def __init__(self, path: Path, session_id: str) -> None:
        self.path, self.session_id = path, session_id
        self._name = str(path)
        self.fd = -1
        self._identity = (0, 0)
        self._head = b""
        self.named = False
        """True once the folder's entry of the file is on the disk."""
        self.announced, self.listed = 1, 0
        """Runs that the index announced, and those of them that are on the disk."""
        self.torn = b""
        """Bytes behind the last newline."""
        self.removed = 0
        """Bytes that a healing removed and that no event tells yet."""
        self._reset()

    def _reset(self) -> None:
        self.size = 0
        self.ledger = Ledger()
        self.starts = array("Q")
        self.seqs = array("Q")
        self.rows: dict[str, array[int]] = {}
        self.damages: list[Damage] = []
        self._pending: list[Damage] = []
        self._last_run = ""

    def open(self, *, create: bool) -> None:
        """Open the file, unless it is.

        Raises:
            FileNotFoundError: there is none, and `create` is false.

        """
        if self.fd >= 0:
            return
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.fd = os.open(self.path, flags, 0o600)
        stat = os.fstat(self.fd)
        known = self._identity == (stat.st_dev, stat.st_ino)
        if not known or not os.pread(self.fd, _HEAD, 0).startswith(self._head):
            self._identity = (stat.st_dev, stat.st_ino)
            self._reset()

    def close(self) -> None:
        """Give the descriptor back; what is known of the file is kept."""
        if self.fd >= 0:
            self._head = os.pread(self.fd, _HEAD, 0)
            os.close(self.fd)
            self.fd = -1

    def lock(self, *, most: int | None = None) -> None:
        """Keep other writers out, with the ledger up to date.

        Raises:
            UnhurriedError: there are more than `most` bytes to read, or some to put right.
            MovedError: the path names another file.
            FileNotFoundError: the path names none: the session was erased.
            BlockedError: another process holds it.

        """
        lock_file(self.fd, self.path)
        try:
            self._refresh(most)
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Let other writers in."""
        if self.fd >= 0:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def _refresh(self, most: int | None) -> None:
        stat = os.stat(self._name)  # noqa: PTH116  called at each append
        if (stat.st_dev, stat.st_ino) != self._identity:
            raise MovedError
        size = stat.st_size
        if size == self.size and not self.torn:
            return
        if most is not None and (self.torn or not 0 <= size - self.size <= most):
            raise UnhurriedError
        if size < self.size:
            self._reset()
        data = _pread(self.fd, self.size, size)
        end = data.rfind(b"\n") + 1
        self.torn = data[end:]
        self._scan(data[:end])

    def _scan(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._take(line)
            self.size += len(line) + 1
        for damage in self._pending:
            self._blame(damage, damage.suspect)
        self._pending.clear()

    def _take(self, line: bytes) -> None:
        index = len(self.starts)
        try:
            run_id, position = self._apply(line)
        except UndecodableError:
            if line:
                self.ledger.seq += 1
                self._damaged(line, index)
        else:
            self._place(run_id, position, index)
            self._last_run = run_id
        self.starts.append(self.size)
        self.seqs.append(self.ledger.seq)

    def _apply(self, line: bytes) -> tuple[str, int]:
        """Run and position of a line, once the ledger has taken it."""
        ledger = self.ledger
        try:
            data = _fields(line)
            run_id, position, seq = data["run_id"], data["position"], data["seq"]
            track = ledger.tracks.get(run_id)
            if track is None or data["type"] in _MOVING:
                event = decode(line)
                ledger.apply(event)
            else:
                at = datetime.fromisoformat(data["at"])
                track.position, track.at, ledger.seq = int(position), at, int(seq)
                ledger.last = max(ledger.last, at)
            if epoch := data.get("epoch"):
                self._epoch(run_id, int(epoch))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UndecodableError(str(error)) from error
        return run_id, position

    def _epoch(self, run_id: str, epoch: int) -> None:
        """Remember the highest epoch that wrote anything in a run tree."""
        track = self.ledger.tracks.get(run_id)
        root = None if track is None else self.ledger.tracks.get(track.entry.root_id)
        if root is not None and root.entry.epoch < epoch:
            root.entry = root.entry.evolve(epoch=epoch)

    def _place(self, run_id: str, position: int, index: int) -> None:
        """Note where a position is; positions that are missing before it are damaged lines."""
        if not run_id:
            return
        row = self.rows.setdefault(run_id, array("q"))
        if len(row) == position - 1:
            self._clear(run_id)
        while len(row) < position - 1:
            row.append(~self._culprit(run_id, row, index))
        if len(row) >= position:
            row[position - 1] = index
        else:
            row.append(index)

    def _culprit(self, run_id: str, row: array[int], index: int) -> int:
        """The line that held the position after `row`; `index` itself when none is damaged."""
        if self._pending:
            damage = self._pending.pop(0)
            damage.run_id = run_id
            return damage.line
        last = -1 if not row else max(row[-1], ~row[-1])
        for damage in reversed(self.damages):
            if damage.line > last:
                return damage.line  # it held events of two runs
        return index

    def _clear(self, run_id: str) -> None:
        """A run that goes on without a gap lost nothing in the lines before."""
        for damage in self._pending:
            if damage.suspect == run_id:
                damage.suspect = ""

    def _damaged(self, line: bytes, index: int) -> None:
        going = self.ledger.open
        suspect = self._last_run
        if suspect not in going and len(going) == 1:
            suspect = next(iter(going))
        damage = Damage(index, None, suspect if suspect in going else "")
        self.damages.append(damage)
        named = _RUN.search(line)
        run_id = _text(named.group(1)) if named else None
        if run_id is not None and run_id in self.rows:
            self._blame(damage, run_id)
        else:
            self._pending.append(damage)

    def _blame(self, damage: Damage, run_id: str) -> None:
        """Count a damaged line in the positions of a run."""
        damage.run_id = run_id
        track = self.ledger.tracks.get(run_id)
        if run_id and track is not None:
            self.rows.setdefault(run_id, array("q")).append(~damage.line)
            track.position += 1

    def lines(self, indexes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Bytes of some lines, in order, without their newlines."""
        if not indexes:
            return
        first, last = indexes[0], indexes[-1]
        base, end = self.starts[first], self._end(last)
        data = _pread(self.fd, base, end)
        for index in indexes:
            yield index, data[self.starts[index] - base : self._end(index) - base - 1]

    def _end(self, index: int) -> int:
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.size

    def damage(self, index: int) -> JournalDamagedError:
        """What is raised for a damaged line."""
        return JournalDamagedError(path=str(self.path), line=index + 1, session_id=self.session_id)

    def place(self, index: int) -> tuple[str, int]:
        """Run and position of a line, empty and 0 when nothing tells."""
        for run_id, row in self.rows.items():
            if index in row:
                return run_id, row.index(index) + 1
        return "", 0

    def unread(self, run_id: str, after: int) -> int:
        """Bytes of the file from the line behind a position of a run on."""
        row = self.rows.get(run_id, ())[after:]
        return self.size - self.starts[row[0]] if row else 0

    def read(self, run_id: str, after: int) -> list[Event]:
        """Events of a run.

        Raises:
            JournalDamagedError: one of them cannot be read.

        """
        row = self.rows.get(run_id, array("q"))[after:]
        for index in row:
            if index < 0:
                raise self.damage(~index)
        events: list[Event] = []
        for index, line in self.lines(row):
            try:
                events.append(decode(line))
            except UndecodableError:
                raise self.damage(index) from None
        return events

    def write(self, events: Sequence[Event], lines: Sequence[bytes]) -> None:
        """Append the lines of events that the ledger accepted, all or none.

        Raises:
            StoreUnavailableError: none was written.

        """
        data = b"\n".join(lines) + b"\n"
        try:
            written = os.write(self.fd, data)
            if written < len(data):
                write_all(self.fd, data[written:])  # says why it was short
        except OSError as error:
            self._undo()
            raise StoreUnavailableError(path=str(self.path), reason=refusal(error)) from error
        start, self.removed = self.size, 0
        for event, line in zip(events, lines, strict=True):
            self._place(event.run_id, event.position, len(self.starts))
            self.starts.append(start)
            self.seqs.append(event.seq)
            self.ledger.apply(event)
            start += len(line) + 1
        self.size = start

    def _undo(self) -> None:
        try:
            os.ftruncate(self.fd, self.size)
        except OSError:
            logger.exception("%s: a write that failed could not be removed", self.path)

    def heal(self) -> None:
        """Make the end of the file clean, under the lock; `removed` counts what had to go."""
        torn = self.torn
        if not torn:
            return
        try:
            whole = decode(torn).seq == self.ledger.seq + 1
        except UndecodableError:
            whole = False
        if whole:
            write_all(self.fd, b"\n")
            self.torn = b""
            self._scan(torn + b"\n")
            return
        aside = os.open(f"{self.path}.torn", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            write_all(aside, torn + b"\n")
        finally:
            os.close(aside)
        os.ftruncate(self.fd, self.size)
        self.torn = b""
        self.removed += len(torn)
        logger.warning(
            "%s: %d bytes of a write cut by a crash were moved to %s.torn",
            *(self.path, len(torn), self.path.name),
        )


def _fields(line: bytes) -> _Fields:
    try:
        return from_json(line)
    except ValueError:  # half a character, which only the slow parser takes
        return json.loads(line)


def _pread(fd: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end:
        part = os.pread(fd, end - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _text(quoted: bytes) -> str | None:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return None
