"""Keeps one drive: its lease renewed whatever its work does, what others ask of it noticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

from loom_ia.core.errors import EpochStaleError, LoomError
from loom_ia.core.events import CancelRequested
from loom_ia.engine.driver import Drive
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Ports

logger = logging.getLogger("loom_ia.runtime")

Task = asyncio.Task[None]


class Keeper:
    """One drive, looked at every second at least.

    Each question to the store is asked in a task of its own: one that is not answered delays no
    other run, and does not keep this one from stopping before its lease ends.
    """

    __slots__ = ("_noticing", "_ports", "_renewing", "_tried", "drive")

    def __init__(self, drive: Drive, ports: Ports) -> None:
        self.drive, self._ports = drive, ports
        self._renewing: Task | None = None
        self._noticing: Task | None = None
        self._tried = False

    def look(self) -> None:
        """Renew the lease in its last two thirds, and see whether others wrote.

        When the lease cannot be renewed the run is stopped before it ends, and starts nothing new.
        """
        pen = self.drive.pen
        if pen is None:
            return
        if self._noticing is None:
            self._noticing = self._begin(self._notice(pen))
        left, lease = pen.left, self._ports.lease
        if left > lease * 2 / 3:
            self._tried = False
            return
        if self._tried and left <= lease / 4:
            self.drive.flight.halt("lease_lost")
        self._tried = True
        if self._renewing is None:
            self._renewing = self._begin(pen.renew())

    def _begin(self, work: Coroutine[object, object, None]) -> Task:
        task = asyncio.get_running_loop().create_task(self._done(work))
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: Task) -> None:
        if task is self._renewing:
            self._renewing = None
        elif task is self._noticing:
            self._noticing = None

    async def _done(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except EpochStaleError:
            self.drive.flight.halt("lease_lost")
        except LoomError as error:
            logger.warning("run %s: %s", self.drive.scene.ref.run_id, error)

    async def _notice(self, pen: Pen) -> None:
        page = await self._ports.journal.read(self.drive.scene.ref, after=pen.state.position)
        if any(isinstance(event.payload, CancelRequested) for event in page.events):
            self.drive.flight.halt("cancelled")
