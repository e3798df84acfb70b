"""Reads what runs left: traces, consumption."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from loom_ia.core.errors import RunNotFoundError
from loom_ia.core.events import Event
from loom_ia.core.ports import Paging
from loom_ia.core.projections.report import Period, Report, Tally, window
from loom_ia.core.projections.request import SentRequest
from loom_ia.core.projections.trace import TraceRun, trace
from loom_ia.core.projections.view import EventPage, RunPage
from loom_ia.core.text import Text
from loom_ia.runtime.errors import InvalidRequestError, SessionNotFoundError
from loom_ia.runtime.following import Watched, follow_run, follow_session, watch_run
from loom_ia.runtime.listing import QueryOptions, RunListOptions, listed_runs, queried
from loom_ia.runtime.sent import sent

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

PAGE = 500
"""Sessions listed at once."""


class Reader:
    """Folds journals into what callers ask; writes nothing."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def follow(
        self, tenant: str, run_id: str | None, session_id: str | None, after: int
    ) -> AsyncGenerator[Event]:
        """See `Loom.follow`.

        Raises:
            InvalidRequestError: neither a run nor a session is given, or both are.

        """
        if run_id is not None and session_id is None:
            return follow_run(self._host, tenant, run_id, after)
        if session_id is not None and run_id is None:
            return follow_session(self._host, tenant, session_id, after)
        given = [value for value in (run_id, session_id) if value is not None] or None
        raise InvalidRequestError(
            what="follow", expected=Text("one of run_id and session"), given=given
        )

    def watch(self, tenant: str, run_id: str, after: int) -> AsyncGenerator[Watched]:
        """See `Loom.watch`."""
        return watch_run(self._host, tenant, run_id, after)

    async def runs(self, options: RunListOptions) -> RunPage:
        """See `Loom.runs`."""
        return await listed_runs(self._host, options)

    async def query(self, options: QueryOptions) -> EventPage:
        """See `Loom.query`."""
        return await queried(self._host, options)

    async def trace(self, tenant: str, run_id: str) -> TraceRun:
        """See `Loom.trace`."""
        runs = self._host.runs
        return trace(await runs.events(await runs.locate(tenant, run_id)))

    async def request(self, tenant: str, run_id: str, number: int) -> SentRequest:
        """See `Loom.request`."""
        return await sent(self._host, await self._host.runs.locate(tenant, run_id), number)

    async def report(
        self,
        tenant: str,
        run_id: str | None,
        session_id: str | None,
        period: Period | None,
        day: date | None,
    ) -> Report:
        """See `Loom.report`.

        Raises:
            InvalidRequestError: not one of the three is asked, or more than one.

        """
        asked = [value for value in (run_id, session_id, period) if value is not None]
        if len(asked) != 1:
            expected = Text("one of run_id, session and period")
            raise InvalidRequestError(what="report", expected=expected, given=asked or None)
        if run_id is not None:
            return await self._run_report(tenant, run_id)
        if session_id is not None:
            return await self._session_report(tenant, session_id)
        return await self.consumption(tenant, period or "day", day)

    async def _run_report(self, tenant: str, run_id: str) -> Report:
        ref = await self._host.runs.locate(tenant, run_id)
        events = await self._host.runs.events(ref)
        if not events:
            raise RunNotFoundError(run_id=run_id)
        tally = Tally()
        tally.take(events)
        return tally.report(tenant, ref.session_id, run_id)

    async def _session_report(self, tenant: str, session_id: str) -> Report:
        page = await self._host.store.journal.session(tenant, session_id)
        if not page.events:
            raise SessionNotFoundError(session_id=session_id)
        tally = Tally()
        tally.take(page.events)
        return tally.report(tenant, session_id, None)

    async def consumption(self, tenant: str, period: Period, day: date | None) -> Report:
        """See `Loom.consumption`; one session at a time is held in memory."""
        self._host.check_tenant(tenant)
        store = self._host.store
        tally, paging = Tally(), Paging(limit=PAGE)
        while True:
            page = await store.index.sessions(tenant, paging=paging)
            tally.window = tally.window or window(period, page.now, day)
            for entry in page:
                if entry.updated_at >= tally.window.since and entry.started_at < tally.window.until:
                    tally.take((await store.journal.session(tenant, entry.session_id)).events)
            if not page.next:
                break
            paging = replace(paging, after=page.next)
        return tally.report(tenant, None, None)
