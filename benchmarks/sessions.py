"""A long conversation: what its next run costs, reads, keeps and holds, beside its tenth."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from engine import HERE, Line, Script, loom, memory

RUNS = int(os.environ.get("RUNS", "500"))
SPAN = 20
"""Runs whose median stands for one."""


class Talk:
    """What each run of one session cost."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self.read: list[float] = []
        self.kept: list[float] = []
        self.held: list[float] = []

    async def go(self, folder: Path, runs: int) -> None:
        async with loom(folder, Script(1)) as opened:
            await opened.run("a", "warm", session="warm")
            gc.collect()
            journal, kept = folder / "default/s.jsonl", 0
            for _ in range(runs):
                before, start = _read_bytes(), time.perf_counter()
                result = await opened.run("a", "How much is it?", session="s")
                self.ms.append((time.perf_counter() - start) * 1000)
                assert result.status == "completed", result
                self.read.append(_read_bytes() - before)
                size = journal.stat().st_size
                self.kept.append(size - kept)
                kept = size
                self.held.append(memory("VmRSS"))


def _read_bytes() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def ratio(job: str, values: list[float], bound: float, unit: str) -> Line:
    """The last runs over those from the tenth on, by their medians."""
    tenth, last = median(values[9 : 9 + SPAN]), median(values[-SPAN:])
    return Line(job, tenth, last, bound, unit, ratio=True)


def held(sizes: list[float]) -> float:
    """Memory that each run of the second half left, in the unit of the sizes."""
    half = len(sizes) // 2
    return (sizes[-1] - sizes[half]) / (len(sizes) - half)


def fresh(folder: Path, session: str) -> tuple[float, float]:
    """Milliseconds of a process that makes one run, and of that run in it."""
    start = time.perf_counter()
    command = [sys.executable, __file__, str(folder), session]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return (time.perf_counter() - start) * 1000, float(out)


def medians(folder: Path, session: str) -> tuple[float, float]:
    """The same, of a few processes."""
    whole, call = zip(*(fresh(folder, session) for _ in range(7)), strict=True)
    return median(whole), median(call)


async def one(folder: Path, session: str) -> float:
    async with loom(folder, Script(1)) as opened:
        start = time.perf_counter()
        await opened.run("a", "How much is it?", session=session)
        return (time.perf_counter() - start) * 1000


async def main() -> None:
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder, talk = Path(name), Talk()
        await talk.go(folder, RUNS)
        async with loom(folder, Script(1)) as opened:
            for _ in range(10):
                await opened.run("a", "How much is it?", session="short")
        short, long = medians(folder, "short"), medians(folder, "s")
    lines = [
        ratio(f"S run {RUNS} of a session over run 10", talk.ms, 1.3, "ms"),
        ratio("S bytes read by it", talk.read, 1.3, "B"),
        ratio("S bytes kept by it", talk.kept, 1.05, "B"),
        Line("S memory per run", None, held(talk.held), 12, "kB"),
        Line("S a process that makes it", short[0], long[0], 1.3, "ms", ratio=True),
        Line("S the run in that process", short[1], long[1], 1.3, "ms", ratio=True),
    ]
    print(f"{'job':44} {'run 10':>10} {'ours':>11} {'ratio':>7} {'bound':>10}")
    for line in lines:
        print(line.show())


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            asyncio.run(main())
        case [folder, session]:
            print(asyncio.run(one(Path(folder), session)))
