"""Loom-IA: through its public door; every event in the memory journal, or in SQLite for D."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from jobs import Run, Task, main

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.model import Answer, Message, TextBlock, ToolCallBlock, Usage


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Scripted:
    """Asks for calls, then answers."""

    def __init__(self, task: Task) -> None:
        self.task = task

    async def stream(self, request) -> AsyncIterator[Answer]:
        if self.task.delay:
            await asyncio.sleep(self.task.delay)
        turn, usage = request.turn, Usage(input=10, output=5)
        if turn == self.task.turns:
            done = Message(role="assistant", blocks=(TextBlock(text="done"),))
            yield Answer(message=done, stop="end", usage=usage)
            return
        call = ToolCallBlock(id=f"c{turn}", name="add", arguments={"a": turn, "b": 1})
        asked = Message(role="assistant", blocks=(call,))
        yield Answer(message=asked, stop="calls", usage=usage)


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The engine, entered once."""
    durable = {"backend": "sqlite", "path": f"{task.folder}/loom.db"}
    agent = {
        "name": "a",
        "main": {"model": "M", "system": "You help."},
        "max_iterations": 1000,
        "tools": [{"python": "add", "side_effects": "reversible" if task.folder else "none"}],
    }
    values = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
        "agents": [agent],
        "storage": {"events": durable if task.folder else {"backend": "memory"}},
    }
    loom = Loom(LoomConfig.model_validate_json(json.dumps(values)), root=Path.cwd())
    loom.register("M", Scripted(task))
    loom.register("add", add)
    async with loom:

        async def run() -> None:
            result = await loom.run("a", "hi")
            assert result.text == "done", result

        yield run


main(opening)
