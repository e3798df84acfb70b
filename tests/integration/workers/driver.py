"""Forks a process for each run it is told to drive, so that the test may kill it at any moment.

Reads the name of a run; answers the pid, then the exit status once that process is no more.
"""

import asyncio
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

from loom_ia.adapters.env import Env
from loom_ia.adapters.system import SystemClock, SystemIds
from loom_ia.core.events import Principal, RunResumed, RunStarted
from loom_ia.core.model import ModelSpec, TextBlock, ToolSpec, user
from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.ports import Append, Draft, Fence, RunRef, ToolOutput
from loom_ia.engine.driver import Drive, load
from loom_ia.engine.world import Ports, Scene, World
from loom_ia.testing import ScriptedModel

ME = Principal(id="cli:dupont", channel="cli")
PLANS = {
    "lire": ToolPlan(side_effects="none"),
    "ranger": ToolPlan(side_effects="reversible", idempotent=True),
    "noter": ToolPlan(side_effects="reversible"),
    "envoyer": ToolPlan(side_effects="irreversible"),
    "lancer": ToolPlan(),
}
SCRIPT = [
    ["lire", "envoyer", "noter"],
    ["envoyer"],
    ["lire", "lire", "ranger", "lancer", "envoyer"],
]


class Hand:
    """A tool whose effect is a line in the ledger of another process."""

    def __init__(self, name, address):
        self.spec = ToolSpec(name=name, description="", input_schema={})
        self.address = address

    def bind(self, arguments):
        async def launch(context):
            await asyncio.sleep(0.001)
            reader, writer = await asyncio.open_unix_connection(self.address)
            writer.write(f"{context.run_id} {context.call_id} {self.spec.name}\n".encode())
            await writer.drain()
            await reader.readline()
            writer.close()
            await asyncio.sleep(0.001)
            return ToolOutput((TextBlock(text=f"ok {context.call_id}"),))

        return launch


async def drive(run_id, folder, address, settings):
    tools = {name: Hand(name, address) for name in PLANS}
    turns = [{"tool_calls": [{"name": n} for n in names]} for names in SCRIPT]
    world = World(
        plan=Plan(tools=PLANS),
        spec=ModelSpec(id="S", sdk="fake", model="fake-1"),
        model=ScriptedModel(*turns, "fini"),
        system="Tu aides.",
        tools=tools,
        specs=[tool.spec for tool in tools.values()],
        language="fr",
    )
    async with settings.open(Env(folder)) as store:
        ids, ref = SystemIds(), RunRef("t", "s", run_id, run_id)
        ports = Ports(store.journal, store.leases, store.blobs, SystemClock(), ids, "me")
        state = await load(ref, ports)
        if state.started is None:
            fact = RunStarted(agent="a", message=user("Bonjour"), principal=ME)
            write = Append(ref, [Draft(ids.new(), fact)], Fence("start"), sync=True)
            await store.journal.append(write)
        elif state.ending is not None and state.ending.resumable:
            draft = Draft(ids.new(), RunResumed(by=ME))
            fence = Fence("decision", state.position)
            await store.journal.append(Append(ref, [draft], fence, sync=True))
        state = await Drive(Scene(ref, world, ports)).run()
    return 0 if state.status == "completed" else 3


def forked(run_id, folder, address, settings):
    """Drive in a process of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 4
    try:
        status = asyncio.run(drive(run_id, folder, address, settings))
    except BaseException:  # noqa: BLE001  nothing of it may reach the process that forks
        traceback.print_exc()
    finally:
        os._exit(status)


def main():
    folder, address, backend = Path(sys.argv[1]), *sys.argv[2:]
    settings = import_module(f"loom_ia.adapters.storage.{backend}").Settings()
    for line in sys.stdin:
        pid = forked(line.strip(), folder, address, settings)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
