"""What a tenant spends: one small line for each fact that counts, written before the fact."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from threading import RLock
from typing import TypedDict

from pydantic_core import from_json

from loom_ia.adapters.files import lock_file, read_file, replace_file, write_all
from loom_ia.adapters.io import UnhurriedError
from loom_ia.core.admission import Admission, admit
from loom_ia.core.budget import Counters, Spent
from loom_ia.core.events import Payload, UndecodableError, decode
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.spending import Hold, Spending, counted, day_of, paid, standing

_LARGE = 1_048_576
"""Bytes after which the lines are added up."""
_COUNTED = (b'"model.responded"', b'"model.failed"', b'"run.')


class _Line(TypedDict, total=False):
    day: str
    session: str
    run: str
    cost: str
    tokens: int
    start: str
    """Instant at which a root run starts."""
    reserve: str
    going: bool


class SpendingFile:
    """The counters of a tenant, shared by processes; ahead of the sessions, never behind."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / ".spending.jsonl"
        self._lock = RLock()
        self._inode = self._size = 0
        self._spending = Spending()

    @contextmanager
    def hold(self, *, haste: bool) -> Generator[None]:
        """Keep everyone else out: other threads, and other processes.

        Raises:
            UnhurriedError: it may take a while, and there is haste.
            BlockedError: another process is at it.

        """
        if not self._lock.acquire(blocking=not haste):
            raise UnhurriedError
        try:
            if haste and not self._inode:
                raise UnhurriedError
            fd = os.open(self._folder / ".spending.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                lock_file(fd, self._folder / ".spending.lock")
                yield
            finally:
                os.close(fd)
        finally:
            self._lock.release()

    def admit(self, ref: RunRef, admission: Admission, now: datetime) -> None:
        """Judge one more run (see `core.admission.admit`); inside `hold`."""
        self._refresh()
        counters = self._spending.counters(ref.session_id, ref.run_id, now)
        admit(ref.tenant_id, admission, counters, self._spending.starts, now)

    def record(self, ref: RunRef, facts: Iterable[Payload], at: datetime) -> None:
        """Write what facts about to be written change; inside `hold`."""
        lines = [line for fact in facts if (line := _line(ref, fact, at)) is not None]
        if lines:
            self._refresh()
            self._write(lines)

    def rest(self, ref: RunRef, *, going: bool) -> None:
        """A run that holds something waits, or goes on; inside `hold`."""
        self._refresh()
        hold = self._spending.holds.get(ref.run_id)
        if hold is not None and hold.going is not going:
            self._write([_Line(run=ref.run_id, going=going)])

    def erase(self, session_id: str) -> None:
        """Forget a session; inside `hold`."""
        self._refresh()
        self._spending.erase(session_id)
        self._rewrite()

    def counters(self, session_id: str, run_id: str, now: datetime) -> Counters:
        """See `RunIndex.counters`."""
        if not self._folder.is_dir():
            return Counters()
        with self.hold(haste=False):
            self._refresh()
            return self._spending.counters(session_id, run_id, now)

    def _write(self, lines: Sequence[_Line]) -> None:
        # each line brings its own newline first: one that a crash cut spoils no other
        data = b"".join(b"\n" + json.dumps(line, separators=(",", ":")).encode() for line in lines)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            write_all(fd, data)
            self._size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        for line in lines:
            self._take(line)
        if self._size > _LARGE:
            self._rewrite()

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._path)  # noqa: PTH116  called at each use
        except FileNotFoundError:
            self._rebuild()
            return
        if stat.st_ino == self._inode and stat.st_size == self._size:
            return
        if stat.st_ino != self._inode or stat.st_size < self._size:
            self._spending, self._size = Spending(), 0
        with self._path.open("rb") as file:
            file.seek(self._size)
            data = file.read()
        for raw in data.splitlines():
            self._parse(raw)
        self._inode, self._size = stat.st_ino, self._size + len(data)

    def _parse(self, raw: bytes) -> None:
        try:
            self._take(from_json(raw))
        except (ValueError, KeyError, TypeError, ArithmeticError):
            return  # cut by a crash: its fact was never written

    def _take(self, line: _Line) -> None:
        spending, run_id, session_id = self._spending, line.get("run", ""), line.get("session", "")
        spent = Spent(Decimal(line.get("cost", "0")), line.get("tokens", 0))
        reserve = Decimal(line["reserve"]) if "reserve" in line else None
        if "start" in line:
            spending.start(run_id, session_id, datetime.fromisoformat(line["start"]), reserve)
        elif reserve is not None:
            spending.owners[run_id] = session_id
            spending.holds[run_id] = Hold(reserve, spent.cost, line.get("going", True))
        elif "going" in line:
            spending.going(run_id, going=line["going"])
        elif "day" not in line:
            spending.sessions[session_id] += spent
        elif session_id:
            spending.pay(run_id, session_id, date.fromisoformat(line["day"]), spent)
        else:
            spending.days[date.fromisoformat(line["day"])] += spent

    def _rewrite(self) -> None:
        """Write the sums in place of what they are made of."""
        lines = [json.dumps(line, separators=(",", ":")) for line in _sums(self._spending)]
        replace_file(self._path, "\n".join(lines).encode(), sync=True)
        stat = self._path.stat()
        self._inode, self._size = stat.st_ino, stat.st_size

    def _rebuild(self) -> None:
        """Count again what the sessions say."""
        self._spending = Spending()
        for path in sorted(self._folder.glob("*.jsonl")):
            if not path.name.startswith("."):
                for raw in (read_file(path) or b"").splitlines():
                    self._recount(raw)
        self._rewrite()

    def _recount(self, raw: bytes) -> None:
        if not any(mark in raw for mark in _COUNTED):
            return
        try:
            event = decode(raw)
        except UndecodableError:
            return
        ref = RunRef(event.tenant_id, event.session_id, event.run_id, event.run_id)
        counted(self._spending, ref, event.payload, event.at)


def _line(ref: RunRef, fact: Payload, at: datetime) -> _Line | None:
    spent = paid(fact)
    if spent is not None:
        day = day_of(at).isoformat()
        cost, run = str(spent.cost), ref.root_id
        return _Line(day=day, session=ref.session_id, run=run, cost=cost, tokens=spent.tokens)
    if ref.run_id != ref.root_id:
        return None
    state = standing(fact)
    if state is None:
        return None
    if state.started:
        line = _Line(run=ref.run_id, session=ref.session_id, start=at.isoformat())
        if state.reserve is not None:
            line["reserve"] = str(state.reserve)
        return line
    return _Line(run=ref.run_id, going=state.going)


def _sums(spending: Spending) -> Iterator[_Line]:
    for day, spent in spending.days.items():
        yield _Line(day=day.isoformat(), cost=str(spent.cost), tokens=spent.tokens)
    for session_id, spent in spending.sessions.items():
        yield _Line(session=session_id, cost=str(spent.cost), tokens=spent.tokens)
    for at in spending.starts:
        yield _Line(start=at.isoformat())
    for run_id, hold in spending.holds.items():
        yield _Line(
            run=run_id,
            session=spending.owners[run_id],
            reserve=str(hold.reserve),
            cost=str(hold.spent),
            going=hold.going,
        )
