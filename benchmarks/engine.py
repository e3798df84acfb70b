"""Our engine through its public door, beside the floor: one table of ratios."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import floor

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.model import Answer, Message, TextBlock, ToolCallBlock, Usage

ROUNDS = int(os.environ.get("ROUNDS", "5"))
HERE = Path.cwd()
REFERENCE = 102.0
"""Milliseconds that pydantic's import took where the bounds were set."""


@dataclass
class Line:
    """A row of the table; `bound` is in the unit of `ours` unless it is a ratio to the floor."""

    job: str
    floor: float | None
    ours: float
    bound: float
    unit: str
    ratio: bool = False

    def show(self) -> str:
        ratio = self.ours / self.floor if self.floor else None
        known = ratio if self.ratio else self.ours
        verdict = "ok" if known is not None and known <= self.bound else "over"
        base = f"{self.floor:.3g} {self.unit}" if self.floor else "-"
        times = f"{ratio:.2f}" if ratio else "-"
        bound = f"{self.bound:.3g} ×" if self.ratio else f"{self.bound:.3g} {self.unit}"
        ours = f"{self.ours:.3g} {self.unit}"
        return f"{self.job:44} {base:>10} {ours:>11} {times:>7} {bound:>10}  {verdict}"


def config(folder: Path | None, *, effects: str = "none", approval: str = "never") -> object:
    if folder is None:
        backend = {"backend": "memory"}
    elif folder.suffix == ".db":
        backend = {"backend": "sqlite", "path": str(folder)}
    else:
        backend = {"backend": "jsonl", "path": str(folder)}
    tool = {"python": "add", "side_effects": effects, "approval": approval}
    values = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
        "agents": [
            {
                "name": "a",
                "main": {"model": "M", "system": "You help."},
                "max_iterations": 1000,
                "tools": [{"python": "read"}, tool] if approval == "always" else [tool],
            }
        ],
        "storage": {"events": backend},
    }
    return LoomConfig.model_validate_json(json.dumps(values))


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


async def read(a: int, b: int) -> str:
    """Read two numbers."""
    return str(a + b)


class Script:
    """A model that asks for `turns` calls, then answers; it notes when it is asked."""

    def __init__(self, turns: int, delay: float = 0, *, gated: bool = False) -> None:
        self.turns, self.delay = turns, delay
        self.gated = gated
        """True: only the last call is one that a human decides."""
        self.instants: list[float] = []

    async def stream(self, request):
        if self.turns > 20:
            self.instants.append(time.perf_counter())
        if self.delay:
            await asyncio.sleep(self.delay)
        turn, usage = request.turn, Usage(input=10, output=5)
        if turn == self.turns:
            done = Message(role="assistant", blocks=(TextBlock(text="done"),))
            yield Answer(message=done, stop="end", usage=usage)
            return
        name = "read" if self.gated and turn < self.turns - 1 else "add"
        call = ToolCallBlock(id=f"fake_{turn}_0", name=name, arguments={"a": turn, "b": 1})
        asked = Message(role="assistant", blocks=(call,))
        yield Answer(message=asked, stop="calls", usage=usage)


def loom(folder: Path | None, script: Script, *, effects: str = "none", approval: str = "never"):
    opened = Loom(config(folder, effects=effects, approval=approval), root=HERE)
    opened.register("M", script)
    opened.register("add", add)
    opened.register("read", read)
    return opened


async def ours(folder: Path | None, turns: int, times: int, *, effects: str = "none") -> float:
    """Mean seconds of one run."""
    async with loom(folder, Script(turns), effects=effects) as opened:
        result = await opened.run("a", "hi")
        assert result.status == "completed", result
        gc.collect()
        start = time.perf_counter()
        for _ in range(times):
            await opened.run("a", "hi")
        return (time.perf_counter() - start) / times


async def growth(folder: Path | None) -> float:
    """Cost of turn 200 over that of turn 10."""
    script = Script(205)
    async with loom(folder, script) as opened:
        await opened.run("a", "hi")
    gaps = [b - a for a, b in zip(script.instants, script.instants[1:], strict=False)]
    return median(gaps[190:204]) / median(gaps[5:19])


