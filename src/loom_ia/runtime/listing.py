"""Lists of runs and of events, page by page."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from loom_ia.core.events import Outcome
from loom_ia.core.ports import EventFilter, Paging, RunFilter
from loom_ia.core.projections.view import EventPage, RunPage, line
from loom_ia.core.text import Text
from loom_ia.runtime.errors import InvalidRequestError

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

MOST = 1000
"""Items of a page, at most."""
USUAL = 50


class PageOptions(TypedDict, total=False):
    """Which page of a list."""

    tenant: str
    after: str
    """The `next` of the page before."""
    limit: int


class RunListOptions(PageOptions, total=False):
    """Which runs; what is left out chooses all."""

    session: str | None
    agent: str | None
    ended: bool | None


class QueryOptions(PageOptions, total=False):
    """Which events; what is left out chooses all."""

    session: str | None
    run_id: str | None
    types: Collection[str]
    statuses: Collection[Outcome]
    since: datetime | None
    """First instant, with its zone."""
    until: datetime | None
    """Instant before which they are, with its zone."""


def paging(after: str, limit: int) -> Paging:
    """Which page is asked for.

    Raises:
        InvalidRequestError: nobody gives as many items at once.

    """
    if not 1 <= limit <= MOST:
        expected = Text("a number from 1 to {most}", {"most": MOST})
        raise InvalidRequestError(what="limit", expected=expected, given=limit)
    return Paging(after, limit)


async def listed_runs(host: Host, options: RunListOptions) -> RunPage:
    """See `Loom.runs`."""
    tenant = options.get("tenant", "default")
    host.check_tenant(tenant)
    which = RunFilter(options.get("session"), options.get("agent"), options.get("ended"))
    asked = paging(options.get("after", ""), options.get("limit", USUAL))
    page = await host.store.index.runs(tenant, which, asked)
    return RunPage(runs=tuple(line(entry, page.now) for entry in page), next=page.next)


async def queried(host: Host, options: QueryOptions) -> EventPage:
    """See `Loom.query`."""
    tenant = options.get("tenant", "default")
    host.check_tenant(tenant)
    which = EventFilter(
        session_id=options.get("session"),
        run_id=options.get("run_id"),
        types=frozenset(options.get("types", ())),
        statuses=frozenset(options.get("statuses", ())),
        since=_instant("since", options.get("since")),
        until=_instant("until", options.get("until")),
    )
    asked = paging(options.get("after", ""), options.get("limit", USUAL))
    page = await host.store.journal.query(tenant, which, asked)
    return EventPage.model_construct(events=tuple(page), next=page.next)


def _instant(what: str, given: datetime | None) -> datetime | None:
    if given is not None and given.tzinfo is None:
        expected = Text("an instant with its time zone")
        raise InvalidRequestError(what=what, expected=expected, given=given.isoformat())
    return given
