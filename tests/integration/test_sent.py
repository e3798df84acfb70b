"""What a model was sent is read again, from the journal and its contents, as it was."""

import asyncio
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.model import ModelRequest
from loom_ia.runtime.errors import ContentLostError, RequestNotFoundError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

ACT = {"text": "Je regarde.", "tool_calls": [{"name": "lire", "arguments": {"numero": "D-1"}}]}


async def opened(model: ScriptedModel, path: Path, *, rounds: int = 10) -> Loom:
    main = {"model": "M", "system": "Session {{ session.id }}."}
    data = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}}],
        "agents": [
            {"name": "a", "main": main, "tools": [{"python": "lire"}], "max_iterations": rounds}
        ],
        "storage": {"events": {"backend": "jsonl", "path": str(path)}},
    }
    loom = await asyncio.to_thread(Loom, LoomConfig.model_validate(data))

    @tool(side_effects="none")
    async def lire(numero: str) -> str:
        """Lit un devis."""
        return f"devis {numero}"

    loom.register("lire", lire)
    loom.register("M", model)
    return loom


async def same(loom: Loom, run_id: str, requests: list[ModelRequest], sent: list[list]) -> None:
    """The requests of a run, read again, are those that its model was given."""
    for number, request in enumerate(requests, start=1):
        seen = await loom.request(run_id, number)
        assert (seen.number, seen.requests) == (number, len(requests))
        assert seen.system == "\n\n".join(filter(None, (request.system, request.note)))
        assert list(seen.tools) == list(request.tools)
        assert [*seen.history, *seen.messages] == sent[number - 1]
        assert (seen.model, seen.final, seen.intact) == ("M", request.final, True)


class Recording(ScriptedModel):
    """Keeps the messages as they were when they were sent."""

    def __init__(self, *turns: object) -> None:
        super().__init__(*turns)
        self.sent: list[list] = []

    def stream(self, request: ModelRequest):
        self.sent.append(list(request.messages))
        return super().stream(request)


async def test_every_request_of_a_conversation_is_read_as_it_was_sent(tmp_path: Path) -> None:
    model = Recording(ACT, ACT, "Voilà.")
    async with await opened(model, tmp_path) as loom:
        first = await loom.run("a", "Combien ?", session="s")
        second = await loom.run("a", "Et pour D-2 ?", session="s")
        await same(loom, first.run_id, model.requests[:3], model.sent[:3])
        await same(loom, second.run_id, model.requests[3:], model.sent[3:])
        assert len((await loom.request(second.run_id, 1)).history) == 6


async def test_the_last_answer_and_a_resumed_run_are_read_as_they_were_sent(
    tmp_path: Path,
) -> None:
    model = Recording(ACT, "Voilà.")
    async with await opened(model, tmp_path / "a", rounds=1) as loom:
        run = await loom.run("a", "Combien ?")
        assert model.requests[-1].final
        await same(loom, run.run_id, model.requests, model.sent)
    failing = Recording(ACT, {"error": "en panne"})
    async with await opened(failing, tmp_path / "b") as loom:
        assert (await loom.run("a", "Combien ?", run_id="r")).status == "failed"
    again = Recording(ACT, "Voilà.")
    async with await opened(again, tmp_path / "b") as loom:
        assert (await loom.resume("r")).status == "completed"
        requests = [*failing.requests, *again.requests]
        await same(loom, "r", requests, [*failing.sent, *again.sent])


@pytest.mark.parametrize("number", [0, -1, 3])
async def test_a_request_that_was_not_made_says_how_many_were(tmp_path: Path, number: int) -> None:
    async with await opened(ScriptedModel(ACT, "Voilà."), tmp_path) as loom:
        run = await loom.run("a", "Combien ?")
        with pytest.raises(RequestNotFoundError, match=f"no request {number}; it has made 2"):
            await loom.request(run.run_id, number)


async def test_a_content_that_is_gone_is_named(tmp_path: Path) -> None:
    async with await opened(ScriptedModel("Voilà."), tmp_path) as loom:
        run = await loom.run("a", "Combien ?", run_id="r")
        events = await loom.events("r")
        digest = next(e.payload.prefix["system"] for e in events if e.type == "model.called")
        (path,) = await asyncio.to_thread(lambda: list(tmp_path.rglob(digest)))
        await asyncio.to_thread(path.unlink)
        with pytest.raises(ContentLostError, match=f"system prompt is no longer.*{digest}"):
            await loom.request(run.run_id, 1)
