"""Asks whether a call of unknown outcome acted: the results kept under its key, then its check."""

from __future__ import annotations

import asyncio
import logging

from loom_ia.core.events import ToolCompleted, ToolSettled
from loom_ia.core.ports import NotSent, Sent, Settlement
from loom_ia.core.state import Call, RunState
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.keys import Keys
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Scene

logger = logging.getLogger("loom_ia.tool")


class Settling:
    """Performs Settle."""

    def __init__(self, scene: Scene, flight: Flight, epoch: int) -> None:
        self._scene, self._flight, self._epoch = scene, flight, epoch
        self._keys = Keys(scene)
        self._left: set[asyncio.Task[Settlement]] = set()

    async def settle(self, call: Call, pen: Pen) -> None:
        """Write what the check says; a failure or a delay says nothing of the call."""
        try:
            fact = await self._flight.stoppable(lambda: self._fact(call, pen.state))
        except HaltedError:
            return
        await pen.write("plan", call.id, fact, sync=True)

    async def _fact(self, call: Call, state: RunState) -> ToolSettled | ToolCompleted:
        kept = await self._keys.kept(call, state)
        if kept is not None:
            return kept
        if call.name not in self._scene.world.settles:
            return ToolSettled(call_id=call.id, sent=None)
        try:
            found = await self._found(call, state)
        except Exception as error:  # noqa: BLE001  the border where tools end
            what = type(error).__name__
            logger.warning("check of %s: %s: %s", call.name, what, error)
            return ToolSettled(call_id=call.id, sent=None, evidence=what)
        key = self._scene.context(state, call, self._epoch).idempotency_key
        match found:
            case Sent() if found.key == key:
                text = say(self._scene.world.language, "settled", evidence=found.evidence)
                return ToolSettled(
                    call_id=call.id, sent=True, evidence=found.evidence, text=text.strip()
                )
            case Sent():
                evidence = f"{found.key} ≠ {key} : {found.evidence}"
                return ToolSettled(call_id=call.id, sent=None, evidence=evidence)
            case NotSent():
                return ToolSettled(call_id=call.id, sent=False, evidence=found.evidence)
            case None:
                return ToolSettled(call_id=call.id, sent=None)

    async def _found(self, call: Call, state: RunState) -> Settlement:
        """The answer, waited for no longer than a call of the tool would be."""
        world = self._scene.world
        context = self._scene.context(state, call, self._epoch)
        check = world.settles[call.name](call.arguments, context)
        task = asyncio.ensure_future(check)
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        try:
            await asyncio.wait({task}, timeout=world.timeouts.get(call.name, world.tool_timeout))
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise TimeoutError
        return task.result()
