"""Lists that are read page by page: what is chosen, where a page begins, what it gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from loom_ia.core.errors import InvalidCursorError
from loom_ia.core.events import Event, Outcome
from loom_ia.core.projections.index import RunEntry, SessionEntry

T = TypeVar("T")
Key = tuple[datetime, int, str]
"""Where an item stands in its list: its instant, a number that settles equal ones, its id."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of a list. A cursor is a place in the order, not an item, which may be gone."""

    after: str = ""
    """The `next` of the page before; empty for the first one."""
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page. What is added to the list meanwhile moves nothing from one page to another."""

    items: Sequence[T]
    now: datetime
    """The store's instant."""
    next: str = ""
    """Cursor of the page behind; empty when this one is the last."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which root runs; what is None chooses all."""

    session_id: str | None = None
    agent: str | None = None
    ended: bool | None = None

    def takes(self, entry: RunEntry) -> bool:
        """True for a run that is asked for."""
        return (
            self.session_id in {None, entry.session_id}
            and self.agent in {None, entry.agent}
            and self.ended in {None, entry.ended is not None}
        )


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events, by their envelopes alone; what is empty or None chooses all."""

    session_id: str | None = None
    run_id: str | None = None
    types: frozenset[str] = frozenset()
    statuses: frozenset[Outcome] = frozenset()
    since: datetime | None = None
    """First instant."""
    until: datetime | None = None
    """Instant before which they are."""

    def takes(self, event: Event) -> bool:
        """True for an event that is asked for."""
        return (
            self.session_id in {None, event.session_id}
            and self.run_id in {None, event.run_id}
            and (not self.types or event.type in self.types)
            and (not self.statuses or event.status in self.statuses)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )


def run_key(entry: RunEntry) -> Key:
    """Place of a run among those of its tenant."""
    return entry.started_at, entry.ordinal, entry.run_id


def session_key(entry: SessionEntry) -> Key:
    """Place of a session among those of its tenant."""
    return entry.started_at, 0, entry.session_id


def event_key(event: Event) -> Key:
    """Place of an event among those of its tenant."""
    return event.at, event.seq, event.session_id


def newest(items: Iterable[T], key: Callable[[T], Key], paging: Paging, now: datetime) -> Listed[T]:
    """A page of a list whose newest items come first."""
    start = place(paging.after)
    behind = [item for item in items if start is None or key(item) < start]
    return page(sorted(behind, key=key, reverse=True), key, paging, now)


def oldest(items: Iterable[T], key: Callable[[T], Key], paging: Paging, now: datetime) -> Listed[T]:
    """A page of a list whose oldest items come first."""
    start = place(paging.after)
    behind = [item for item in items if start is None or key(item) > start]
    return page(sorted(behind, key=key), key, paging, now)


async def every(ask: Callable[[Paging], Awaitable[Listed[T]]], *, limit: int) -> AsyncIterator[T]:
    """Every item of a list, one page after the other."""
    paging = Paging(limit=limit)
    while True:
        listed = await ask(paging)
        for item in listed:
            yield item
        if not listed.next:
            return
        paging = Paging(listed.next, limit)


def page(items: Iterable[T], key: Callable[[T], Key], paging: Paging, now: datetime) -> Listed[T]:
    """The first items of what is behind a cursor already, as a page."""
    kept: list[T] = []
    for item in items:
        if len(kept) == paging.limit:
            return Listed(kept, now, written(key(kept[-1])) if kept else paging.after)
        kept.append(item)
    return Listed(kept, now)


def written(key: Key) -> str:
    """A place, as a cursor that can be typed."""
    at, number, name = key
    return f"{(at - _EPOCH) // _MICROSECOND}.{number}.{name}"


def place(cursor: str) -> Key | None:
    """The place that a cursor names; None for an empty one.

    Raises:
        InvalidCursorError: it was not given by a list.

    """
    if not cursor:
        return None
    try:
        micros, number, name = cursor.split(".", 2)
        return _EPOCH + int(micros) * _MICROSECOND, int(number), name
    except (ValueError, OverflowError):
        raise InvalidCursorError(cursor=ascii(cursor[:80])) from None
