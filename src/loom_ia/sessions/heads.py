"""Histories of sessions, each read once: a run reads what came after the run before."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from loom_ia.core.errors import LoomError
from loom_ia.core.fold import fold
from loom_ia.core.ports import Journal, RunRef, Snapshots
from loom_ia.core.wording import Language
from loom_ia.sessions.history import Going, History, Told
from loom_ia.sessions.snapshots import Part, read, written

logger = logging.getLogger("loom_ia.sessions")
EVERY = 50
"""Events of a session between two parts of its snapshot."""
CHUNK = 500
"""Events read at once."""
REMEMBERED = 64
"""Sessions whose history stays in memory."""

Key = tuple[str, str]


@dataclass(slots=True)
class _Known:
    history: History
    saved: int = 0
    """Position at which the snapshot ends; 0 without one that can be continued."""


class Histories:
    """What the next run of each session is told."""

    def __init__(self, journal: Journal, snapshots: Snapshots) -> None:
        self._journal, self._snapshots = journal, snapshots
        self._known: OrderedDict[Key, _Known] = OrderedDict()

    async def now(self, tenant_id: str, session_id: str, language: Language) -> History:
        """History of a session as it is."""
        known = await self._begun((tenant_id, session_id), language)
        return await self._advanced((tenant_id, session_id), known, None)

    async def before(self, ref: RunRef, first: int, language: Language) -> History:
        """History of a session before its event number `first`."""
        key = (ref.tenant_id, ref.session_id)
        known = await self._begun(key, language)
        if known.history.seq >= first:  # an earlier run goes on, behind which others started
            known = _Known(History(language))
        return await self._advanced(key, known, first)

    async def ended(self, ref: RunRef, events: int, language: Language) -> None:
        """Keep what a session became behind a run of so many events, if that is enough to be kept.

        Never fails: what is not kept is read again.
        """
        key = (ref.tenant_id, ref.session_id)
        try:
            known = await self._begun(key, language)
            if known.history.seq + events - known.saved >= EVERY:
                await self._advanced(key, known, None)
                await self._save(key, known)
        except LoomError as error:
            logger.warning("history of session %s is not kept: %s", ref.session_id, error)

    def forget(self, tenant_id: str, session_id: str) -> None:
        """Read a session anew the next time."""
        self._known.pop((tenant_id, session_id), None)

    async def _save(self, key: Key, known: _Known) -> None:
        history = known.history
        part = written(history, known.saved)
        await self._snapshots.add(*key, part, first=not known.saved)
        known.history, known.saved = history.saved(), history.seq

    async def _begun(self, key: Key, language: Language) -> _Known:
        """What is remembered of a session, or what its first events or its snapshot tell."""
        known = self._known.get(key)
        if known is None or known.history.language != language:
            known = self._known[key] = await self._loaded(key, language)
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known

    async def _loaded(self, key: Key, language: Language) -> _Known:
        events = (await self._journal.session(*key, limit=EVERY)).events
        if len(events) == EVERY:
            found = read(await self._snapshots.load(*key), language)
            if found is not None and await self._holds(key, found[0]):
                return await self._restored(key, *found)
        return _Known(History(language).then(events))

    async def _holds(self, key: Key, part: Part) -> bool:
        """True when the session has, at the end of a part, the event that the part says."""
        events = (await self._journal.session(*key, after=part.seq - 1, limit=1)).events
        return [event.id for event in events] == [part.last_id]

    async def _restored(self, key: Key, part: Part, told: list[Told]) -> _Known:
        going = [await self._going(key, mark.start, mark.run_id, part.seq) for mark in part.going]
        at = (part.seq, part.last_id, part.ordinal)
        return _Known(History.restored(part.language, at, [*told, *going]), part.seq)

    async def _going(self, key: Key, start: int, run_id: str, seq: int) -> Going:
        events = (await self._journal.read(RunRef(*key, run_id, run_id))).events
        return Going(start, fold(event for event in events if event.seq <= seq))

    async def _advanced(self, key: Key, known: _Known, first: int | None) -> History:
        """Take the events behind what is known, up to the one before number `first`."""
        history = known.history
        while first is None or history.seq < first - 1:
            limit = CHUNK if first is None else min(CHUNK, first - 1 - history.seq)
            events = (await self._journal.session(*key, after=history.seq, limit=limit)).events
            taken = [event for event in events if first is None or event.seq < first]
            history = history.then(taken)
            if len(taken) < limit:
                break
        known.history = history
        return history
