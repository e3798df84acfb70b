"""The runs that this process drives, each kept, none left behind."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

from loom_ia.core.state import RunState
from loom_ia.engine.begun import Begun
from loom_ia.engine.driver import Drive
from loom_ia.engine.flight import HaltedError, HaltReason
from loom_ia.engine.world import GRACE, Ports, Scene
from loom_ia.runtime.keeping import Keeper

LOOK = 1.0
"""Seconds between two looks at the driven runs, at most."""


class Drives:
    """Drives of this process, by run."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._active: dict[str, Keeper] = {}
        self._tasks: set[asyncio.Task[RunState]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._closing = False

    async def drive(self, scene: Scene, *, steal: bool = False) -> RunState:
        """Drive a run to its end or to its next wait.

        When the caller is cancelled the run is stopped where it is, its outcomes recorded; it can
        be resumed.
        """
        drive = Drive(scene)
        begun = Begun(self._run(drive, steal=steal))
        task = begun.begin()
        if begun.ended:
            return begun.result()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            drive.flight.halt("cancelled")
            await asyncio.wait({task}, timeout=GRACE + LOOK)
            raise

    async def _run(self, drive: Drive, *, steal: bool) -> RunState:
        run_id = drive.scene.ref.run_id
        while (earlier := self._active.get(run_id)) is not None:
            await self._settled(earlier)
        keeper = self._active[run_id] = Keeper(drive, self._ports)
        self._watched()
        drive.leaving = self._closing
        try:
            return await _equipped(drive, steal=steal)
        finally:
            if self._active.get(run_id) is keeper:
                del self._active[run_id]

    async def _settled(self, keeper: Keeper) -> None:
        while self._active.get(keeper.drive.scene.ref.run_id) is keeper:
            await self._ports.clock.sleep(0.01)

    def halt(self, run_id: str, reason: HaltReason) -> bool:
        """Stop what a run has in flight here; False when this process does not drive it."""
        keeper = self._active.get(run_id)
        if keeper is None or keeper.drive.pen is None:  # it may be driven elsewhere
            return False
        keeper.drive.flight.halt(reason)
        return True

    async def wait(self, run_id: str, seconds: float) -> bool:
        """Wait until this process no longer drives the run; False when it still does."""
        clock = self._ports.clock
        end = clock.monotonic() + seconds
        while run_id in self._active:
            if clock.monotonic() > end:
                return False
            await clock.sleep(0.005)
        return True

    async def close(self) -> None:
        """Stop every drive at the end of its step, or where it is when the grace is over.

        The runs go on where they stopped, as soon as somebody takes them.
        """
        self._closing = True
        for keeper in tuple(self._active.values()):
            keeper.drive.leaving = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._ports.grace)
        for keeper in tuple(self._active.values()):
            keeper.drive.flight.halt("cancelled")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._ports.grace + LOOK)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    def _watched(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        tick = min(LOOK, self._ports.lease / 8)
        while True:
            await self._ports.clock.sleep(tick)
            for keeper in tuple(self._active.values()):
                keeper.look()


async def _equipped(drive: Drive, *, steal: bool) -> RunState:
    """Drive with the sources of tools open; stopped meanwhile, without them."""
    equip = drive.scene.world.equip
    if equip is None:
        return await drive.run(steal=steal)
    async with AsyncExitStack() as stack:
        with suppress(HaltedError):
            opened = equip(drive.scene)
            await drive.flight.stoppable(lambda: stack.enter_async_context(opened))
        return await drive.run(steal=steal)
