"""Lets followers in this process see the text of runs as it comes; nothing of it is kept."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from loom_ia.core.events import Event
from loom_ia.core.model import Discard, TextDelta
from loom_ia.engine.world import Shown

ROOM = 65536
"""Characters kept for a follower that does not take them."""
OVERHEAD = 64
"""Characters that a piece counts for beside its own."""

Piece = TextDelta | Discard
UNPLACED = -1


class Ear:
    """What one follower has not taken yet, in order, within bounds.

    Each piece stands behind the event that its driver had shown last, so that it can be put in its
    place among events that are read elsewhere. Where it does not fit, what was kept is dropped and
    said to be void, up to the next event: half a text is worth nothing, and the events hold all.
    """

    __slots__ = ("_dropping", "_flag", "_pieces", "_place", "_size", "closed", "stale")

    def __init__(self) -> None:
        self.stale, self.closed = True, False
        self._flag = asyncio.Event()
        self._pieces: deque[tuple[int, Piece]] = deque()
        self._place, self._size, self._dropping = UNPLACED, 0, False

    def take(self, item: Shown) -> None:
        """Hear one thing; takes no time."""
        if isinstance(item, Event):
            self._pass(item.position)
            return
        if self._dropping:
            return
        cost = OVERHEAD + (len(item.text) if isinstance(item, TextDelta) else 0)
        if self._size + cost > ROOM:
            self._pieces.clear()
            self._size, self._dropping = 0, True
            item = Discard(run_id=item.run_id)
        self._size += cost
        self._pieces.append((self._place, item))
        self._flag.set()

    def _pass(self, position: int) -> None:
        if self._place == UNPLACED:  # what was heard so far came right before this event
            self._pieces = deque((position - 1, piece) for _, piece in self._pieces)
        self._place, self._dropping = position, False

    def pieces(self, until: int, *, loose: bool = False) -> Iterator[Piece]:
        """What stands up to right behind an event, joined where it can be; `loose`: also what was
        heard before any event.
        """
        joined: TextDelta | None = None
        while self._pieces and (UNPLACED < self._pieces[0][0] <= until or self._loose(loose)):
            _, piece = self._pieces.popleft()
            if isinstance(piece, TextDelta):
                text = piece.text if joined is None else joined.text + piece.text
                joined = TextDelta(text=text, run_id=piece.run_id)
                continue
            if joined is not None:
                yield joined
                joined = None
            yield piece
        if joined is not None:
            yield joined
        if not self._pieces:
            self._size = 0

    def _loose(self, wanted: bool) -> bool:  # noqa: FBT001  what the caller was asked
        return wanted and self._pieces[0][0] == UNPLACED

    def wake(self) -> None:
        """Say that the journal may hold more."""
        self.stale = True
        self._flag.set()

    def close(self) -> None:
        """Say that nothing more will come."""
        self.closed = True
        self._flag.set()

    async def heard(self) -> None:
        """Wait for something."""
        await self._flag.wait()
        self._flag.clear()


class Air:
    """Who listens to which run of this process."""

    def __init__(self) -> None:
        self._ears: dict[str, set[Ear]] = defaultdict(set)

    def show(self, item: Shown) -> None:
        """Give something to those who listen to its run."""
        for ear in self._ears.get(item.run_id, ()):
            ear.take(item)

    @contextmanager
    def listen(self, run_id: str) -> Generator[Ear]:
        """Hear of a run, from when the context is entered to when it is left."""
        ear = Ear()
        self._ears[run_id].add(ear)
        try:
            yield ear
        finally:
            self._ears[run_id].discard(ear)
            if not self._ears[run_id]:
                del self._ears[run_id]
