"""Follows journals as they grow, whoever writes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from loom_ia.core.events import Event, RunResumed, status_of
from loom_ia.core.ports import Append, Bus, Journal, Listener, Page, RunRef
from loom_ia.engine.world import Shown
from loom_ia.runtime.airing import Ear
from loom_ia.runtime.errors import NotEnteredError, SessionNotFoundError

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

POLL = 0.5
"""Seconds after which a follower that heard nothing reads again: another process may have written.
"""

CHUNK = 200
"""Events of a run that a follower holds at most."""

Watched = Shown | None


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


class _Reading:
    """A run read behind a position, a part at a time: at most one is held."""

    def __init__(self, host: Host, ref: RunRef, after: int) -> None:
        self._runs, self._ref, self._after = host.runs, ref, after
        self.position = 0
        self.ended = self.partial = False

    @property
    def done(self) -> bool:
        """True when nothing follows."""
        return self.ended and not self.partial

    async def more(self) -> list[Event]:
        """The next events; `partial` says that there are others behind them."""
        events = await self._runs.events(self._ref, after=self.position)
        kept: list[Event] = []
        self.partial = False
        for event in events:
            if len(kept) == CHUNK:
                self.partial = True
                break
            self.position = event.position
            if status_of(event.payload) is not None:
                self.ended = True
            elif isinstance(event.payload, RunResumed):
                self.ended = False
            if event.position > self._after:
                kept.append(event)
        return kept


async def follow_run(host: Host, tenant: str, run_id: str, after: int) -> AsyncGenerator[Event]:
    """Events of a run behind position `after`, as they come, until it has ended.

    Nothing lies between what was read and what is heard of: the listener is there first, and each
    reading starts where the one before stopped.

    Raises:
        RunNotFoundError: no run of this tenant has this id.
        SessionErasedError: its session was erased meanwhile.
        NotEnteredError: the Loom was closed meanwhile.

    """
    ref = await host.runs.locate(tenant, run_id)
    async with host.bus.listen(tenant, ref.session_id) as listener:
        reading = _Reading(host, ref, after)
        while True:
            new = await reading.more()
            for event in new:
                yield event
            if reading.done:
                return
            if not new:
                await host.sessions.refuse_erased(tenant, ref.session_id)
            if not reading.partial:
                await _heard(listener)


async def watch_run(host: Host, tenant: str, run_id: str, after: int) -> AsyncGenerator[Watched]:
    """What `follow_run` gives; the text that this process sees come, each piece in its place among
    the events; and None whenever nothing came for a while.
    """
    with host.air.listen(run_id) as ear:
        ref = await host.runs.locate(tenant, run_id)
        async with host.bus.listen(tenant, ref.session_id) as listener:
            waking = asyncio.get_running_loop().create_task(_wake(listener, ear))
            try:
                async with aclosing(_watched(host, ref, ear, after)) as watched:
                    async for item in watched:
                        yield item
            finally:
                waking.cancel()
                await asyncio.wait({waking})


async def _wake(listener: Listener, ear: Ear) -> None:
    while await listener.heard(POLL):
        ear.wake()
    ear.close()


async def _watched(host: Host, ref: RunRef, ear: Ear, after: int) -> AsyncGenerator[Watched]:
    reading = _Reading(host, ref, after)
    while True:
        quiet = True
        async for item in _news(reading, ear):
            quiet = False
            yield item
        if reading.done:
            return
        if ear.closed:
            raise NotEnteredError
        if quiet:
            await host.sessions.refuse_erased(ref.tenant_id, ref.session_id)
            yield None
        if not reading.partial:
            await ear.heard()


async def _news(reading: _Reading, ear: Ear) -> AsyncGenerator[Shown]:
    """Events that were not read yet, and the text around them."""
    if ear.stale or reading.partial:
        ear.stale = False
        for event in await reading.more():
            for piece in ear.pieces(event.position - 1):
                yield piece
            yield event
    if not reading.done and not reading.partial:
        for piece in ear.pieces(reading.position, loose=True):
            yield piece


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
