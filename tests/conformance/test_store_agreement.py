"""Whatever is asked, in whatever order and from several openings, every store answers the same."""

import pkgutil
import random
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest

import loom_ia.adapters.storage
from loom_ia.adapters.env import Env
from loom_ia.core.errors import LoomError
from loom_ia.core.events import (
    ApprovalRequested,
    CancelRequested,
    Principal,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepOpened,
    ToolReported,
)
from loom_ia.core.model import user
from loom_ia.core.ports import Append, Draft, Fence, Guard, Lease, Page, RunFilter, RunRef, Store

OTHERS = sorted(
    m.name
    for m in pkgutil.iter_modules(loom_ia.adapters.storage.__path__)
    if m.ispkg and m.name != "memory"
)
BY = Principal(id="key:1")
FACTS = (
    StepOpened(step=1),
    RunClaimed(holder="x"),
    ApprovalRequested(call_id="c", tool="t", arguments={}),
    CancelRequested(by=BY),
    ToolReported(call_id="c"),
    RunCompleted(),
    RunFailed(code="x", resumable=True),
    RunCancelled(),
    RunResumed(by=BY),
)


@dataclass
class Play:
    """One sequence of operations, drawn from a seed, the same for every store."""

    seed: int
    said: list[object] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    now: datetime = datetime(2026, 1, 1, 9, tzinfo=UTC)

    def clock(self) -> datetime:
        return self.now

    async def run(self, *stores: Store) -> list[object]:
        draw, opening = random.Random(self.seed), random.Random(self.seed)
        for _ in range(60):
            await self._one(draw, opening.choice(stores))
            self.now += timedelta(seconds=draw.choice([0, 1, 20, 70, -30]))
        return self.said

    async def _one(self, draw: random.Random, store: Store) -> None:
        session = draw.choice("ab")
        root = f"{session}{draw.randrange(3)}"
        name = draw.choice([root, root, f"{root}.child"])
        ref = RunRef("t", session, name, root)
        match draw.choice(["start", *["append"] * 5, "claim", "claim", "renew", "release", "look"]):
            case "start":
                fact = RunStarted(
                    agent="a", message=user("x"), principal=BY, root_id=root if name != root else ""
                )
                guard = draw.choice([None, Guard(session_idle=True)])
                await self._append(store, Append(ref, [Draft("s", fact)], Fence("start"), guard))
            case "append":
                await self._append(store, self._drawn(draw, ref))
            case "claim":
                ttl, steal = timedelta(minutes=1), draw.random() < 0.2
                await self._say(store.leases.claim(ref, ttl=ttl, holder="h", steal=steal))
            case "renew" if self.leases:
                lease = draw.choice(self.leases[-3:])
                await self._say(store.leases.renew(lease, ttl=timedelta(minutes=2)))
            case "release" if self.leases:
                lease = draw.choice(self.leases[-3:])
                at = self.positions.get(lease.ref.run_id, 0) - draw.choice([0, 0, 0, 1])
                waiting = draw.random() < 0.6
                until = draw.choice([None, self.now + timedelta(seconds=40)])
                asked = store.leases.release(lease, position=at, waiting=waiting, until=until)
                await self._say(asked)
            case _:
                await self._look(store, ref)

    def _drawn(self, draw: random.Random, ref: RunRef) -> Append:
        at = self.positions.get(ref.run_id, 0) - draw.choice([0, 0, 0, 0, 1])
        epochs = [0, *(lease.epoch for lease in self.leases if lease.ref.root_id == ref.root_id)]
        kind = draw.choice(["plan", "plan", "outcome", "decision", "report"])
        fence = Fence(kind, at, draw.choice(epochs[-2:]), stop=draw.random() < 0.3)
        drafts = [Draft(f"d{n}", draw.choice(FACTS)) for n in range(draw.choice([1, 1, 2]))]
        return Append(ref, drafts, fence, draw.choice([None, None, Guard(session_idle=True)]))

    async def _append(self, store: Store, write: Append) -> None:
        await self._say(store.journal.append(write))
        page = await store.journal.read(write.ref)
        self.positions[write.ref.run_id] = len(page.events)

    async def _look(self, store: Store, ref: RunRef) -> None:
        await self._say(store.journal.read(ref, after=1))
        await self._say(store.journal.session("t", ref.session_id))
        await self._say(store.index.locate("t", ref.run_id))
        for entries in (
            await store.index.runs("t"),
            await store.index.runs("t", RunFilter(ref.session_id)),
            await store.index.due("t"),
        ):
            self.said.append(sorted(entries, key=lambda entry: entry.run_id))

    async def _say(self, asked: Awaitable[object]) -> None:
        try:
            answer = await asked
        except LoomError as error:
            self.said.append(f"{error.code} {error}")
            return
        if isinstance(answer, Lease):
            self.leases.append(answer)
        self.said.append((list(answer.events), answer.now) if isinstance(answer, Page) else answer)


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize("seed", range(40))
async def test_a_store_answers_as_the_memory_store_does(tmp_path: Path, backend: str, seed: int):
    expected, got = Play(seed), Play(seed)
    memory = import_module("loom_ia.adapters.storage.memory").Settings()
    settings = import_module(f"loom_ia.adapters.storage.{backend}").Settings()
    async with AsyncExitStack() as stack:
        oracle = await stack.enter_async_context(memory.open(Env(tmp_path, clock=expected.clock)))
        env = Env(tmp_path, clock=got.clock)
        stores = [await stack.enter_async_context(settings.open(env)) for _ in range(2)]
        said = await expected.run(oracle)
        assert len(said) > 30
        for number, (one, other) in enumerate(
            zip(said, await got.run(*stores), strict=True), start=1
        ):
            assert (number, other) == (number, one)
