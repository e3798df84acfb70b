"""Finds events of a tenant in its session files, by their envelopes, without any lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from loom_ia.adapters.storage.jsonl.tenants import Tenant
from loom_ia.core.events import Event, UndecodableError, decode
from loom_ia.core.ports import EventFilter, Listed, Paging
from loom_ia.core.ports.listing import event_key, page, place, session_key
from loom_ia.core.projections.index import RunEntry, SessionEntry, summed

CHUNK = 1 << 16
"""Bytes read at once."""


def listed(tenant: Tenant, session_id: str | None) -> list[RunEntry]:
    """Root runs that the index knows, of one session or of all, of those that are not erased."""
    roots = tenant.index.roots(session_id)
    there = {name: tenant.path(name).exists() for name in {entry.session_id for entry in roots}}
    return [entry for entry in roots if there[entry.session_id]]


def grouped(roots: Iterable[RunEntry]) -> Iterator[SessionEntry]:
    """Sessions of root runs."""
    sessions: dict[str, list[RunEntry]] = {}
    for entry in roots:
        sessions.setdefault(entry.session_id, []).append(entry)
    for entries in sessions.values():
        if (entry := summed(entries)) is not None:
            yield entry


def places(tenant: Tenant, which: EventFilter) -> list[SessionEntry]:
    """Sessions that may hold events that are asked for, in order of their start."""
    session_id = which.session_id
    if which.run_id is not None:
        found = tenant.index.locate(which.run_id)
        if found is None or session_id not in {None, found.session_id}:
            return []
        session_id = found.session_id
    return sorted(grouped(listed(tenant, session_id)), key=session_key)


class Search:
    """One page of events being found: sessions are read in order of their start."""

    def __init__(self, tenant: Tenant, which: EventFilter, paging: Paging) -> None:
        self._tenant, self._which, self._paging = tenant, which, paging
        self._start = place(paging.after)
        self._names = [b'"type":"%s"' % name.encode() for name in which.types]
        self._found: list[Event] = []

    def wants(self, where: SessionEntry) -> bool:
        """True while this session may hold an event of the page; those behind start later."""
        until, wanted = self._which.until, self._paging.limit
        if until is not None and where.started_at >= until:
            return False
        return len(self._found) <= wanted or self._found[wanted].at >= where.started_at

    def look(self, where: SessionEntry) -> None:
        """Take what a session has for the page. Blocks."""
        events = self._events(self._tenant.path(where.session_id))
        kept = [*self._found, *_first(events, self._paging.limit + 1)]
        self._found = sorted(kept, key=event_key)[: self._paging.limit + 1]

    def page(self, now: datetime) -> Listed[Event]:
        """What was found."""
        return page(self._found, event_key, self._paging, now)

    def _events(self, path: Path) -> Iterator[Event]:
        which, start = self._which, self._start
        bounds = [at for at in (which.since, start[0] if start else None) if at is not None]
        for line in _lines(path, max(bounds, default=None)):
            if self._names and not any(name in line for name in self._names):
                continue
            try:
                event = decode(line)
            except UndecodableError:
                continue
            if which.until is not None and event.at >= which.until:
                return
            if which.takes(event) and (start is None or event_key(event) > start):
                yield event


def _first(events: Iterable[Event], number: int) -> Iterator[Event]:
    for _, event in zip(range(number), events, strict=False):
        yield event


def _lines(path: Path, since: datetime | None) -> Iterator[bytes]:
    """Whole lines of a session, none of them after one that is younger than `since`."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        offset = 0 if since is None else _seek(fd, since)
        rest = b""
        while data := os.pread(fd, CHUNK, offset):
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
    finally:
        os.close(fd)


def _seek(fd: int, since: datetime) -> int:
    """Offset of a line before which every event is older: instants never go back in a session."""
    low, high = 0, os.fstat(fd).st_size
    while high - low > CHUNK:
        middle = (low + high) // 2
        start, at = _next(fd, middle, high)
        if at is not None and at < since:
            low = start
        else:
            high = middle
    return low


def _next(fd: int, offset: int, end: int) -> tuple[int, datetime | None]:
    """The first readable line that begins behind an offset, and its instant."""
    data = b""
    while b"\n" not in data[data.find(b"\n") + 1 :] and offset + len(data) < end:
        more = os.pread(fd, CHUNK, offset + len(data))
        if not more:
            break
        data += more
    start = data.find(b"\n") + 1
    line = data[start : data.find(b"\n", start)]
    try:
        return offset + start, decode(line).at
    except UndecodableError:
        return offset + start, None
