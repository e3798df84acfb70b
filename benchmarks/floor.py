"""The same loop in bare asyncio, with the same durability: what nobody can beat without lying."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from threading import Thread
from typing import Literal

Sync = Literal["never", "effect", "event"]
Write = Callable[[list[dict[str, object]], bool], Awaitable[None]]
"""Keeps events; the second argument says that an effect waits for the disk."""

STEPS = ("model.called", "model.responded", "step.opened", "tool.called", "tool.completed")


async def model(turn: int, turns: int, delay: float) -> dict[str, object]:
    if delay:
        await asyncio.sleep(delay)
    if turn == turns:
        return {"text": "done"}
    return {"calls": [{"id": f"fake_{turn}_0", "name": "add", "arguments": {"a": turn, "b": 1}}]}


async def add(a: int, b: int) -> int:
    return a + b


async def bare(turns: int, delay: float = 0) -> None:
    """A run that keeps nothing but its conversation."""
    messages: list[dict[str, object]] = [{"text": "hi"}]
    for turn in range(turns + 1):
        answer = await model(turn, turns, delay)
        messages.append(answer)
        for call in answer.get("calls", ()):
            result = await add(**call["arguments"])
            messages.append({"result": result})


async def kept(turns: int, write: Write, delay: float = 0, *, run: str = "r") -> None:
    """A run whose every event is built and kept; the intent before the call, as E1 asks."""
    position = 0

    def event(kind: str, payload: object) -> dict[str, object]:
        nonlocal position
        position += 1
        return {
            "id": f"01a11f47-ae95-7161-91ab-{position:012x}",
            "seq": position,
            "tenant_id": "default",
            "session_id": run,
            "run_id": run,
            "position": position,
            "type": kind,
            "at": datetime.now(UTC).isoformat(),
            "epoch": 1,
            "payload": payload,
        }

    waiting = [event("run.started", {"text": "hi"})]
    for turn in range(turns + 1):
        waiting.append(event("model.called", {"step": turn}))
        await write(waiting, False)  # noqa: FBT003
        answer = await model(turn, turns, delay)
        waiting = [event("model.responded", {"message": answer})]
        for call in answer.get("calls", ()):
            waiting.append(event("step.opened", {"step": turn}))
            waiting.append(event("tool.called", {"call_id": call["id"]}))
            await write(waiting, True)  # noqa: FBT003
            result = await add(**call["arguments"])
            waiting = [event("tool.completed", {"call_id": call["id"], "text": str(result)})]
            waiting.append(event("step.closed", {"step": turn}))
    waiting.append(event("run.completed", {}))
    await write(waiting, True)  # noqa: FBT003


class Lines:
    """A file of JSON lines, written in the loop."""

    def __init__(self, path: Path, sync: Sync) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.sync = sync

    async def write(self, events: list[dict[str, object]], effect: bool) -> None:  # noqa: FBT001
        if self.sync == "event":
            for one in events:
                os.write(self.fd, json.dumps(one).encode() + b"\n")
                os.fdatasync(self.fd)
            return
        os.write(self.fd, b"".join(json.dumps(one).encode() + b"\n" for one in events))
        if effect and self.sync == "effect":
            os.fdatasync(self.fd)

    def close(self) -> None:
        os.close(self.fd)


class Rows:
    """A table of SQLite, written in the loop, synced at each commit: one for each effect."""

    def __init__(self, path: Path, sync: Sync) -> None:
        self.db = table(path, "NORMAL" if sync == "never" else "FULL")
        self.sync = sync
        self.waiting: list[tuple[str]] = []

    async def write(self, events: list[dict[str, object]], effect: bool) -> None:  # noqa: FBT001
        for one in events:
            self.waiting.append((json.dumps(one),))
            if self.sync == "event":
                self._insert()
        if effect or self.sync == "never":
            self._insert()

    def _insert(self) -> None:
        insert(self.db, self.waiting)
        self.waiting = []

    def close(self) -> None:
        self.db.close()


def table(path: Path, synchronous: str) -> sqlite3.Connection:
    """A database of one table, in a log that is written ahead."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = wal")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, line TEXT)")
    return db


def insert(db: sqlite3.Connection, rows: list[tuple[str]]) -> None:
    """One transaction."""
    db.execute("BEGIN IMMEDIATE")
    db.executemany("INSERT INTO events (line) VALUES (?)", rows)
    db.execute("COMMIT")


def append(folder: Path, jobs: list[tuple[str, bytes]]) -> None:
    """Write lines of many runs, one file each."""
    for run, data in jobs:
        with (folder / run).open("ab", buffering=0) as file:
            file.write(data)


