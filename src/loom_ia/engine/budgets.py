"""Looks at budgets before each call that is paid; what is reached is a fact before the call."""

from __future__ import annotations

from loom_ia.core.budget import reached, spent_by
from loom_ia.core.events import BudgetExceeded
from loom_ia.core.state import RunState
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Scene


class Budgets:
    """The budgets of one run, during one drive."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._budget = scene, scene.world.plan.budget
        self._looked = False

    def watches(self, state: RunState) -> bool:
        """True when a call may have to be refused, or something told before it."""
        return bool(self._budget.ceilings) and state.exhausted is None

    async def check(self, pen: Pen) -> tuple[BudgetExceeded, ...] | None:
        """What must be recorded before a paid call; under `stop` the call then does not leave.

        None: others wrote to the run meanwhile, and it must be planned again.
        """
        index, ref, counters = self._scene.ports.index, self._scene.ref, None
        if index is not None and self._budget.shared:
            if not await pen.flush():  # what this run has spent counts too
                return None
            counters = await index.counters(ref.tenant_id, ref.session_id, ref.root_id)
        started = pen.state.started
        reserving = (
            not self._looked
            and pen.lease.epoch > 1
            and started is not None
            and started.reserve is not None
        )
        self._looked = True
        spent, told = spent_by(pen.state), pen.state.warned
        return reached(self._budget, spent, counters, told=told, reserving=reserving)
