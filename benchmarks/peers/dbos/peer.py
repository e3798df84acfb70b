"""DBOS: a workflow of model and tool steps, kept in SQLite; it has no way without a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from dbos import DBOS
from jobs import Run, Task, main

DELAY = 0.0


@DBOS.step()
async def model(turn: int, turns: int) -> dict[str, object]:
    """Answer, or ask for a call."""
    if DELAY:
        await asyncio.sleep(DELAY)
    if turn == turns:
        return {"text": "done"}
    return {"call": {"name": "add", "arguments": {"a": turn, "b": 1}}}


@DBOS.step()
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@DBOS.workflow()
async def agent(turns: int) -> str:
    """Call the model and its tools until it answers."""
    for turn in range(turns + 1):
        answer = await model(turn, turns)
        if "text" in answer:
            return str(answer["text"])
        await add(turn, 1)
    raise AssertionError


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The runtime, launched on a new database."""
    database = f"sqlite:///{task.folder}/dbos.db"
    DBOS(config={"name": "bench", "system_database_url": database, "log_level": "ERROR"})
    DBOS.launch()
    try:

        async def run() -> None:
            assert await agent(task.turns) == "done"

        yield run
    finally:
        DBOS.destroy()


main(opening, "D")
