"""Following runs and sessions as they grow: each event once, in order, whoever writes it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import RunNotFoundError, SessionErasedError
from loom_ia.core.events import Event, Principal
from loom_ia.runtime import following
from loom_ia.runtime.errors import InvalidRequestError, NotEnteredError, SessionNotFoundError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

AGENTS = """
version: 1
imports: [outils]
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: envoyer, arguments: {a: martin}}]
        - text: Fini.
agents:
  - {name: a, main: {model: M}, tools: [{python: envoyer}]}
storage:
  events: {backend: jsonl, path: data}
"""
TOOLS = """
from loom_ia.tools import tool

@tool(side_effects="irreversible", approval="always")
def envoyer(a: str) -> str:
    "Envoie."
    return "envoyé"
"""
FOREVER = 10**6
LONG = 20


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that only hears wake-ups: what they miss would never come."""
    monkeypatch.setattr(following, "POLL", FOREVER)


async def opened(*turns: object, approval: str = "never") -> Loom:
    """A Loom in memory whose agent `a` may call `agir`."""
    model = ScriptedModel(*turns)
    data = {
        "version": 1,
        "profile": "dev",
        "models": [{"id": "M", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}}],
        "agents": [{"name": "a", "main": {"model": "M"}, "tools": [{"python": "agir"}]}],
    }
    loom = await asyncio.to_thread(Loom, LoomConfig.model_validate(data))

    @tool(side_effects="none", approval=approval)
    async def agir() -> str:
        """Agit."""
        await asyncio.sleep(0)
        return "fait"

    loom.register("agir", agir)
    loom.register("M", model)
    return loom


ACT = {"tool_calls": [{"name": "agir"}]}


async def all_of(events: AsyncGenerator[Event]) -> list[Event]:
    async with asyncio.timeout(LONG):
        return [event async for event in events]


