"""Two processes decide on one call at once: one decision is recorded, one effect at most happens.

Cases S31 and S32; the effects are counted by a third process.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from loom_ia.adapters.env import Env
from loom_ia.core.events import CancelRequested, Decided
from loom_ia.core.fold import fold
from loom_ia.core.ports import RunRef

WORKERS = Path(__file__).parent / "workers"
TOOLS = '''\
import socket

from loom_ia.tools import ToolContext, tool


@tool(side_effects="irreversible", approval="always")
def envoyer(a: str, ctx: ToolContext) -> str:
    """Envoie un e-mail."""
    with socket.socket(socket.AF_UNIX) as ledger:
        ledger.connect({address!r})
        ledger.sendall(f"{{ctx.run_id}} {{a}}\\n".encode())
        ledger.recv(16)
    return "envoyé"
'''
CONFIG = """\
version: 1
imports: [outils]
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{{name: envoyer, arguments: {{a: martin}}}}]
        - text: Fini.
agents:
  - name: a
    main: {{model: M}}
    tools: [{{python: envoyer}}]
storage:
  events: {{backend: {backend}, path: {path}}}
"""
PAIRS = [
    ("approve", "approve"),
    ("approve", "reject"),
    ("approve", "cancel"),
    ("edit", "edit"),
    ("reject", "cancel"),
]


class Worker:
    """One process, told what to do line by line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout.readline() == b"ready\n"

    def tell(self, verb, run):
        self.process.stdin.write(json.dumps({"verb": verb, "run": run}).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Office:
    """Two processes that decide, and one that counts what left."""

    def __init__(self, folder, backend):
        self.folder, self.backend = folder, backend
        address = str(folder / "ledger.sock")
        path = "loom.db" if backend == "sqlite" else "data"
        (folder / "outils.py").write_text(TOOLS.format(address=address))
        (folder / "loom.yaml").write_text(CONFIG.format(backend=backend, path=path))
        self.settings = {"path": path}
        self.workers = [Worker(WORKERS / "ledger.py", address, folder / "ledger")]
        for name in ("key:a", "key:b"):
            self.workers.append(Worker(WORKERS / "decider.py", folder / "loom.yaml", name))
        _, self.first, self.second = self.workers

    def close(self):
        for worker in self.workers:
            worker.close()

    def effects(self):
        """What left, by run."""
        lines = (self.folder / "ledger").read_text().split("\n")
        return Counter(line.split()[0] for line in lines if line)

    def journal(self, runs):
        """Events of each run."""

        async def read():
            kind = import_module(f"loom_ia.adapters.storage.{self.backend}").Settings
            async with kind.model_validate(self.settings).open(Env(self.folder)) as store:
                refs = [RunRef("default", run, run, run) for run in runs]
                return [(await store.journal.read(ref)).events for ref in refs]

        return dict(zip(runs, asyncio.run(read()), strict=True))


@pytest.fixture(params=["jsonl", "sqlite"])
def office(request, tmp_path):
    office = Office(tmp_path, request.param)
    yield office
    office.close()


def race(office, verbs, rounds):
    """Decide at once on a run of each round; what each process was answered, by run."""
    answers = {}
    for n in range(rounds):
        run = f"r{n}"
        office.first.tell("start", run)
        assert office.first.answer() == {"status": "paused"}
        pair = [office.first, office.second]
        told = list(zip(pair, verbs if n % 2 else reversed(verbs), strict=True))
        for worker, verb in told if n % 4 < 2 else reversed(told):
            worker.tell(verb, run)
        answers[run] = {worker is office.first: (verb, worker.answer()) for worker, verb in told}
    return answers


def check(office, verbs, answers):
    effects = office.effects()
    for run, events in office.journal(list(answers)).items():
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        state = fold(events)
        decided = [e for e in events if isinstance(e.payload, Decided)]
        stopped = [e for e in events if isinstance(e.payload, CancelRequested)]
        granted = bool(decided) and decided[0].type == "approval.granted"
        assert len(decided) <= 1
        assert decided or stopped
        assert effects[run] <= granted, "it left without leave, or twice"
        assert state.status == ("cancelled" if stopped else "completed")
        if not stopped:
            assert effects[run] == granted
        settled(run, events, decided, answers[run])


def settled(run, events, decided, answers):
    """Each process was told what the journal says: its own decision, or whose came before."""
    for first, (verb, answer) in answers.items():
        me = "key:a" if first else "key:b"
        if verb == "cancel":
            assert "status" in answer
            continue
        mine = bool(decided) and decided[0].payload.by.id == me
        same = bool(decided) and verb == "approve" and decided[0].type == "approval.granted"
        if mine:
            assert "status" in answer
        elif "error" in answer and decided:
            assert answer["error"] == "already_decided"
            assert decided[0].payload.by.id in answer["text"]
            assert decided[0].at.isoformat(timespec="seconds") in answer["text"]
        elif decided:
            assert same, (verb, answer)


@pytest.mark.parametrize("verbs", PAIRS, ids="-".join)
def test_of_two_decisions_at_once_one_is_recorded_and_one_effect_happens(office, verbs):
    check(office, verbs, race(office, verbs, 6))


@pytest.mark.slow
@pytest.mark.parametrize("verbs", PAIRS, ids="-".join)
def test_of_hundreds_of_double_decisions_none_is_recorded_twice(office, verbs):
    check(office, verbs, race(office, verbs, 300))
