"""A stage for the engine: tools whose effects are counted outside it, a script, any store."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from loom_ia.adapters.storage.memory import MemoryStore
from loom_ia.core.events import (
    ApprovalGranted,
    ApprovalRejected,
    ApprovalSettled,
    CancelRequested,
    Principal,
    RunStarted,
)
from loom_ia.core.model import Message, ModelSpec, Retry, TextBlock, ToolSpec, user
from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.ports import Append, Draft, Fence, Guard, RunRef, ToolError, ToolOutput
from loom_ia.core.state import RunState
from loom_ia.engine.driver import Drive, load
from loom_ia.engine.world import Ports, Scene, World
from loom_ia.testing import ManualClock, ManualIds, ScriptedModel

ME = Principal(id="cli:dupont", channel="cli")
T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
PLANS = {
    "lire": ToolPlan(side_effects="none"),
    "ranger": ToolPlan(side_effects="reversible", idempotent=True),
    "noter": ToolPlan(side_effects="reversible"),
    "envoyer": ToolPlan(side_effects="irreversible"),
    "lancer": ToolPlan(),
    "payer": ToolPlan(side_effects="irreversible", on_unknown="pause"),
    "signer": ToolPlan(side_effects="irreversible", approval="always", definition="v1"),
    "refuser": ToolPlan(side_effects="irreversible"),
    "casser": ToolPlan(side_effects="irreversible"),
    "rater": ToolPlan(),
}
RAISED = {
    "refuser": (ToolError, "rien n'est parti"),
    "casser": (OSError, "connexion coupée"),
    "rater": (ValueError, "pas de chance"),
}
REPEATABLE = frozenset(name for name, plan in PLANS.items() if plan.repeatable)


class Hand:
    """A tool whose effect is its line in the ledger, written before it suspends or raises."""

    def __init__(self, name, ledger, turns, returned):
        self.spec = ToolSpec(name=name, description="", input_schema={})
        self.ledger, self.turns, self.returned = ledger, turns, returned

    def bind(self, arguments):
        async def launch(context):
            error, message = RAISED.get(self.spec.name, (None, ""))
            if error is not ToolError:
                self.ledger.append((self.spec.name, context.idempotency_key))
            for _ in range(next(self.turns, 0)):
                await asyncio.sleep(0)
            if error is not None:
                raise error(message)
            self.returned.append(context.idempotency_key)
            return ToolOutput((TextBlock(text=f"ok {context.idempotency_key}"),))

        return launch


class Stage:
    """One run of a script, driven through any number of stores on the same journal."""

    def __init__(self, script=(), turns=(), store=None, **plan):
        self.ledger = []
        self.returned = []
        """Keys of the calls that came back to the engine."""
        self.inner = store or MemoryStore(lambda: T0)
        self.ids = ManualIds()
        self.script = [list(names) for names in script]
        answers = [{"tool_calls": [{"name": n} for n in names]} for names in self.script]
        turns = iter(turns)
        tools = {name: Hand(name, self.ledger, turns, self.returned) for name in PLANS}
        plan = {"tools": PLANS, "max_iterations": 20, **plan}
        self.world = World(
            plan=Plan(**plan),
            spec=ModelSpec(id="S", sdk="fake", model="fake-1", retry=Retry(max_attempts=1)),
            model=ScriptedModel(*answers, "fini"),
            system="Tu aides.",
            tools=tools,
            specs=[tool.spec for tool in tools.values()],
            language="fr",
        )
        self.ref = RunRef("t", "s", "r", "r")

    def ports(self, store):
        return Ports(store.journal, store.leases, store.blobs, ManualClock(), self.ids, "me")

    def scene(self, store=None, **changes):
        return Scene(self.ref, self.world, self.ports(store or self.inner), **changes)

    async def start(self, ref=None, store=None, *, idle=False):
        fact = RunStarted(agent="a", message=user("Bonjour"), principal=ME)
        guard = Guard(session_idle=True) if idle else None
        draft = Draft(self.ids.new(), fact)
        write = Append(ref or self.ref, [draft], Fence("start"), guard=guard, sync=True)
        await (store or self.inner).journal.append(write)

    async def events(self):
        return tuple((await self.inner.journal.read(self.ref)).events)

    async def state(self) -> RunState:
        return await load(self.ref, self.ports(self.inner))

    async def decide(self, *facts):
        position = (await self.state()).position
        drafts = [Draft(self.ids.new(), fact) for fact in facts]
        await self.inner.journal.append(
            Append(self.ref, drafts, Fence("decision", position), sync=True)
        )

    async def cancel(self):
        await self.decide(CancelRequested(by=ME))

    async def answer_humans(self, *, approve=True):
        """Decide every open question; of an unknown outcome, say what the ledger says."""
        state, facts = await self.state(), []
        for call in state.calls:
            if call.status != "held":
                continue
            common = {"call_id": call.id, "by": ME}
            if call.request.why == "unknown":
                key = f"r:{state.turns}:{call.index}"
                happened = any(key == k for _, k in self.ledger)
                text = "fait" if happened else "pas fait"
                facts.append(ApprovalSettled(**common, happened=happened, text=text))
            elif approve:
                facts.append(ApprovalGranted(**common))
            else:
                facts.append(ApprovalRejected(**common, text="non"))
        await self.decide(*facts)

    async def drive(self, store=None, *, steal=False, **changes):
        return await Drive(self.scene(store, **changes)).run(steal=steal)

    async def to_the_end(self, store=None, *, approve=True, steal=False):
        """Drive and decide until the run has ended."""
        state = await self.drive(store, steal=steal)
        while state.ending is None:
            assert state.status == "paused", state
            await self.answer_humans(approve=approve)
            state = await self.drive(store, steal=steal)
        return state

    def effects(self):
        """How often each call acted: by idempotency key."""
        return Counter(key for _, key in self.ledger)

    def results(self, state):
        """Text the model was told of each call, by its number in the script; each told once."""
        return results(state.messages)


def results(messages: list[Message]):
    told = {}
    for message in messages:
        if message.role != "tool":
            continue
        for block in message.blocks:
            assert block.call_id not in told, "a call has two results"
            told[block.call_id] = "".join(b.text for b in block.content)
    return told


@pytest.fixture(scope="session")
def stage():
    return Stage
