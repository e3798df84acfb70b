"""The jobs that each peer does, the same way: one program per peer calls `main` with its own agent.

An agent is opened for a number of turns (one model call and one tool call each), a delay of its
scripted model, and a folder when it has to be durable. What it gives makes one whole run.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

Run = Callable[[], Awaitable[object]]


class Task(NamedTuple):
    """What one run is made of."""

    turns: int
    delay: float = 0.0
    """Seconds that the model takes for an answer."""
    folder: Path | None = None
    """Where every step is kept; None keeps nothing."""


Opening = Callable[[Task], AbstractAsyncContextManager[Run]]

RUNS_AT_ONCE = 200


async def one(opening: Opening, task: Task, times: int) -> float:
    """Mean seconds of a run."""
    async with opening(task) as run:
        await run()
        gc.collect()
        start = time.perf_counter()
        for _ in range(times):
            await run()
        return (time.perf_counter() - start) / times


async def many(opening: Opening, task: Task) -> float:
    """Seconds for many runs at once."""
    async with opening(task) as run:
        await run()
        gc.collect()
        start = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(RUNS_AT_ONCE)))
        return time.perf_counter() - start


async def measure(opening: Opening, folder: Path, job: str) -> float:
    """Figure of a job, in its unit: µs for B, C and D, seconds for F."""
    match job:
        case "B":
            return await one(opening, Task(0), 100) * 1e6
        case "C":
            return await one(opening, Task(10), 20) / 10 * 1e6
        case "D":
            return await one(opening, Task(10, folder=folder), 5) / 10 * 1e6
        case "F":
            return await many(opening, Task(10, 0.05))
        case _:
            msg = f"no such job: {job}"
            raise SystemExit(msg)


def main(opening: Opening, jobs: str = "BCDF") -> None:
    """Print the jobs that were asked for among those this peer can do, as one JSON object."""
    asked = sys.argv[1] if len(sys.argv) > 1 else jobs
    found: dict[str, float] = {}
    for job in asked:
        if job in jobs:
            with tempfile.TemporaryDirectory() as folder:
                found[job] = asyncio.run(measure(opening, Path(folder), job))
    print(json.dumps(found))
