"""The runs that this process drives: leases renewed, cancellations noticed, nothing left behind."""

from __future__ import annotations

import asyncio
import logging

from loom_ia.core.errors import EpochStaleError, LoomError
from loom_ia.core.events import CancelRequested
from loom_ia.core.state import RunState
from loom_ia.engine.begun import Begun
from loom_ia.engine.driver import Drive
from loom_ia.engine.flight import HaltReason
from loom_ia.engine.world import GRACE, Ports, Scene

logger = logging.getLogger("loom_ia.runtime")
LOOK = 1.0
"""Seconds between two looks at the journals of the driven runs."""


class Drives:
    """Drives of this process, by run."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._active: dict[str, Drive] = {}
        self._tasks: set[asyncio.Task[RunState]] = set()
        self._watch: asyncio.Task[None] | None = None

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
        if run_id in self._active:
            await self._settled(self._active[run_id])
        self._active[run_id] = drive
        self._watched()
        try:
            return await drive.run(steal=steal)
        finally:
            if self._active.get(run_id) is drive:
                del self._active[run_id]

    async def _settled(self, drive: Drive) -> None:
        while self._active.get(drive.scene.ref.run_id) is drive:
            await self._ports.clock.sleep(0.01)

    def halt(self, run_id: str, reason: HaltReason) -> bool:
        """Stop what a run has in flight here; False when this process does not drive it."""
        drive = self._active.get(run_id)
        if drive is not None:
            drive.flight.halt(reason)
        return drive is not None

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
        """Stop every drive; the runs stay resumable."""
        for drive in tuple(self._active.values()):
            drive.flight.halt("cancelled")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE + LOOK)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    def _watched(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Each second: renew the leases that need it, and notice what others asked."""
        while True:
            await self._ports.clock.sleep(LOOK)
            for drive in tuple(self._active.values()):
                try:
                    await self._renew(drive)
                    await self._notice(drive)
                except EpochStaleError:
                    drive.flight.halt("lease_lost")
                except LoomError as error:
                    logger.warning("run %s: %s", drive.scene.ref.run_id, error)

    async def _renew(self, drive: Drive) -> None:
        pen = drive.pen
        if pen is None:
            return
        left = (pen.lease.until - pen.now).total_seconds()
        if left > self._ports.lease * 2 / 3:
            return
        try:
            await pen.renew()
        except EpochStaleError:
            raise
        except LoomError:
            if left < self._ports.lease / 4:
                drive.flight.halt("lease_lost")
            raise

    async def _notice(self, drive: Drive) -> None:
        pen = drive.pen
        if pen is None:
            return
        page = await self._ports.journal.read(drive.scene.ref, after=pen.state.position)
        if any(isinstance(event.payload, CancelRequested) for event in page.events):
            drive.flight.halt("cancelled")
