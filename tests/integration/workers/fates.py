"""Drives runs of one call that meets a fate: its process killed, its time spent, its lease lost.

Reads lines of JSON that describe a case; each drive is a process of its own, which the case may
kill. Answers what the run became once a second process has gone on with it.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from loom_ia.adapters.env import Env
from loom_ia.adapters.system import SystemClock, SystemIds
from loom_ia.core.events import CancelRequested, Principal, RunStarted
from loom_ia.core.fold import fold
from loom_ia.core.model import ModelSpec, TextBlock, ToolSpec, user
from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.policy import CONTINUE
from loom_ia.core.ports import Append, Draft, Fence, RunRef, ToolOutput
from loom_ia.engine.driver import Drive, load
from loom_ia.engine.world import Ports, Scene, World
from loom_ia.testing import ScriptedModel

ME = Principal(id="cli:dupont", channel="cli")


class Fate:
    """What happens to the first launch, and to no other."""

    def __init__(self, folder, case):
        self.mark, self.case = folder / f"{case['run']}.met", case
        self.halted = asyncio.Event()

    def met(self, moment):
        """Tell whether this is the moment, the first time that it comes."""
        if self.case["moment"] != moment or self.mark.exists():
            return False
        self.mark.touch()
        return True

    def kill(self, moment):
        if self.met(moment):
            os.kill(os.getpid(), signal.SIGKILL)


class Acting:
    """A tool whose effect is a line in the ledger of another process."""

    spec = ToolSpec(name="agir", description="", input_schema={})

    def __init__(self, fate, address):
        self.fate, self.address = fate, address

    def bind(self, arguments):
        return self.launch

    async def launch(self, context):
        self.fate.kill("during")
        reader, writer = await asyncio.open_unix_connection(self.address)
        writer.write(f"{context.run_id}\n".encode())
        await reader.readline()
        writer.close()
        self.fate.kill("after")
        if any(self.fate.met(moment) for moment in ("timeout", "cancel", "lease")):
            self.fate.halted.set()
            await asyncio.Event().wait()
        return ToolOutput((TextBlock(text="fait"),))


class Dying:
    """A tool that is called once the first one is recorded."""

    spec = ToolSpec(name="mourir", description="", input_schema={})

    def __init__(self, fate):
        self.fate = fate

    def bind(self, arguments):
        return self.launch

    async def launch(self, context):
        self.fate.kill("recorded")
        return ToolOutput((TextBlock(text="vivant"),))


class Watching:
    """A policy that sees the call before it leaves."""

    name = "voir"

    def __init__(self, fate):
        self.fate = fate

    async def decide(self, subject, context):
        if subject.spec.name == "agir":
            self.fate.kill("before")
        return CONTINUE


def world(case, fate, address):
    tools = {"agir": Acting(fate, address), "mourir": Dying(fate)}
    plan = ToolPlan(
        side_effects=case["side_effects"],
        idempotent=case["idempotent"],
        on_unknown=case["on_unknown"],
    )
    turns = [{"tool_calls": [{"name": name}]} for name in tools]
    return World(
        plan=Plan(tools={"agir": plan, "mourir": ToolPlan(side_effects="none")}),
        spec=ModelSpec(id="S", sdk="fake", model="fake-1"),
        model=ScriptedModel(*turns, "fini"),
        system="Tu aides.",
        tools=tools,
        specs=[tool.spec for tool in tools.values()],
        language="fr",
        timeouts={"agir": 0.05 if case["moment"] == "timeout" else 30.0},
        before_tool=(Watching(fate),),
    )


async def interfere(case, fate, scene, drive):
    """Cancel the run, or take its lease, while the call is in flight."""
    await fate.halted.wait()
    ports, ref = scene.ports, scene.ref
    if case["moment"] == "cancel":
        position = (await load(ref, ports)).position
        draft = Draft(ports.ids.new(), CancelRequested(by=ME))
        await ports.journal.append(Append(ref, [draft], Fence("decision", position), sync=True))
        drive.flight.halt("cancelled")
    elif case["moment"] == "lease":
        await ports.leases.claim(ref, ttl=timedelta(seconds=1), holder="autre", steal=True)
        drive.flight.halt("lease_lost")


async def drive(case, folder, address, settings):
    fate = Fate(folder, case)
    async with settings.open(Env(folder)) as store:
        run, ids = case["run"], SystemIds()
        ref = RunRef("t", run, run, run)
        ports = Ports(store.journal, store.leases, store.blobs, SystemClock(), ids, "me", grace=0.1)
        state = await load(ref, ports)
        if state.started is None:
            fact = RunStarted(agent="a", message=user("Bonjour"), principal=ME)
            write = Append(ref, [Draft(ids.new(), fact)], Fence("start"), sync=True)
            await store.journal.append(write)
        scene = Scene(ref, world(case, fate, address), ports)
        driving = Drive(scene)
        beside = asyncio.create_task(interfere(case, fate, scene, driving))
        await driving.run(steal=True)
        beside.cancel()
        events = (await store.journal.read(ref)).events
    return told(fold(events), events)


def told(state, events):
    results = {b.call_id: b for m in state.messages if m.role == "tool" for b in m.blocks}
    results |= {c.id: c.result for c in state.calls if c.result is not None}
    said = results.get("fake_0_0")
    held = [c for c in state.calls if c.status == "held"]
    return {
        "status": state.status,
        "text": said.content[0].text if said else None,
        "why": held[0].request.why if held else None,
        "launches": sum(
            e.type == "tool.called" and e.payload.call_id == "fake_0_0" for e in events
        ),
        "unknown": [e.payload.reason for e in events if e.type == "tool.unknown"],
    }


def forked(work):
    """Outcome of work done in a process of its own; None when it was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writer, json.dumps(asyncio.run(work())).encode())
        except BaseException:  # noqa: BLE001  nothing of it may reach the process that forks
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return json.loads(data) if data else None


def main():
    folder, address, backend = Path(sys.argv[1]), *sys.argv[2:]
    settings = import_module(f"loom_ia.adapters.storage.{backend}").Settings()
    for line in sys.stdin:
        case = json.loads(line)

        async def work(case=case):
            return await drive(case, folder, address, settings)

        first = forked(work)
        answer = {"killed": first is None, "first": first, "last": forked(work)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
