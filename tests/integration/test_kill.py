"""A process killed at random moments: no effect doubled, none lost, whatever it was doing."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from loom_ia.adapters.env import Env
from loom_ia.core.fold import fold
from loom_ia.core.model import Message

WORKERS = Path(__file__).parent / "workers"
REPEATABLE = {"lire", "ranger"}
SECONDS = 0.15
"""A kill comes within as much; a run that nobody kills takes about half."""


class Driver:
    """The process that forks one process for each drive."""

    def __init__(self, folder, backend):
        self.folder, self.backend = folder, backend
        address = str(folder / "ledger.sock")
        self.ledger = self._spawn("ledger.py", address, str(folder / "ledger"))
        assert self.ledger.stdout.readline() == b"ready\n"
        self.process = self._spawn("driver.py", str(folder), address, backend)

    def _spawn(self, name, *arguments):
        return subprocess.Popen(
            [sys.executable, str(WORKERS / name), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def drive(self, run_id, *, kill_after=None):
        """Drive a run, killed after some seconds if asked; exit status of its process."""
        self.process.stdin.write(f"{run_id}\n".encode())
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return int(self.process.stdout.readline())

    def close(self):
        for process in (self.process, self.ledger):
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


@pytest.fixture(params=["jsonl", "sqlite"])
def driver(request, tmp_path):
    driver = Driver(tmp_path, request.param)
    yield driver
    driver.close()


def effects(folder):
    """Name of each call that acted, and how often it did, by run and call."""
    lines = [line.split() for line in (folder / "ledger").read_text().splitlines()]
    return {(run, call): name for run, call, name in lines}, Counter(
        (run, call) for run, call, _ in lines
    )


def results(messages: list[Message]):
    told = [block for m in messages if m.role == "tool" for block in m.blocks]
    assert len({b.call_id for b in told}) == len(told), "a call has two results"
    return {b.call_id: b.content[0].text for b in told}


async def journal(folder, backend):
    settings = import_module(f"loom_ia.adapters.storage.{backend}").Settings()
    async with settings.open(Env(folder)) as store:
        return (await store.journal.session("t", "s")).events


def check(driver, runs):
    folder, events = driver.folder, asyncio.run(journal(driver.folder, driver.backend))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    names, counts = effects(folder)
    for run_id in runs:
        mine = [event for event in events if event.run_id == run_id]
        assert [event.position for event in mine] == list(range(1, len(mine) + 1))
        state = fold(mine)
        assert state.status == "completed"
        told, left = results(state.messages), {}
        for event in mine:
            if event.type == "tool.called":
                left.setdefault(event.payload.call_id, event.position)
        asked = [c for m in state.messages for c in m.calls]
        assert len(asked) == 9
        for call in asked:
            acted, text = counts[run_id, call.id], told[call.id]
            assert not acted or call.id in left, "an effect without its intent"
            if call.name in REPEATABLE:
                assert acted >= 1
                assert text == f"ok {call.id}"
            else:
                assert acted <= 1, "an effect was doubled"
                assert text.startswith("Issue inconnue") or (acted and text == f"ok {call.id}")
    return len(names)


def kill(driver, times):
    """Kill drives until as many died of it, then let the last run end."""
    draw, runs, killed = random.Random(7), ["r0"], 0
    while killed < times:
        status = driver.drive(runs[-1], kill_after=draw.uniform(0, SECONDS))
        killed += status == -signal.SIGKILL
        if status == 0:
            runs.append(f"r{len(runs)}")
    for _ in range(3):
        if driver.drive(runs[-1]) == 0:
            break
    assert check(driver, runs)
    return runs


def test_a_process_killed_ten_times_doubles_and_loses_nothing(driver):
    kill(driver, 10)


@pytest.mark.slow
def test_a_process_killed_a_hundred_times_doubles_and_loses_nothing(driver):
    kill(driver, 100)
