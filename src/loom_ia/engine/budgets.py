"""Looks at budgets before each call that is paid; what is reached is a fact before the call."""

from __future__ import annotations

from loom_ia.core.budget import reached, spent_by
from loom_ia.core.events import BudgetExceeded
from loom_ia.core.state import RunState
from loom_ia.engine.pen import Pen
from loom_ia.engine.world import Scene


class Budgets:
    """The budgets of one run."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._budget = scene, scene.world.plan.budget

    def watches(self, state: RunState) -> bool:
        """True when a call may have to be refused, or something told before it."""
        return bool(self._budget.ceilings) and state.exhausted is None

    async def check(self, pen: Pen) -> tuple[BudgetExceeded, ...]:
        """What must be recorded before a paid call; under `stop` the call then does not leave."""
        state = pen.state
        return reached(self._budget, spent_by(state), None, told=state.warned)
