"""Outcomes that come after their call was given up: recorded, they settle what was unknown."""

from __future__ import annotations

import asyncio

from loom_ia.core.events import ToolCompleted
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Draft, RunRef, ToolContext, ToolError, ToolOutput
from loom_ia.engine.pen import report
from loom_ia.engine.world import Ports


class LateOutcomes:
    """Records what abandoned threads gave in the end."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, context: ToolContext, outcome: ToolOutput | Exception) -> None:
        """Record an outcome; an exception other than `ToolError` says nothing of what was done."""
        if isinstance(outcome, ToolOutput):
            fact = ToolCompleted(call_id=context.call_id, blocks=outcome.blocks)
        elif isinstance(outcome, ToolError):
            text = TextBlock.of(str(outcome))
            fact = ToolCompleted(call_id=context.call_id, blocks=(text,), is_error=True)
        else:
            return
        ref = RunRef(context.tenant_id, context.session_id, context.run_id, context.run_id)
        draft = Draft(self._ports.ids.new(), fact, context.call_id)
        recorded = report(self._ports.journal, ref, fact, draft)
        task = asyncio.get_running_loop().create_task(recorded)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