async def many(folder: Path | None, runs: int = 1000) -> tuple[float, float]:
    """Seconds for many runs at once, and kilobytes of memory for each."""
    async with loom(folder, Script(10, 0.05)) as opened:
        await opened.run("a", "hi")
        gc.collect()
        before = memory("VmRSS")
        start = time.perf_counter()
        results = await asyncio.gather(*(opened.run("a", "hi") for _ in range(runs)))
        seconds = time.perf_counter() - start
        assert all(r.status == "completed" for r in results)
        return seconds, (memory("VmHWM") - before) / runs


async def approve(folder: Path, turns: int, run_id: str) -> float:
    """Milliseconds of the call that approves and finishes."""
    async with loom(folder, Script(turns, gated=True), approval="always") as opened:
        start = time.perf_counter()
        result = await opened.approve(run_id, by="bench")
        taken = (time.perf_counter() - start) * 1000
        assert result.status == "completed", result
        return taken


async def paused(folder: Path, turns: int) -> str:
    async with loom(folder, Script(turns, gated=True), approval="always") as opened:
        result = await opened.run("a", "hi")
        assert result.status == "paused", result
        return result.run_id


def memory(field: str) -> float:
    """Kilobytes of this process; `ru_maxrss` would count those of the process that started it."""
    return float(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0])