class Seen(list[Event]):
    """What a follower saw so far."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    async def take(self, events: AsyncGenerator[Event]) -> None:
        """Follow to the end."""
        async for event in events:
            self.append(event)
            self._more.set()

    async def until(self, kind: str, run_id: str = "r") -> None:
        """Wait for an event of a run."""
        async with asyncio.timeout(LONG):
            while (kind, run_id) not in [(event.type, event.run_id) for event in self]:
                self._more.clear()
                await self._more.wait()


async def test_nothing_is_lost_between_what_was_read_and_what_is_heard(
    deaf: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await opened(ACT, "Fini.", approval="always") as loom:
        await loom.run("a", "x", run_id="r")
        journal = loom._open.store.journal
        read = journal.read

        async def overtaken(ref, *, after=0):
            page = await read(ref, after=after)
            monkeypatch.setattr(journal, "read", read)
            await loom.approve("r", by="anne")  # the run ends between a reading and its answer
            return page

        monkeypatch.setattr(journal, "read", overtaken)
        assert await all_of(loom.follow("r")) == await loom.events("r")


async def test_several_follow_one_run_each_from_where_it_wants(deaf: None) -> None:
    async with await opened(*[ACT] * 8, "Fini.") as loom:
        first = await anext(loom.stream("a", "x", run_id="r"))
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(all_of(loom.follow("r", after=after))) for after in (0, 0, 1, 7)
            ]
            group.create_task(loom.resume("r"))
        events = await loom.events("r")
        assert first == events[0]
        assert [task.result() for task in followers] == [events, events, events[1:], events[7:]]


async def test_a_pause_is_waited_for(deaf: None) -> None:
    async with await opened(ACT, "Fini.", approval="always") as loom:
        await loom.run("a", "x", run_id="r")
        seen = Seen()
        async with asyncio.timeout(LONG), asyncio.TaskGroup() as group:
            following_task = group.create_task(seen.take(loom.follow("r")))
            await seen.until("approval.requested")
            assert not following_task.done()
            await loom.approve("r", by="anne")
        assert seen == await loom.events("r")
        assert seen[-1].type == "run.completed"


async def test_an_ended_run_has_nothing_more_to_wait_for(deaf: None) -> None:
    async with await opened("Fini.") as loom:
        await loom.run("a", "x", run_id="r")
        events = await loom.events("r")
        assert await all_of(loom.follow("r", after=len(events))) == []
        assert await all_of(loom.follow("r", after=2)) == events[2:]


async def test_a_resumed_run_is_followed_beyond_its_first_end(deaf: None) -> None:
    async with await opened({"error": "en panne"}, "Fini.") as loom:
        assert (await loom.run("a", "x", run_id="r")).status == "failed"
        failed = await all_of(loom.follow("r"))
        assert failed[-1].type == "run.failed"
        assert (await loom.resume("r")).status in {"completed", "failed"}
        rest = await all_of(loom.follow("r", after=len(failed)))
        assert rest[0].type == "run.resumed"
        assert [*failed, *rest] == await loom.events("r")


async def test_a_session_is_followed_from_run_to_run(deaf: None) -> None:
    async with await opened("Un.", "Deux.") as loom:
        await loom.run("a", "x", session="s")
        seen = Seen()
        task = asyncio.create_task(seen.take(loom.follow(session="s")))
        second = await loom.run("a", "y", session="s")
        await seen.until("run.completed", second.run_id)
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert len({event.run_id for event in seen}) == 2


async def test_a_slow_follower_reads_again_only_when_it_asks(
    deaf: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await opened(*[ACT] * 9, "Fini.") as loom:
        reads = 0
        journal = loom._open.store.journal
        read = journal.read

        async def counted(ref, *, after=0):
            nonlocal reads
            reads += 1
            return await read(ref, after=after)

        await anext(loom.stream("a", "x", run_id="r"))
        monkeypatch.setattr(journal, "read", counted)
        followed = loom.follow("r")
        seen = [await anext(followed)]
        await loom.resume("r")
        before = reads
        seen += await all_of(followed)
        assert seen == await loom.events("r")
        assert reads - before <= 3


@pytest.mark.parametrize("chunk", [1, 2, 5])
async def test_a_long_run_is_read_a_part_at_a_time(
    deaf: None, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(following, "CHUNK", chunk)
    async with await opened(*[ACT] * 5, "Fini.") as loom:
        await loom.run("a", "x", run_id="r")
        events = list(await loom.events("r"))
        for after in (0, 3, len(events)):
            assert await all_of(loom.follow("r", after=after)) == events[after:]
            watched = [item async for item in loom.watch("r", after=after) if item is not None]
            assert watched == events[after:]


async def test_a_follower_that_stops_leaves_nothing_behind(deaf: None) -> None:
    async with await opened(ACT, "Fini.", approval="always") as loom:
        await loom.run("a", "x", run_id="r")
        bus = loom._open.bus
        async with aclosing(loom.follow("r")) as events:
            await anext(events)
            assert bus._listeners
        assert not bus._listeners
        seen = Seen()
        task = asyncio.create_task(seen.take(loom.follow("r")))
        await seen.until("approval.requested")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not bus._listeners


async def test_a_follower_of_an_erased_session_is_told_and_sees_nothing_more(deaf: None) -> None:
    async with await opened(ACT, "fini", approval="always") as loom:
        await loom.run("a", "x", run_id="r", session="s")
        seen = [Seen(), Seen()]
        followers = [
            asyncio.create_task(seen[0].take(loom.follow("r"))),
            asyncio.create_task(seen[1].take(loom.follow(session="s"))),
        ]
        for one in seen:
            await one.until("approval.requested")
        await loom.delete_session("s")
        for follower in followers:
            with pytest.raises(SessionErasedError):
                async with asyncio.timeout(LONG):
                    await follower


async def test_closing_the_loom_lets_its_followers_go(deaf: None) -> None:
    seen = Seen()
    async with await opened(ACT, "Fini.", approval="always") as loom:
        await loom.run("a", "x", run_id="r")
        task = asyncio.create_task(seen.take(loom.follow("r")))
        await seen.until("approval.requested")
    async with asyncio.timeout(LONG):
        with pytest.raises(NotEnteredError):
            await task


async def test_what_cannot_be_followed_says_why() -> None:
    async with await opened("Fini.") as loom:
        for run, session in ((None, None), ("r", "s")):
            with pytest.raises(InvalidRequestError):
                loom.follow(run, session=session)
        with pytest.raises(RunNotFoundError):
            await anext(loom.follow("r"))
        with pytest.raises(SessionNotFoundError):
            await anext(loom.follow(session="s"))


async def typed(folder: Path, *words: str) -> bytes:
    """Output of a command in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loom_ia.access.cli.main",
        *words,
        cwd=folder,
        env={**os.environ, "LOOM_LANG": "fr"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return out


async def test_a_run_that_other_processes_drive_is_followed(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "loom.yaml").write_text, AGENTS, "utf-8")
    await asyncio.to_thread((tmp_path / "outils.py").write_text, TOOLS, "utf-8")
    await typed(tmp_path, "run", "a", "x", "--session", "s")
    loom = await asyncio.to_thread(Loom.from_config, tmp_path / "loom.yaml")
    async with loom:
        run = (await anext(loom.follow(session="s"))).run_id
        seen = Seen()
        async with asyncio.timeout(3 * LONG), asyncio.TaskGroup() as group:
            group.create_task(seen.take(loom.follow(run)))
            await seen.until("approval.requested", run)
            assert b"Fini." in await typed(tmp_path, "approve", run)
        assert seen == await loom.events(run)
        decided = next(event for event in seen if event.type == "approval.granted")
        assert isinstance(getattr(decided.payload, "by", None), Principal)
