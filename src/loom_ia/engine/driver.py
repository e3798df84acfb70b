"""Drives a run: read, plan, perform, write, apply, again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from loom_ia.core.effects import Effect, Fail, Stop
from loom_ia.core.errors import EpochStaleError, LoomError, RunEndedError, UnknownEventError
from loom_ia.core.events import RunClaimed
from loom_ia.core.fold import fold
from loom_ia.core.plan import Plan
from loom_ia.core.planner import next_effect, overdue
from loom_ia.core.ports import RunRef
from loom_ia.core.state import RunState
from loom_ia.engine.flight import Flight
from loom_ia.engine.interpreter import Interpreter
from loom_ia.engine.pen import Pen, SupersededError
from loom_ia.engine.world import Ports, Scene


async def load(ref: RunRef, ports: Ports) -> RunState:
    """State of a run, read from its journal."""
    return fold((await ports.journal.read(ref)).events)


def _drivable(state: RunState, plan: Plan, now: datetime) -> bool:
    """True when a new drive has something to do; what was in flight before it is unknown."""
    return next_effect(state.evolve(epoch=state.epoch + 1), plan, now) is not None


def _until(state: RunState) -> datetime | None:
    """First instant at which a question is no longer open."""
    held = [call.request for call in state.calls if call.status == "held"]
    ends = [request.expires_at for request in held if request is not None]
    return min((end for end in ends if end is not None), default=None)


class Drive:
    """One drive of one run, from a claim to a release.

    Starting, resuming and streaming are the same: the journal says where the run is.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.flight = Flight()
        self.pen: Pen | None = None
        self.leaving = False
        """True when it must give the run back as soon as its present effect is over."""

    async def run(self, *, steal: bool = False, orphan: bool = False) -> RunState:
        """Advance the run until it has ended, waits for a human, or is taken by another driver.

        `orphan`: its driver died; its lease is taken and given back even if nothing is to be done.

        Raises:
            RunHeldError: a living driver holds it, and `steal` is false.
            StoreUnavailableError: the store failed; the run stays as its journal tells.

        """
        pen = self.pen = await self._claim(steal=steal, orphan=orphan)
        if pen is None:
            return await load(self.scene.ref, self.scene.ports)
        timer = self._deadline(pen)
        interpreter = Interpreter(self.scene, self.flight, pen.lease.epoch)
        try:
            while True:
                while not self.leaving and (effect := self._next(pen)) is not None:
                    if pen.due():
                        await pen.rest()
                    pen.stopping, pen.moved = isinstance(effect, Stop), False
                    work = interpreter.perform(effect, pen)
                    if work is not None:
                        await work
                if await self._leave(pen):
                    return pen.state
        except (SupersededError, EpochStaleError):
            return await load(self.scene.ref, self.scene.ports)
        except asyncio.CancelledError:
            with suppress(SupersededError, LoomError):
                await pen.salvage()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            await interpreter.close()

    async def _claim(self, *, steal: bool, orphan: bool) -> Pen | None:
        """Take the run, unless nothing can be done in it."""
        ref, ports, plan = self.scene.ref, self.scene.ports, self.scene.world.plan
        state = self.scene.state
        if state is None or state.at is None:
            page = await ports.journal.read(ref)
            state, now = fold(page.events), page.now
        else:
            now = state.at
        if not _drivable(state, plan, now):
            page = await ports.journal.read(ref, after=state.position)
            state = fold(page.events, state)
            if state.ending is not None or not (orphan or _drivable(state, plan, page.now)):
                return None
        if state.foreign is not None:
            raise UnknownEventError(run_id=ref.run_id, type=state.foreign)
        ttl, asked = timedelta(seconds=ports.lease), ports.clock.monotonic()
        try:
            lease = await ports.leases.claim(ref, ttl=ttl, holder=ports.holder, steal=steal)
        except RunEndedError:
            return None
        tail = await ports.journal.read(ref, after=state.position)
        pen = Pen(self.scene, fold(tail.events, state), lease, asked)
        if pen.state.ending is None:
            fact = RunClaimed.make(ports.holder, crashed=lease.crashed)
            pen.take("outcome", "", fact)
            pen.take("outcome", "", *self.scene.opening)
        return pen

    def _deadline(self, pen: Pen) -> asyncio.TimerHandle | None:
        """Halts the flight when the driving time is spent; the planner then fails the run."""
        limit = self.scene.world.plan.timeout
        if limit is None:
            return None
        left = (limit - pen.state.driven).total_seconds()
        return asyncio.get_running_loop().call_later(max(left, 0), self.flight.halt, "timeout")

    def _next(self, pen: Pen) -> Effect | None:
        if pen.state.foreign is not None:
            raise UnknownEventError(run_id=self.scene.ref.run_id, type=pen.state.foreign)
        if self.scene.notices is not None and pen.state.ending is None:
            pen.take("outcome", "", *self.scene.notices())
        plan = self.scene.world.plan
        # only what has a date depends on the instant, which takes some time to tell
        now = pen.now if plan.timeout is not None or pen.state.calls else pen.known
        effect = next_effect(pen.state, plan, now)
        halted = self.flight.reason
        if halted is None or isinstance(effect, Stop | Fail):
            return effect
        if halted == "timeout" and pen.state.ending is None:
            return overdue(pen.state, self.scene.world.plan)
        return None

    async def _leave(self, pen: Pen) -> bool:
        """Write what waits and give the lease back; False when the run moved meanwhile."""
        if not await pen.flush(sync=True):
            return False
        if pen.state.ending is not None:
            return True
        waiting = next_effect(pen.state, self.scene.world.plan, pen.now) is None
        if await self.scene.ports.leases.release(
            pen.lease, position=pen.state.position, waiting=waiting, until=_until(pen.state)
        ):
            return True
        await pen.catch_up()
        return False
