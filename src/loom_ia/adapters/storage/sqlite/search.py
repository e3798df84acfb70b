"""Finds events of a tenant by their envelopes: sessions are read in order of their start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loom_ia.adapters.storage.sqlite.reader import Reader
from loom_ia.adapters.storage.sqlite.rows import AGES, LineRow, event_of, instant, micros
from loom_ia.core.events import Event, UndecodableError
from loom_ia.core.ports import EventFilter, Listed, Paging
from loom_ia.core.ports.listing import event_key, page, place

Where = tuple[int, int, str]
"""Number, start and id of a session."""


class Search:
    """One page of events being found, session after session, so that other reads go between."""

    def __init__(self, reader: Reader, tenant_id: str, which: EventFilter, paging: Paging) -> None:
        self._reader, self._tenant_id = reader, tenant_id
        self._which, self._paging = which, paging
        self._start = place(paging.after)
        self._names = [b'"type":"%s"' % name.encode() for name in which.types]
        self._found: list[Event] = []

    def places(self) -> Sequence[Where]:
        """Sessions that may hold events that are asked for, in order of their start."""
        which, until = self._which, self._until
        session_id = which.session_id
        if which.run_id is not None:
            ref = self._reader.locate(self._tenant_id, which.run_id)
            if ref is None or session_id not in {None, ref.session_id}:
                return ()
            session_id = ref.session_id
        if session_id is None:
            return self._reader.ask("searched_sessions", self._tenant_id, until).fetchall()
        return self._reader.ask("searched_session", self._tenant_id, until, session_id).fetchall()

    def wants(self, where: Where) -> bool:
        """True while this session may hold an event of the page; those behind start later."""
        wanted = self._paging.limit
        return len(self._found) <= wanted or self._found[wanted].at >= instant(where[1])

    def look(self, where: Where) -> None:
        """Take what a session has for the page."""
        kept = [*self._found, *_first(self._events(where), self._paging.limit + 1)]
        self._found = sorted(kept, key=event_key)[: self._paging.limit + 1]

    def page(self) -> Listed[Event]:
        """What was found."""
        return page(self._found, event_key, self._paging, self._reader.clock())

    @property
    def _until(self) -> int:
        return AGES if self._which.until is None else micros(self._which.until)

    def _events(self, where: Where) -> Iterator[Event]:
        since, start = self._which.since, self._start
        bounds = [micros(at) for at in (since, start[0] if start else None) if at is not None]
        bound = max(bounds, default=0)
        rows: Iterable[LineRow] = self._reader.ask("searched_lines", where[0], bound, self._until)
        for row in rows:
            if self._names and not any(name in row[4] for name in self._names):
                continue
            try:
                event = event_of(row, self._tenant_id, where[2])
            except UndecodableError:
                continue
            if self._which.takes(event) and (start is None or event_key(event) > start):
                yield event


def _first(events: Iterable[Event], number: int) -> Iterator[Event]:
    for _, event in zip(range(number), events, strict=False):
        yield event