def child(*arguments: str) -> str:
    """What a fresh process of this file printed."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def wall(*arguments: str) -> float:
    """Milliseconds of a whole process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def imported(statement: str) -> tuple[float, float]:
    """Milliseconds of an import in a fresh process, and megabytes of that process."""
    code = (
        "import time; t = time.perf_counter()\n"
        f"{statement}\n"
        "print((time.perf_counter() - t) * 1e3)\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    ms, kilobytes = map(float, out.stdout.split())
    return ms, kilobytes / 1024


def job_a(lines: list[Line]) -> float:
    """Imports; gives the scale of this machine."""
    base, mine, size, help_ = [], [], [], []
    for _ in range(ROUNDS + 2):
        base.append(imported("from pydantic import BaseModel")[0])
        ms, megabytes = imported("from loom_ia.access import Loom")
        mine.append(ms)
        size.append(megabytes)
        help_.append(wall("-m", "loom_ia.access.cli.main", "--help") if _has_cli() else 0)
    scale = median(base) / REFERENCE
    lines.append(
        Line("A import of Loom (floor: pydantic)", median(base), median(mine), 2, "ms", ratio=True)
    )
    lines.append(Line("A peak memory", None, median(size), 40, "MB"))
    if _has_cli():
        lines.append(Line("A loom --help, whole process", None, median(help_), 95 * scale, "ms"))
    return scale


def _has_cli() -> bool:
    return importlib.util.find_spec("loom_ia.access.cli.main") is not None


async def jobs_bcd(lines: list[Line], folder: Path, scale: float) -> None:
    us = 1e6

    async def base(run: Callable[[], Awaitable[None]], times: int) -> float:
        return await floor.seconds(run, times)

    jobs: list[
        tuple[str, Callable[[], Awaitable[float]], Callable[[], Awaitable[float]], int, float, bool]
    ] = [
        (
            "B one run, no tool, memory",
            lambda: base(lambda: floor.memory(0), 500),
            lambda: ours(None, 0, 500),
            1,
            156 * scale,
            False,
        ),
        (
            "C per turn of 10, memory",
            lambda: base(lambda: floor.memory(10), 50),
            lambda: ours(None, 10, 100),
            10,
            171 * scale,
            False,
        ),
        (
            "D per turn, jsonl, tool with effects",
            lambda: base(lambda: floor.lines(10, folder, "effect"), 5),
            lambda: ours(folder / "e", 10, 5, effects="irreversible"),
            10,
            1.5,
            True,
        ),
        (
            "D per turn, jsonl, pure tool",
            lambda: base(lambda: floor.lines(10, folder, "never"), 50),
            lambda: ours(folder / "p", 10, 50),
            10,
            2.5,
            True,
        ),
    ]
    tables = {sync: floor.Rows(folder / f"{sync}.db", sync) for sync in ("never", "effect")}
    for title, sync, effects, times, bound in (
        ("tool with effects", "effect", "irreversible", 5, 1.5),
        ("pure tool", "never", "none", 50, 2.5),
    ):
        low = partial(floor.kept, 10, tables[sync].write)
        mine = partial(ours, folder / f"{effects}.db", 10, times, effects=effects)
        name = f"D per turn, sqlite, {title}"
        jobs.append((name, partial(base, low, times), mine, 10, bound, True))
    rounds: list[tuple[list[float], list[float]]] = [([], []) for _ in jobs]
    for _ in range(ROUNDS):
        for (_, low, mine, unit, _, _), (lows, mines) in zip(jobs, rounds, strict=True):
            lows.append(await low() / unit * us)
            mines.append(await mine() / unit * us)
    for (name, _, _, _, bound, ratio), (lows, mines) in zip(jobs, rounds, strict=True):
        lines.append(Line(name, median(lows), median(mines), bound, "µs", ratio=ratio))
    sizes = [path.stat().st_size / 1000 for path in (folder / "p").glob("*/*.jsonl")]
    lines.append(Line("D kept for 10 turns, jsonl", None, median(sizes), 25, "kB"))
    size = (folder / "none.db").stat().st_size / 1000 / (ROUNDS * 51)
    lines.append(Line("D kept for 10 turns, sqlite", None, size, 25, "kB"))
    for table in tables.values():
        table.close()


async def job_e(lines: list[Line], folder: Path) -> None:
    for name, where in (("memory", None), ("jsonl", folder / "g"), ("sqlite", folder / "g.db")):
        values = [await growth(where) for _ in range(ROUNDS)]
        lines.append(Line(f"E turn 200 over turn 10, {name}", None, median(values), 1.1, "×"))


async def job_f(lines: list[Line], scale: float) -> None:
    for name, bound in (("memory", 2.2), ("jsonl", 2.75), ("sqlite", 4.5)):
        lows, mine, sizes = [], [], []
        for _ in range(max(ROUNDS // 2, 1)):
            lows.append(float(child("floor_f", name)))
            taken, size = map(float, child("ours_f", name).split())
            mine.append(taken)
            sizes.append(size)
        # the sleeps of the model do not shrink with the machine
        limit = 0.55 + (bound - 0.55) * scale
        lines.append(
            Line(f"F 1,000 runs of 10 turns, {name}", median(lows), median(mine), limit, "s")
        )
        lines.append(Line(f"F memory per run, {name}", None, median(sizes), 40, "kB"))


async def job_g(lines: list[Line], folder: Path, scale: float) -> None:
    for turns, bound in ((1, 10), (200, 30)):
        whole, call = [], []
        for n in range(ROUNDS):
            where = folder / f"h{turns}-{n}"
            run_id = await paused(where, turns)
            start = time.perf_counter()
            call.append(float(child("approve", str(where), str(turns), run_id)))
            whole.append((time.perf_counter() - start) * 1000)
        name = f"G approve and finish, turn {turns}"
        lines.append(Line(f"{name}: process", None, median(whole), 250 * scale, "ms"))
        lines.append(Line(f"{name}: call", None, median(call), bound * scale, "ms"))


async def main() -> None:
    lines: list[Line] = []
    only = os.environ.get("JOBS", "ABCDEFG")
    scale = (
        job_a(lines) if "A" in only else imported("from pydantic import BaseModel")[0] / REFERENCE
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        if "B" in only:
            await jobs_bcd(lines, folder, scale)
        if "E" in only:
            await job_e(lines, folder)
        if "F" in only:
            await job_f(lines, scale)
        if "G" in only:
            await job_g(lines, folder, scale)
    print(f"bounds × {scale:.2f}: pydantic's import in this run over {REFERENCE:.0f} ms\n")
    print(f"{'job':44} {'floor':>10} {'ours':>11} {'ratio':>7} {'bound':>10}")
    for line in lines:
        print(line.show())


async def floor_f(name: str) -> None:
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        match name:
            case "memory":
                print(await floor.many_bare(1000, 10, 0.05))
            case "sqlite":
                print(await floor.many_rows(1000, 10, 0.05, Path(folder)))
            case _:
                print(await floor.many_lines(1000, 10, 0.05, Path(folder)))


async def ours_f(name: str) -> None:
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        where = {"memory": None, "jsonl": Path(folder), "sqlite": Path(folder, "f.db")}
        print(*await many(where[name]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            asyncio.run(main())
        case ["floor_f", name]:
            asyncio.run(floor_f(name))
        case ["ours_f", name]:
            asyncio.run(ours_f(name))
        case ["approve", folder, turns, run_id]:
            print(asyncio.run(approve(Path(folder), int(turns), run_id)))
