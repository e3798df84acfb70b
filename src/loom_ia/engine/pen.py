"""Writes the facts of one drive, behind whatever others wrote meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from loom_ia.core.errors import (
    EpochStaleError,
    JournalMovedError,
    RunStoppedError,
    StoreUnavailableError,
)
from loom_ia.core.events import CannotApplyError, Event, Payload, ToolCompleted, ToolReported
from loom_ia.core.fold import fold
from loom_ia.core.ports import Append, Draft, Fence, Journal, Lease, Page, RunRef
from loom_ia.core.state import RunState
from loom_ia.engine.world import Scene, unseen

logger = logging.getLogger("loom_ia.engine")

FactKind = Literal["plan", "outcome"]
"""`plan` facts are dropped when the journal moved; `outcome` facts are written all the same."""

BREATH = 0.005
"""Seconds."""


class SupersededError(Exception):
    """Another driver claimed the run: this one plans nothing more."""


class Pen:
    """The state of a drive, and its way to the journal.

    `state` is ahead of the journal by the facts that wait for a barrier: nothing outside happens
    between a fact and the barrier that writes it.
    """

    def __init__(self, scene: Scene, state: RunState, lease: Lease, asked: float) -> None:
        """Pen of a drive whose lease was asked at the monotonic instant `asked`."""
        self._scene = scene
        self._written = state
        self.state = state
        self._new_id = scene.ports.ids.new
        self._pending: list[Draft] = []
        self._plans: list[Draft] = []
        """Those of them that are dropped when the journal moved."""
        self._late: list[Draft] = []
        """Outcomes that lost their place."""
        self._monotonic = scene.ports.clock.monotonic
        self._instant(lease.now)
        self._lease(lease, asked)
        self._due = min(self._mark + BREATH, self._until)
        self.stopping = False
        self.moved = False
        """True when others wrote to the run since its present effect was planned."""

    @property
    def known(self) -> datetime:
        """The store's instant when it was last heard of."""
        return self._now

    @property
    def now(self) -> datetime:
        """The store's instant, as far as this process can tell."""
        elapsed = self._monotonic() - self._mark
        return self._now + timedelta(seconds=elapsed)

    def _instant(self, now: datetime) -> None:
        self._now, self._mark = now, self._monotonic()

    def due(self) -> bool:
        """True every few milliseconds, and once the lease is over."""
        return self._monotonic() >= self._due

    async def rest(self) -> None:
        """Let the other runs go on, which one that never waits would not, and keep the lease.

        Raises:
            EpochStaleError: another driver claimed the run.

        """
        await asyncio.sleep(0)
        now = self._monotonic()
        if now >= self._until:
            await self.renew()
        self._due = min(now + BREATH, self._until)

    @property
    def left(self) -> float:
        """Seconds before the lease ends, as far as this process can tell."""
        return self._until - self._monotonic()

    async def renew(self) -> None:
        """Push the end of the lease; nothing is planned past it.

        Raises:
            EpochStaleError: another driver claimed the run.

        """
        ports, asked = self._scene.ports, self._monotonic()
        ttl = timedelta(seconds=ports.lease)
        self._lease(await ports.leases.renew(self.lease, ttl=ttl), asked)

    def _lease(self, lease: Lease, asked: float) -> None:
        # Counted from the question: the process may be suspended before it reads the answer.
        self.lease = lease
        self._until = asked + (lease.until - lease.now).total_seconds()

    def take(self, kind: FactKind, span: str, *facts: Payload) -> bool:
        """Take facts that may wait for a barrier; False when the run must be planned again.

        `plan` facts are dropped together when one of them no longer follows; an `outcome` that no
        longer does is recorded as a late one.
        """
        state, epoch = self.state, self.lease.epoch
        taken: list[Draft] = []
        for fact in facts:
            draft = Draft(self._new_id(), fact, span)
            try:
                state = fact.evolve(state)
            except CannotApplyError:
                if not self.moved:
                    raise
                if kind == "plan":
                    return False
                self._late.append(draft)
            else:
                taken.append(draft)
                if state.epoch != epoch:  # its event will bear the epoch of this drive
                    state = state.evolve(epoch=epoch)
        self.state = state
        self._pending += taken
        if kind == "plan":
            self._plans += taken
        return True

    async def write(self, kind: FactKind, span: str, *facts: Payload, sync: bool = False) -> bool:
        """Take facts and write all that waits; True when they stand, and the lease too.

        Raises:
            SupersededError, EpochStaleError: another driver claimed the run.
            StoreUnavailableError: the store did not take them.

        """
        if not (self.take(kind, span, *facts) and await self.flush(sync=sync)):
            return False
        if self._monotonic() >= self._until:  # suspended meanwhile: what was planned may not leave
            await self.renew()
        return True

    async def flush(self, *, sync: bool = False) -> bool:
        """Write what waits; True when all of it was taken as it was."""
        intact = True
        if self._late:
            await self._report()
        ports, ref = self._scene.ports, self._scene.ref
        while drafts := self._pending:
            position = self._written.position
            kind = "plan" if self._plans else "outcome"
            fence = Fence(kind, position, self.lease.epoch, stop=self.stopping)
            try:
                page = await ports.journal.append(Append(ref, drafts, fence, sync=sync))
            except StoreUnavailableError:
                page = await ports.journal.read(ref, after=position)
                if not {draft.id for draft in drafts} <= {event.id for event in page.events}:
                    raise
            except (JournalMovedError, RunStoppedError):
                intact = False
                await self.catch_up()
                continue
            except EpochStaleError:
                self._late += drafts
                self._pending, self._plans = [], []
                await self._report()
                raise SupersededError from None
            self._taken(page, len(drafts))
        return intact

    async def salvage(self) -> None:
        """Write the outcomes that wait, and no plan: the drive is being cut.

        Raises:
            SupersededError, StoreUnavailableError: see `write`.

        """
        self._pending, self._plans = self._outcomes(), []
        await self.flush()

    def _outcomes(self) -> list[Draft]:
        """What waits and is no plan."""
        plans = {draft.id for draft in self._plans}
        return [draft for draft in self._pending if draft.id not in plans]

    def _taken(self, page: Page, written: int) -> None:
        self._pending, self._plans = [], []  # the store may keep the list it was given
        if len(page.events) == written:
            state, at = self.state, page.now
            since, position = state.driven_at, self._written.position + written
            driven = state.driven + (at - since) if since else state.driven
            changes = {"position": position, "at": at, "driven": driven, "driven_at": at}
            if state is self._written:
                self.state = state.evolve(**changes)
            else:
                state.__dict__.update(changes)  # made by `take`: nobody reads this of it before
        else:
            self.moved = True
            self.state = fold(page.events, self._written)
        self._written = self.state
        self._instant(page.now)
        self._show(page.events)

    def _show(self, events: Sequence[Event]) -> None:
        show = self._scene.show
        if show is unseen:
            return
        for event in events:
            show(event)

    async def catch_up(self) -> None:
        """Apply what others wrote; plans that waited are dropped, outcomes are kept behind it."""
        page = await self._scene.ports.journal.read(self._scene.ref, after=self._written.position)
        self.moved = True
        known = {event.id for event in page.events}
        self._written = self.state = fold(page.events, self._written)
        self._instant(page.now)
        self._show(page.events)
        kept = [draft for draft in self._outcomes() if draft.id not in known]
        self._pending, self._plans = [], []
        for draft in kept:
            await self._keep(draft)

    async def _keep(self, draft: Draft) -> None:
        """Take again an outcome that was not written, or record it as a late one."""
        if self.state.ending is not None:
            await self._report_one(draft)
            return
        try:
            state = draft.payload.evolve(self.state)
        except CannotApplyError:
            await self._report_one(draft)
        else:
            self.state = state.evolve(epoch=self.lease.epoch)
            self._pending.append(draft)

    async def _report(self) -> None:
        """Record, under the fence that takes them at any time, outcomes that lost their place."""
        late, self._late = self._late, []
        for draft in late:
            await self._report_one(draft)

    async def _report_one(self, draft: Draft) -> None:
        fact = draft.payload
        if not isinstance(fact, ToolCompleted):
            return
        await report(self._scene.ports.journal, self._scene.ref, fact, draft)


async def end(pen: Pen, fact: Payload) -> None:
    """Write the last fact of a run, on the disk."""
    await pen.write("plan", "", fact, sync=True)


async def report(journal: Journal, ref: RunRef, fact: ToolCompleted, draft: Draft) -> None:
    """Record an outcome that comes late: it settles an unknown one and never reopens a run."""
    late = ToolReported(
        call_id=fact.call_id, blocks=fact.blocks, is_error=fact.is_error, ms=fact.ms
    )
    write = Append(ref, [replace(draft, payload=late)], Fence("report"), sync=True)
    try:
        await journal.append(write)
    except StoreUnavailableError as error:
        logger.error("outcome of call %s was not recorded: %s", fact.call_id, error)  # noqa: TRY400
