"""Plays the entry of the script that stands at the run's number of model turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from loom_ia.core.model import ModelChunk, ModelRequest, TextDelta
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.model.script import Turn, answer, exhausted, words


class FakeModel:
    """Answers what was written in advance, whatever is asked."""

    def __init__(self, script: Sequence[Turn]) -> None:
        self._script = tuple(script)
        self._estimate = Estimate()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """The text word by word, then the answer.

        Raises:
            ModelError: the entry is an error, or there is none at this turn.

        """
        name, position = request.spec.id, request.turn
        if position >= len(self._script):
            raise exhausted(request, len(self._script))
        turn = self._script[position]
        if turn.delay:
            await asyncio.sleep(turn.delay)
        if turn.error is not None:
            raise turn.error.failure(name)
        last = answer(turn, position, self._estimate.input(request))
        for word in words(last.message.text):
            yield TextDelta(text=word)
        yield last