class Group:
    """One thread that writes for all runs and answers each when its lines are kept."""

    def __init__(self, keep: Callable[[list[tuple[str, bytes]]], None]) -> None:
        self.keep = keep
        self.jobs: SimpleQueue[tuple[str, bytes, asyncio.Future[None]] | None] = SimpleQueue()
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def writer(self, run: str) -> Write:
        async def write(events: list[dict[str, object]], _effect: bool) -> None:  # noqa: FBT001
            answer = asyncio.get_running_loop().create_future()
            data = b"".join(json.dumps(one).encode() + b"\n" for one in events)
            self.jobs.put((run, data, answer))
            await answer

        return write

    def close(self) -> None:
        self.jobs.put(None)
        self.thread.join()

    def _work(self) -> None:
        while True:
            batch = [self.jobs.get()]
            with suppress(Empty):
                while True:
                    batch.append(self.jobs.get_nowait())
            done = [job for job in batch if job is not None]
            if done:
                self.keep([(run, data) for run, data, _ in done])
                loop = done[0][2].get_loop()
                loop.call_soon_threadsafe(_answer, [answer for _, _, answer in done])
            if len(done) < len(batch):
                return


def _answer(answers: list[asyncio.Future[None]]) -> None:
    for answer in answers:
        answer.set_result(None)


async def many_bare(runs: int, turns: int, delay: float) -> float:
    """Seconds for many runs at once, nothing kept."""
    start = time.perf_counter()
    await asyncio.gather(*(bare(turns, delay) for _ in range(runs)))
    return time.perf_counter() - start


async def many_lines(runs: int, turns: int, delay: float, folder: Path) -> float:
    """Seconds for many runs at once, one file each."""
    return await many_kept(runs, turns, delay, partial(append, folder))


async def many_rows(runs: int, turns: int, delay: float, folder: Path) -> float:
    """Seconds for many runs at once, in one table."""
    db = table(folder / "many.db", "NORMAL")

    def keep(jobs: list[tuple[str, bytes]]) -> None:
        rows = [(line.decode(),) for _, data in jobs for line in data.splitlines()]
        insert(db, rows)

    try:
        return await many_kept(runs, turns, delay, keep)
    finally:
        db.close()


async def many_kept(
    runs: int, turns: int, delay: float, keep: Callable[[list[tuple[str, bytes]]], None]
) -> float:
    """Seconds for many runs at once, their writes grouped."""
    group = Group(keep)
    start = time.perf_counter()
    names = [f"{n}.jsonl" for n in range(runs)]
    await asyncio.gather(*(kept(turns, group.writer(n), delay, run=n) for n in names))
    seconds = time.perf_counter() - start
    group.close()
    return seconds


async def memory(turns: int) -> None:
    """A run whose events are built and put in a list."""
    journal: list[dict[str, object]] = []

    async def write(events: list[dict[str, object]], _effect: bool) -> None:  # noqa: FBT001
        journal.extend(events)

    await kept(turns, write)


async def lines(turns: int, folder: Path, sync: Sync) -> None:
    """A run in its own file."""
    file = Lines(folder / f"{time.perf_counter_ns()}.jsonl", sync)
    try:
        await kept(turns, file.write)
    finally:
        file.close()


async def seconds(run: Callable[[], Awaitable[None]], times: int) -> float:
    """Mean seconds of one run among `times`."""
    start = time.perf_counter()
    for _ in range(times):
        await run()
    return (time.perf_counter() - start) / times


async def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        tables = {sync: Rows(folder / f"{sync}.db", sync) for sync in ("never", "effect", "event")}
        jobs: dict[str, tuple[Callable[[], Awaitable[None]], int, int]] = {
            "B  one run, nothing kept": (lambda: bare(0), 200, 1),
            "B  one run, events built": (lambda: memory(0), 200, 1),
            "C  per turn, nothing kept": (lambda: bare(10), 100, 10),
            "C  per turn, events built": (lambda: memory(10), 50, 10),
            "D  per turn, jsonl, unsynced": (lambda: lines(10, folder, "never"), 10, 10),
            "D  per turn, jsonl, one sync": (lambda: lines(10, folder, "effect"), 5, 10),
            "D  per turn, jsonl, per event": (lambda: lines(10, folder, "event"), 5, 10),
            "D  per turn, sqlite, unsynced": (lambda: kept(10, tables["never"].write), 10, 10),
            "D  per turn, sqlite, one sync": (lambda: kept(10, tables["effect"].write), 5, 10),
            "D  per turn, sqlite, per event": (lambda: kept(10, tables["event"].write), 5, 10),
        }
        taken: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(5):
            for title, (run, times, unit) in jobs.items():
                taken[title].append(await seconds(run, times) / unit)
        for title, values in taken.items():
            print(f"{title:34} {median(values) * 1e6:10.1f} µs")
        print(f"{'F  1,000 runs, nothing kept':34} {await many_bare(1000, 10, 0.05):10.2f} s")
        for title, many in (("jsonl", many_lines), ("sqlite", many_rows)):
            taken_all = await many(1000, 10, 0.05, folder)
            print(f"{f'F  1,000 runs, {title}':34} {taken_all:10.2f} s")
        for rows in tables.values():
            rows.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
