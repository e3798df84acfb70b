"""Follows journals as they grow, whoever writes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from loom_ia.core.events import Event
from loom_ia.core.fold import apply
from loom_ia.core.ports import Append, Bus, Journal, Listener, Page, RunRef
from loom_ia.core.state import RunState
from loom_ia.runtime.errors import NotEnteredError, SessionNotFoundError

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

POLL = 0.5
"""Seconds after which a follower that heard nothing reads again: another process may have written.
"""


class Followed:
    """A journal whose writes wake those who follow the session."""

    def __init__(self, journal: Journal, bus: Bus) -> None:
        self._append, self._wake = journal.append, bus.wake
        self.durable = journal.durable
        self.read, self.session, self.query = journal.read, journal.session, journal.query
        self.repair, self.delete = journal.repair, journal.delete

    async def append(self, write: Append) -> Page:
        """Write, then wake."""
        page = await self._append(write)
        self._wake(write.ref.tenant_id, write.ref.session_id)
        return page


async def follow_run(host: Host, tenant: str, run_id: str, after: int) -> AsyncGenerator[Event]:
    """Events of a run behind position `after`, as they come, until it has ended.

    Nothing lies between what was read and what is heard of: the listener is there first, and each
    reading starts where the one before stopped. At most one reading is held.

    Raises:
        RunNotFoundError: no run of this tenant has this id.
        SessionErasedError: its session was erased meanwhile.
        NotEnteredError: the Loom was closed meanwhile.

    """
    ref = await host.runs.locate(tenant, run_id)
    async with host.bus.listen(tenant, ref.session_id) as listener:
        state = RunState()
        while True:
            state, new = await _read(host, ref, state)
            for event in new:
                if event.position > after:
                    yield event
            if state.ending is not None:
                return
            if not new:
                await host.sessions.refuse_erased(tenant, ref.session_id)
            await _heard(listener)


async def _read(host: Host, ref: RunRef, state: RunState) -> tuple[RunState, list[Event]]:
    events = list(await host.runs.events(ref, after=state.position))
    for event in events:
        state = apply(state, event)
    return state, events


async def follow_session(
    host: Host, tenant: str, session_id: str, after: int
) -> AsyncGenerator[Event]:
    """Events of a session behind position `after`, as they come, until the caller stops.

    Raises:
        SessionNotFoundError: no session of this tenant has this id.
        SessionErasedError: it was erased meanwhile.
        NotEnteredError: the Loom was closed meanwhile.

    """
    journal = host.store.journal
    if not (await journal.session(tenant, session_id)).events:
        raise SessionNotFoundError(session_id=session_id)
    async with host.bus.listen(tenant, session_id) as listener:
        while True:
            events = (await journal.session(tenant, session_id, after=after)).events
            for event in events:
                after = event.seq
                yield event
            if not events:
                await host.sessions.refuse_erased(tenant, session_id)
            await _heard(listener)


async def _heard(listener: Listener) -> None:
    if not await listener.heard(POLL):
        raise NotEnteredError
