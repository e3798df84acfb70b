"""Finds in the run index what nobody drives and has something to do, and queues it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from loom_ia.core.errors import LoomError
from loom_ia.core.ports import RunRef
from loom_ia.core.projections.index import RunEntry

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

logger = logging.getLogger("loom_ia.runtime")

SWEEP = 1.0
"""Seconds between two sweeps; longer after one that took long."""
SHARE = 20
"""A sweep is followed by a rest that is so many times longer."""


class Recovery:
    """Nothing is stranded: what a dead process left is taken up, what expired is closed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: dict[str, int] = {}
        """Position of the runs that nobody held at the last sweep."""

    async def recover(self) -> tuple[str, ...]:
        """See `Loom.recover`."""
        due = await self._due()
        return tuple(e.run_id for e in due if self._host.jobs.put(_ref(e)))

    async def sweep(self) -> None:
        """Queue the runs whose lease or whose question expired, or that nobody takes.

        A run without a lease may be between two hands, that of who wrote and that of who is about
        to drive: it is left to them until it was seen twice at one position.
        """
        due = await self._due()
        for entry in due:
            alone = entry.lease_until is not None or entry.waiting
            if alone or self._seen.get(entry.run_id) == entry.position:
                self._host.jobs.put(_ref(entry), asked=False)
        self._seen = {e.run_id: e.position for e in due if e.lease_until is None}

    async def _due(self) -> Sequence[RunEntry]:
        index = self._host.store.index
        return [entry for tenant in self._host.tenants for entry in await index.due(tenant)]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """See `Loom.serving`."""
        await self.recover()
        task = asyncio.get_running_loop().create_task(self._sweeping())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _sweeping(self) -> None:
        clock = self._host.ports.clock
        while True:
            begun = clock.monotonic()
            try:
                await self.sweep()
            except LoomError as error:
                logger.warning("runs that wait for somebody could not be looked for: %s", error)
            await clock.sleep(max(SWEEP, (clock.monotonic() - begun) * SHARE))


def _ref(entry: RunEntry) -> RunRef:
    return RunRef(entry.tenant_id, entry.session_id, entry.run_id, entry.run_id)
