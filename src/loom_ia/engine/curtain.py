"""Holds what a model says while a check may still refuse it; what is accepted is then shown."""

from __future__ import annotations

from loom_ia.core.model import Discard, TextDelta
from loom_ia.engine.world import Scene


class Curtain:
    """Between the pieces of an answer and those who follow the run."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._down = scene, scene.world.judged
        self._kept: list[TextDelta] = []

    def show(self, piece: TextDelta) -> None:
        """Show a piece, or keep it."""
        if self._down:
            self._kept.append(piece)
        else:
            self._scene.show(piece)

    def drop(self) -> None:
        """What was said is void; of what nobody saw nothing is told."""
        if not self._down:
            self._scene.show(Discard(run_id=self._scene.ref.run_id))
        self._kept.clear()

    def lift(self, text: str | None = None) -> None:
        """Show what was kept; only the text that it became, when it is no longer that."""
        kept, self._kept = self._kept, []
        if not self._down:
            return
        said = "".join(piece.text for piece in kept)
        if text is None or said == text:
            for piece in kept:
                self._scene.show(piece)
        elif text:
            self._scene.show(TextDelta(text=text, run_id=self._scene.ref.run_id))
