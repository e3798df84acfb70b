"""A request that is made again with its key is the same run, whoever comes first."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import InvalidIdError
from loom_ia.runtime.errors import KeyUsedError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
STORES = {
    "memory": {"backend": "memory"},
    "jsonl": {"backend": "jsonl", "path": "data"},
    "sqlite": {"backend": "sqlite", "path": "data.db"},
}


@pytest.fixture(params=STORES)
async def loom(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Loom]:
    """An agent that answers at once, another that asks before it acts."""
    script = {"script": [{"text": "-"}]}
    data = {
        "version": 1,
        "profile": "dev",
        "models": [
            {"id": name, "sdk": "fake", "model": "f", "params": script} for name in ("M", "A")
        ],
        "agents": [
            {"name": "a", "main": {"model": "M"}},
            {"name": "asks", "main": {"model": "A"}, "tools": [{"python": "act"}]},
        ],
        "storage": {"events": STORES[request.param]},
    }
    config = LoomConfig.model_validate(data)
    opened = await asyncio.to_thread(Loom, config, root=tmp_path)

    @tool(side_effects="irreversible", approval="always")
    def act() -> str:
        """Act."""
        return "done"

    opened.register("act", act)
    opened.register("A", ScriptedModel({"tool_calls": [{"name": "act"}]}, "Done."))
    async with opened:
        yield opened


async def test_the_same_request_again_gives_the_first_run(loom: Loom):
    first = await loom.run("a", "x", session="s", key="k", attachments=[PNG], context={"n": 1})
    await loom.run("a", "in between", session="s")
    again = await loom.run("a", "x", session="s", key="k", attachments=[PNG], context={"n": 1})
    assert again == first
    assert (await loom.submit("a", "x", session="s", key="k", attachments=[PNG], context={"n": 1})
            ).run_id == first.run_id  # fmt: skip
    assert len((await loom.runs()).runs) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"message": "y"},
        {"agent": "asks"},
        {"session": "t"},
        {"context": {"n": 1}},
        {"attachments": [PNG]},
        {"judges": "force"},
    ],
)
async def test_a_key_is_not_given_to_another_request(loom: Loom, other: dict):
    await loom.run("a", "x", session="s", key="k")
    options = {"agent": "a", "message": "x", "session": "s", "key": "k", **other}
    with pytest.raises(KeyUsedError):
        await loom.run(options.pop("agent"), options.pop("message"), **options)
    assert len((await loom.runs()).runs) == 1


async def test_a_key_belongs_to_its_principal(loom: Loom):
    one = await loom.run("a", "x", key="k", by="anne")
    two = await loom.run("a", "x", key="k", by="bruno")
    assert one.run_id != two.run_id
    with pytest.raises(InvalidIdError):
        await loom.run("a", "x", key="")


async def test_requests_made_at_once_with_one_key_are_one_run(loom: Loom):
    results = await asyncio.gather(*(loom.run("a", "x", key="k") for _ in range(5)))
    assert len({result.run_id for result in results}) == 1
    assert {result.status for result in results} == {"completed"}
    events = await loom.events(results[0].run_id)
    assert [event.type for event in events].count("model.called") == 1


async def test_a_run_that_waits_is_given_back_as_it_waits(loom: Loom):
    first = await loom.run("asks", "x", key="k")
    position = first.position
    again = await loom.run("asks", "x", key="k")
    assert (again.status, again.position) == ("paused", position)
    await loom.approve(first.run_id, by="anne")
    assert (await loom.run("asks", "x", key="k")).text == "Done."
