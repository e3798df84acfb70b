"""Visible reasoning that servers write inside the text: `<think>…</think>` before the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

OPEN, CLOSE = "<think>", "</think>"
Part = tuple[Literal["thought", "text"], str]


class Splitter:
    """Tells thought from text in pieces cut anywhere."""

    def __init__(self) -> None:
        self._state: Literal["start", "thought", "gap", "text"] = "start"
        self._held = ""

    def feed(self, piece: str) -> Iterator[Part]:
        """Parts that are now certain."""
        self._held += piece
        if self._state == "start":
            yield from self._begin()
        if self._state == "thought":
            yield from self._think()
        if self._state == "gap":  # blanks between the thought and the answer
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "gap"
        if self._state == "text" and self._held:
            held, self._held = self._held, ""
            yield "text", held

    def _begin(self) -> Iterator[Part]:
        body = self._held.lstrip()
        if body.startswith(OPEN):
            self._state, self._held = "thought", body.removeprefix(OPEN)
        elif not OPEN.startswith(body):
            self._state = "text"
        yield from ()

    def _think(self) -> Iterator[Part]:
        thought, closed, rest = self._held.partition(CLOSE)
        if closed:
            self._state, self._held = "gap", rest
        else:
            kept = next(n for n in range(len(CLOSE) - 1, -1, -1) if thought.endswith(CLOSE[:n]))
            self._held = thought[len(thought) - kept :]
            thought = thought[: len(thought) - kept]
        if thought:
            yield "thought", thought

    def end(self) -> Iterator[Part]:
        """What was held back."""
        held, self._held = self._held, ""
        if held:
            yield ("thought" if self._state == "thought" else "text"), held
