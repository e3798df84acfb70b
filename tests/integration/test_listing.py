"""Lists of runs and of events: whole, in order, whatever happens between two pages."""

import asyncio
from datetime import datetime, timedelta

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import InvalidCursorError
from loom_ia.runtime.errors import InvalidRequestError, UnknownTenantError

SCRIPT = {"script": [{"text": "Fini."}]}


@pytest.fixture
async def loom():
    """Two agents that answer at once."""
    data = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "f", "params": SCRIPT}],
        "agents": [{"name": name, "main": {"model": "M"}} for name in ("a", "b")],
    }
    async with await asyncio.to_thread(Loom, LoomConfig.model_validate(data)) as opened:
        yield opened


async def test_pages_of_runs_neither_skip_nor_repeat_while_others_are_started(loom: Loom):
    expected = [(await loom.run("a", "x")).run_id for _ in range(7)][::-1]
    seen, after = [], ""
    while True:
        page = await loom.runs(limit=2, after=after)
        seen += [run.run_id for run in page.runs]
        await loom.run("a", "y")  # newest first: it belongs before what was read
        if not (after := page.next):
            break
    assert seen == expected


async def test_runs_are_chosen_by_agent_session_and_end(loom: Loom):
    one = (await loom.run("a", "x", session="s")).run_id
    two = (await loom.run("b", "x")).run_id

    async def ids(**options) -> list[str]:
        return [run.run_id for run in (await loom.runs(**options)).runs]

    assert await ids() == [two, one]
    assert await ids(agent="a") == [one]
    assert await ids(session="s") == [one]
    assert await ids(ended=False) == []


async def test_events_are_found_by_what_their_envelopes_say(loom: Loom):
    run_id = (await loom.run("a", "x", session="s")).run_id
    await loom.run("b", "x")
    everything = (await loom.query()).events
    own = await loom.events(run_id)
    assert list((await loom.query(run_id=run_id)).events) == list(own)
    assert [e.type for e in (await loom.query(types=["run.completed"])).events] == [
        "run.completed"
    ] * 2
    middle = everything[3].at + timedelta(microseconds=1)
    before = (await loom.query(until=middle)).events
    behind = (await loom.query(since=middle)).events
    assert [*before, *behind] == list(everything)
    first = await loom.query(limit=3)
    rest = await loom.query(after=first.next)
    assert [*first.events, *rest.events] == list(everything)


async def test_what_no_list_can_give_is_refused(loom: Loom):
    for options in ({"limit": 0}, {"limit": 1001}):
        with pytest.raises(InvalidRequestError):
            await loom.runs(**options)
    with pytest.raises(InvalidCursorError):
        await loom.runs(after="x")
    with pytest.raises(UnknownTenantError):
        await loom.runs(tenant="autre")
    with pytest.raises(UnknownTenantError):
        await loom.query(tenant="autre")
    with pytest.raises(InvalidRequestError):
        await loom.query(since=datetime(2026, 1, 1))  # noqa: DTZ001  an instant of nowhere
