"""Whole conversations: listed, shown, exported, erased with everything that is theirs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

from loom_ia.core.errors import (
    LoomError,
    RunNotFoundError,
    SessionErasedError,
    SessionHeldError,
)
from loom_ia.core.events import Principal
from loom_ia.core.ports import RunFilter, RunRef, every
from loom_ia.core.projections.index import SessionEntry, Tombstone
from loom_ia.core.projections.view import (
    ErasedSession,
    SessionDetail,
    SessionPage,
    SessionView,
    line,
    session_fields,
)
from loom_ia.runtime.errors import SessionNotFoundError
from loom_ia.runtime.export import exported
from loom_ia.runtime.listing import MOST, paging

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

logger = logging.getLogger("loom_ia.runtime")


class Sessions:
    """The conversations of an open Loom."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def listed(self, tenant: str, after: str, limit: int) -> SessionPage:
        """See `Loom.sessions`."""
        self._host.check_tenant(tenant)
        page = await self._host.store.index.sessions(tenant, None, paging(after, limit))
        views = [SessionView.model_validate(session_fields(entry)) for entry in page]
        return SessionPage(sessions=tuple(views), next=page.next)

    async def shown(self, tenant: str, session_id: str, after: str, limit: int) -> SessionDetail:
        """See `Loom.session`."""
        entry = await self._known(tenant, session_id)
        index = self._host.store.index
        runs = await index.runs(tenant, RunFilter(session_id), paging(after, limit))
        lines = tuple(line(entry, runs.now) for entry in runs)
        fields = session_fields(entry) | {"lines": lines, "next": runs.next}
        return SessionDetail.model_validate(fields)

    async def export(self, tenant: str, session_id: str) -> AsyncGenerator[str]:
        """See `Loom.export_session`."""
        await self._known(tenant, session_id)
        host = self._host
        async for written in exported(host.store, host.artifacts, tenant, session_id):
            yield written
        await self.refuse_erased(tenant, session_id)

    async def delete(self, tenant: str, session_id: str, by: str) -> ErasedSession:
        """See `Loom.delete_session`."""
        self._host.check_tenant(tenant)
        tomb = await self._erased(tenant, session_id, by)
        self._host.histories.forget(tenant, session_id)
        self._host.bus.wake(tenant, session_id)
        if tomb is None:
            raise SessionNotFoundError(session_id=session_id)
        tomb = await self._finish(tenant, tomb)
        return ErasedSession(session_id=session_id, at=tomb.at, by=tomb.by, pending=tomb.pending)

    async def _erased(self, tenant: str, session_id: str, by: str) -> Tombstone | None:
        """Erase what the store has of a session, once its driven runs are stopped.

        Raises:
            SessionHeldError: somebody takes its runs again and again.

        """
        for last in (False, False, True):
            await self._stop(tenant, session_id, by)
            try:
                return await self._host.store.journal.delete(tenant, session_id, by=by)
            except SessionHeldError:  # a run was taken meanwhile
                if last:
                    raise
        return None

    async def _stop(self, tenant: str, session_id: str, by: str) -> None:
        """Stop the runs of a session that somebody drives, or drove when they died."""
        index, open_runs = self._host.store.index, RunFilter(session_id, ended=False)
        found = every(lambda p: index.runs(tenant, open_runs, p), limit=MOST)
        who = Principal.make(by, "engine")
        for entry in [e async for e in found if e.lease_until is not None]:
            ref = RunRef(tenant, session_id, entry.run_id, entry.run_id)
            with suppress(SessionErasedError, RunNotFoundError):
                await self._host.runs.cancel(ref, who, force=True)

    async def finish(self, tenant: str) -> None:
        """Erase what is left of sessions whose erasure was cut, or could not be ended then."""
        for tomb in await self._host.store.index.erased(tenant):
            try:
                await self._host.store.journal.delete(tenant, tomb.session_id, by=tomb.by)
                await self._finish(tenant, tomb)
            except LoomError as error:
                logger.warning("session %s is not wholly erased: %s", tomb.session_id, error)

    async def _finish(self, tenant: str, tomb: Tombstone) -> Tombstone:
        """Erase what the store does not keep, then say so to the store."""
        journal, session_id = self._host.store.journal, tomb.session_id
        await self._host.artifacts.drop(tenant, session_id)
        await self._host.keys.drop(tenant, session_id)
        return await journal.delete(tenant, session_id, by=tomb.by, complete=True) or tomb

    async def refuse_erased(self, tenant: str, session_id: str) -> None:
        """Raise for a session that was erased.

        Raises:
            SessionErasedError: says when, and by whom.

        """
        for tomb in await self._host.store.index.erased(tenant, session_id):
            at = tomb.at.isoformat(timespec="seconds")
            raise SessionErasedError(session_id=session_id, by=tomb.by, at=at)

    async def _known(self, tenant: str, session_id: str) -> SessionEntry:
        """What the index knows of a session.

        Raises:
            SessionErasedError, SessionNotFoundError: it has no run.

        """
        for entry in await self._host.store.index.sessions(tenant, session_id):
            return entry
        await self.refuse_erased(tenant, session_id)
        raise SessionNotFoundError(session_id=session_id)
