"""Histories of sessions: the same whatever is kept of them, and never read twice."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.jsonl import Settings as Jsonl
from loom_ia.adapters.storage.memory import Settings as Memory
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.events import (
    Event,
    ModelCalled,
    ModelResponded,
    Payload,
    Principal,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepOpened,
    ToolCalled,
    ToolReported,
)
from loom_ia.core.model import Message, TextBlock, ToolCallBlock, user
from loom_ia.core.ports import Append, Draft, Fence, Journal, Page, RunRef, Store
from loom_ia.sessions import Histories, history_of
from loom_ia.sessions.heads import EVERY

BY = Principal(id="key:1")
ids = (f"00000000-0000-7000-8000-{n:012x}" for n in count(1))


class Counting:
    """A journal that counts the events it gives."""

    def __init__(self, journal: Journal) -> None:
        self.inner, self.given = journal, 0

    async def session(self, tenant: str, session: str, **part) -> Page:
        page = await self.inner.session(tenant, session, **part)
        self.given += len(page.events)
        return page

    async def read(self, ref: RunRef, **part) -> Page:
        page = await self.inner.read(ref, **part)
        self.given += len(page.events)
        return page


class Talk:
    """A session whose runs end in every way, some much later."""

    def __init__(self, store: Store, seed: int = 0) -> None:
        self.store, self.draw, self.runs = store, random.Random(seed), 0
        self.later: list[tuple[RunRef, Payload]] = []

    async def write(self, ref: RunRef, *facts: Payload) -> None:
        kind = "start" if isinstance(facts[0], RunStarted) else "report"
        drafts = [Draft(next(ids), fact) for fact in facts]
        await self.store.journal.append(Append(ref, drafts, Fence(kind)))

    async def run(self) -> None:
        """One more run; another one may go on behind it."""
        self.runs += 1
        name = f"r{self.runs}"
        ref = RunRef("t", "s", name, name)
        start = RunStarted(
            agent="a", message=user(f"question {name}"), principal=BY, ordinal=self.runs
        )
        await self.write(ref, start)
        await self.write(ref, ModelCalled(step=1, model="M"))
        end = self.draw.choice(["done", "done", "done", "failed", "cancelled", "left", "unknown"])
        if end == "done":
            await self.write(ref, *_answered(name))
        elif end == "failed":
            await self.write(ref, RunFailed(code="x", resumable=True))
            resumed = (RunResumed(by=BY), ModelCalled(step=1, model="M"), *_answered(name))
            self.later += [(ref, fact) for fact in resumed]
        elif end == "cancelled":
            await self.write(ref, RunCancelled())
        elif end == "left":
            self.later += [(ref, fact) for fact in _answered(name)]
        else:
            call = ToolCallBlock(id="c", name="envoyer", arguments={})
            asked = Message(role="assistant", blocks=(call,))
            left = (ModelResponded(step=1, message=asked), StepOpened(step=2))
            await self.write(ref, *left, ToolCalled(call_id="c"))
            await self.write(ref, RunCancelled())
            late = ToolReported(call_id="c", blocks=(TextBlock(text=f"late {name}"),))
            self.later.append((ref, late))
        while self.later and self.draw.random() < 0.4:
            await self.write(*self.later.pop(0))

    async def events(self) -> Sequence[Event]:
        return (await self.store.journal.session("t", "s")).events


def _answered(name: str) -> tuple[Payload, ...]:
    message = Message(role="assistant", blocks=(TextBlock(text=f"réponse {name}"),))
    return ModelResponded(step=1, message=message), RunCompleted()


@pytest.fixture(params=["memory", "jsonl"])
async def store(request, tmp_path: Path):
    settings = {"memory": Memory(), "jsonl": Jsonl()}[request.param]
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(settings.open(Env(tmp_path)))


async def told(histories: Histories, language: str = "fr") -> list[Message]:
    return list((await histories.now("t", "s", language)).messages)


async def expected(talk: Talk, language: str = "fr") -> list[Message]:
    return list(history_of(await talk.events(), language).messages)


def ended(talk: Talk) -> RunRef:
    return RunRef("t", "s", f"r{talk.runs}", f"r{talk.runs}")


@pytest.mark.parametrize("seed", range(12))
async def test_a_history_is_the_same_however_it_was_come_by(store: Store, seed: int):
    talk, draw = Talk(store, seed), random.Random(seed)
    lasting = Histories(store.journal, store.snapshots)
    for _ in range(60):
        await talk.run()
        if draw.random() < 0.5:
            await lasting.ended(ended(talk), EVERY, "fr")
        if draw.random() < 0.2:
            fresh = Histories(store.journal, store.snapshots)
            assert await told(fresh) == await told(lasting) == await expected(talk)
            await fresh.ended(ended(talk), EVERY, "fr")
    assert await store.snapshots.load("t", "s")
    fresh = Histories(store.journal, store.snapshots)
    assert await told(fresh) == await told(lasting) == await expected(talk)
    assert (await fresh.now("t", "s", "fr")).ordinal == 60


async def test_a_run_is_told_what_was_before_it_and_nothing_else(store: Store):
    talk = Talk(store, 3)
    for _ in range(40):
        await talk.run()
    events = await talk.events()
    lasting = Histories(store.journal, store.snapshots)
    for event in events:
        if isinstance(event.payload, RunStarted) and event.payload.ordinal % 7 == 0:
            ref = RunRef("t", "s", event.run_id, event.run_id)
            past = list(history_of([e for e in events if e.seq < event.seq], "fr").messages)
            for histories in (lasting, Histories(store.journal, store.snapshots)):
                assert list((await histories.before(ref, event.seq, "fr")).messages) == past


async def spoilt(store: Store, damage: str) -> None:
    """Make the snapshot of a session unfit for use, or old."""
    parts = list(await store.snapshots.load("t", "s"))
    match damage:
        case "missing":
            parts = []
        case "garbage":
            parts = [b"\x00garbage" for _ in parts]
        case "a letter":
            parts = [part.replace(b"question", b"questiom") for part in parts]
        case "its middle":
            del parts[1]
        case "its end":
            parts[-1] = parts[-1][:-20]
        case "another version":
            parts = [part.replace(b'"format":1', b'"format":2') for part in parts]
    await store.snapshots.add("t", "s", parts[0] if parts else b"", first=True)
    for part in parts[1:]:
        await store.snapshots.add("t", "s", part, first=False)


@pytest.mark.parametrize(
    "damage", ["missing", "garbage", "a letter", "its middle", "its end", "another version"]
)
async def test_a_snapshot_that_cannot_be_used_is_made_again(store: Store, damage: str):
    talk = Talk(store, 1)
    histories = Histories(store.journal, store.snapshots)
    for n in range(60):
        await talk.run()
        if n % 20 == 0:
            await histories.ended(ended(talk), EVERY, "fr")
    assert len(await store.snapshots.load("t", "s")) == 3
    await spoilt(store, damage)
    fresh = Histories(store.journal, store.snapshots)
    assert await told(fresh) == await expected(talk)
    await fresh.ended(ended(talk), EVERY, "fr")
    counting = Counting(store.journal)
    assert await told(Histories(counting, store.snapshots)) == await expected(talk)
    assert counting.given < 2 * EVERY + 40


async def test_a_snapshot_in_another_language_or_of_another_past_is_not_used(store: Store):
    talk = Talk(store, 1)
    for _ in range(30):
        await talk.run()
    await Histories(store.journal, store.snapshots).ended(ended(talk), EVERY, "fr")
    histories = Histories(store.journal, store.snapshots)
    assert await told(histories, "en") == await expected(talk, "en")
    async with Memory().open(Env(Path())) as other:
        elsewhere = Talk(other, 2)
        for _ in range(40):
            await elsewhere.run()
        await Histories(other.journal, other.snapshots).ended(ended(elsewhere), EVERY, "fr")
        [part] = await other.snapshots.load("t", "s")
    await store.snapshots.add("t", "s", part, first=True)
    assert await told(Histories(store.journal, store.snapshots)) == await expected(talk)


async def test_each_run_of_a_long_session_reads_the_same(store: Store):
    talk = Talk(store)
    talk.draw.choice = lambda _: "done"
    counting = Counting(store.journal)
    histories = Histories(counting, store.snapshots)
    costs: list[int] = []
    for _ in range(200):
        before = counting.given
        await histories.now("t", "s", "fr")
        await talk.run()
        await histories.ended(ended(talk), 4, "fr")
        costs.append(counting.given - before)
    assert max(costs[10:]) <= 8
    assert sum(costs[10:20]) == sum(costs[190:])
    kept = b"".join(await store.snapshots.load("t", "s"))
    assert [kept.count(b'"question r%d"' % n) for n in (1, 77, 150)] == [1, 1, 1]
    cold = Counting(store.journal)
    assert len(await told(Histories(cold, store.snapshots))) == 400
    assert cold.given <= 2 * EVERY + 1


async def test_runs_of_several_processes_share_the_snapshot(store: Store):
    talk = Talk(store, 5)
    both = [Histories(store.journal, store.snapshots) for _ in range(2)]
    for n in range(80):
        await talk.run()
        mine = both[n % 2]
        assert await told(mine) == await expected(talk)
        await mine.ended(ended(talk), EVERY, "fr")
        if n % 10 == 0:
            await asyncio.gather(*(h.ended(ended(talk), EVERY, "fr") for h in both))
    fresh = Histories(store.journal, store.snapshots)
    assert await told(fresh) == await expected(talk)


async def test_a_store_that_keeps_no_snapshot_costs_a_warning(store: Store, caplog):
    class Full:
        """Snapshots of a disk that is full."""

        async def load(self, tenant: str, session: str) -> Sequence[bytes]:
            return await store.snapshots.load(tenant, session)

        async def add(self, *_: object, **__: object) -> None:
            raise StoreUnavailableError(path="disk", reason="full")

    talk = Talk(store, 1)
    histories = Histories(store.journal, Full())
    for _ in range(30):
        await talk.run()
    await histories.ended(ended(talk), EVERY, "fr")
    assert "not kept" in caplog.text
    assert await told(histories) == await expected(talk)
