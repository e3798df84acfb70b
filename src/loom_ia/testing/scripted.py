"""A model whose answers are written in the test that uses it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeGuard

from loom_ia.core.model import ModelChunk, ModelRequest, TextDelta
from loom_ia.core.model.estimate import Estimate
from loom_ia.core.model.script import Turn, answer, exhausted, words

Fixed = str | Mapping[str, object] | Turn | Exception
"""A text, an entry of a script (`text`, `tool_calls`, `error`, `delay`), or what is raised."""

Scripted = Fixed | Callable[[ModelRequest], object]
"""A turn, or a function that gives one, awaited if needed."""


class ScriptedModel:
    """Plays its turns in order; the position is the number of model turns of the run."""

    def __init__(self, *turns: Scripted, by_word: bool = False) -> None:
        """Take the turns.

        Raises:
            ValidationError: a mapping is not an entry of a script.

        """
        self._turns = tuple(one if callable(one) else _fixed(one) for one in turns)
        self._by_word = by_word
        self._estimate = Estimate()
        self.requests: list[ModelRequest] = []
        """What was asked so far, by all the runs."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """The text in one piece, or word by word if asked, then the answer.

        Raises:
            ModelError: there is no turn at this position, or the turn is an error.

        """
        self.requests.append(request)
        turn = await self._turn(request)
        if turn.delay:
            await asyncio.sleep(turn.delay)
        if turn.error is not None:
            raise turn.error.failure(request.spec.id)
        if self._by_word:
            for word in words(turn.text):
                yield TextDelta(text=word)
        elif turn.text:
            yield TextDelta(text=turn.text)
        yield answer(turn, request.turn, self._estimate.input(request))

    async def _turn(self, request: ModelRequest) -> Turn:
        position = request.turn
        if position >= len(self._turns):
            raise exhausted(request, len(self._turns))
        turn = self._turns[position]
        if callable(turn):
            given = turn(request)
            turn = _fixed(await given if inspect.isawaitable(given) else given)
        if isinstance(turn, Exception):
            raise turn
        return turn


def _fixed(turn: object) -> Turn | Exception:
    if isinstance(turn, str):
        return Turn(text=turn)
    if isinstance(turn, Turn | Exception):
        return turn
    if _is_mapping(turn):
        return Turn.model_validate(dict(turn))
    msg = f"a turn is a text, a mapping, an exception or a function, not {turn!r}"
    raise TypeError(msg)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)
