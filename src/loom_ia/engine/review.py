"""Judges an answer before it leaves, and sets a refused one aside with what its author is told."""

from __future__ import annotations

from loom_ia.core.effects import Repair, Review
from loom_ia.core.errors import NotPerformedError
from loom_ia.core.events import AnswerRefused, GuardChecked, RunFailed
from loom_ia.core.model import user
from loom_ia.core.ports import Form
from loom_ia.core.state import CONTRACT, PendingAnswer
from loom_ia.core.wording import say
from loom_ia.engine.flight import Flight, HaltedError
from loom_ia.engine.pen import Pen, end
from loom_ia.engine.world import Scene


class Reviews:
    """Performs Review and Repair."""

    def __init__(self, scene: Scene, flight: Flight) -> None:
        self._scene, self._flight = scene, flight

    async def review(self, effect: Review, pen: Pen) -> None:
        """Write what the first of the checks that are left found; the others are planned again."""
        answer, contract = pen.state.answer, self._scene.world.contract
        if answer is None or contract is None or effect.checks[0] != CONTRACT:
            params: dict[str, object] = {"run_id": self._scene.ref.run_id, "effect": "Review"}
            await end(pen, RunFailed(code=NotPerformedError.code, params=params, resumable=True))
            return
        try:
            fact = await self._formed(contract, answer)
        except HaltedError:
            return  # the driver plans nothing more
        pen.take("plan", str(pen.state.step), fact)

    async def _formed(self, contract: Form, answer: PendingAnswer) -> GuardChecked:
        found = await self._flight.stoppable(lambda: contract.check(answer.text))
        return GuardChecked(
            check=CONTRACT,
            subject=answer.subject,
            accepted=found.accepted,
            diagnosis=found.diagnosis,
            text=found.text,
            parsed=found.parsed,
        )

    def repair(self, effect: Repair, pen: Pen) -> None:
        """Set the refused answer aside."""
        language = self._scene.world.language
        fact = AnswerRefused(
            message=user(say(language, "repair", diagnosis=effect.diagnosis)),
            not_executed=say(language, "set_aside"),
        )
        pen.take("plan", str(pen.state.step), fact)
