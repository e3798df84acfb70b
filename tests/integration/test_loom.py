"""The Python door: one agent from its configuration to its journal, across processes."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config import ConfigError, LoomConfig
from loom_ia.core.errors import InvalidIdError, RunExistsError, RunNotFoundError, SessionBusyError
from loom_ia.core.events import ConfigChanged, Event, RunStarted, ToolUnknown
from loom_ia.core.model import ModelSpec, TextDelta
from loom_ia.core.ports import ToolContext
from loom_ia.runtime import reader
from loom_ia.runtime.errors import (
    AlreadyDecidedError,
    InvalidRequestError,
    JudgesRefusedError,
    NotEnteredError,
    NotResumableError,
    NotWaitingError,
    SessionNotFoundError,
    UnknownAgentError,
    UnknownTenantError,
    WrongArgumentsError,
)
from loom_ia.testing import ScriptedModel
from loom_ia.tools import ToolError, tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def config(path: Path | None = None, **fields: object) -> LoomConfig:
    """One agent `a` on the model `M`, with the tools `lire` and `envoyer`."""
    values: dict[str, object] = {
        "version": 1,
        "models": [
            {"id": "M", "sdk": "fake", "model": "fake-1", "params": {"script": [{"text": "-"}]}}
        ],
        "agents": [
            {
                "name": "a",
                "main": {"model": "M", "system": "Tu aides un artisan."},
                "tools": [{"python": "lire"}, {"python": "envoyer"}],
            }
        ],
    }
    if path is not None:
        values["storage"] = {"events": {"backend": "jsonl", "path": str(path)}}
    else:
        values["profile"] = "dev"
    return LoomConfig.model_validate_json(__import__("json").dumps(values | fields))


class Post:
    """An outbox outside the engine."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.gate: asyncio.Event | None = None
        self.left = asyncio.Event()

    def tools(self, loom: Loom, *, approval: str = "always") -> None:
        @tool(side_effects="none")
        async def lire(numero: str) -> dict[str, str]:
            """Lit un devis."""
            return {"numero": numero, "total": "1 840,00 €"}

        @tool(side_effects="irreversible", approval=approval)
        async def envoyer(a: str, ctx: ToolContext) -> str:
            """Envoie un e-mail."""
            if a == "refus":
                msg = "adresse refusée"
                raise ToolError(msg)
            self.left.set()
            if self.gate is not None:
                await self.gate.wait()
            self.sent.append(f"{a} {ctx.idempotency_key}")
            return "envoyé"

        loom.register("lire", lire)
        loom.register("envoyer", envoyer)


def asks(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


async def ready(
    model: ScriptedModel, path: Path | None = None, **options: str
) -> tuple[Loom, Post]:
    loom, post = await asyncio.to_thread(Loom, config(path)), Post()
    post.tools(loom, **options)
    loom.register("M", model)
    return loom, post


def types(events: object) -> list[str]:
    return [e.type for e in events if isinstance(e, Event)]


async def test_a_run_calls_a_tool_and_answers(tmp_path: Path) -> None:
    loom, _ = await ready(
        ScriptedModel(asks("lire", numero="D-1"), "Le total est 1 840,00 €."), tmp_path
    )
    async with loom:
        result = await loom.run("a", "Combien ?")
        events = await loom.events(result.run_id)
    assert (result.status, result.text, result.iterations) == (
        "completed",
        "Le total est 1 840,00 €.",
        2,
    )
    assert types(events) == [
        "run.started",
        "run.claimed",
        "model.called",
        "model.responded",
        "step.opened",
        "tool.called",
        "tool.completed",
        "step.closed",
        "model.called",
        "model.responded",
        "run.completed",
    ]


async def test_streaming_shows_the_events_of_the_journal_and_the_text(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour à vous."), tmp_path)
    async with loom:
        shown = [item async for item in loom.stream("a", "Bonjour", run_id="r1")]
        events = await loom.events("r1")
    assert [e for e in shown if isinstance(e, Event)] == list(events)
    assert "".join(i.text for i in shown if isinstance(i, TextDelta)) == "Bonjour à vous."


async def test_the_next_run_of_a_session_is_told_the_ones_before(tmp_path: Path) -> None:
    model = ScriptedModel(asks("lire", numero="D-1"), "1 840 €")
    loom, _ = await ready(model, tmp_path)
    async with loom:
        await loom.run("a", "Combien pour D-1 ?", session="durand")
        await loom.run("a", "Et pour D-2 ?", session="durand")
    told = model.requests[2].messages
    assert [m.role for m in told] == ["user", "assistant", "tool", "assistant", "user"]
    assert told[0].text == "Combien pour D-1 ?"
    calls = [c.id for m in model.requests[3].messages for c in m.calls]
    assert len(set(calls)) == len(calls)


async def test_an_approval_is_decided_by_another_loom_and_sent_once(tmp_path: Path) -> None:
    first, post = await ready(ScriptedModel(asks("envoyer", a="martin"), "C'est parti."), tmp_path)
    async with first:
        paused = await first.run("a", "Relance")
        assert paused.status == "paused"
        assert [p.call_id for p in paused.pending_approvals] == ["fake_0_0"]
    call = paused.pending_approvals[0].call_id
    second = await asyncio.to_thread(Loom, config(tmp_path))
    post.tools(second)
    second.register("M", ScriptedModel(asks("envoyer", a="martin"), "C'est parti."))
    async with second:
        done = await second.approve(paused.run_id, by="cli:dupont", call=call)
        again = await second.approve(paused.run_id, by="cli:dupont", call=call)
        assert (done.status, done.text, again.text) == ("completed", "C'est parti.", "C'est parti.")
        with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
            await second.reject(paused.run_id, by="key:autre", call=call)
    assert len(post.sent) == 1


async def test_a_rejection_reaches_the_model_with_its_reason(tmp_path: Path) -> None:
    model = ScriptedModel(asks("envoyer", a="martin"), "Je n'envoie rien.")
    loom, post = await ready(model, tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance")
        done = await loom.reject(paused.run_id, by="cli:dupont", reason="trop tôt")
    assert done.status == "completed"
    assert post.sent == []
    assert "trop tôt" in model.requests[1].messages[-1].model_dump_json()


async def test_corrected_arguments_leave_and_wrong_ones_decide_nothing(tmp_path: Path) -> None:
    loom, post = await ready(ScriptedModel(asks("envoyer", a="martin"), "Fait."), tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance")
        with pytest.raises(WrongArgumentsError):
            await loom.approve(paused.run_id, by="cli:dupont", arguments={"b": 1})
        assert (await loom.state(paused.run_id)).status == "paused"
        await loom.approve(paused.run_id, by="cli:dupont", arguments={"a": "durand"})
    assert post.sent[0].startswith("durand ")


async def test_an_inline_approver_decides_and_the_journal_says_there_was_one(
    tmp_path: Path,
) -> None:
    loom, post = await ready(ScriptedModel(asks("envoyer", a="martin"), "Fait."), tmp_path)
    async with loom:
        done = await loom.run("a", "Relance", approver=lambda asked: asked.tool == "envoyer")
        events = await loom.events(done.run_id)
    assert done.status == "completed"
    assert len(post.sent) == 1
    started = events[0].payload
    assert isinstance(started, RunStarted)
    assert started.options.approver
    assert "approval.requested" in types(events)


async def test_deciding_what_nobody_asked_says_what_is_awaited(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel(asks("envoyer", a="martin"), "Fait."), tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance")
        with pytest.raises(NotWaitingError, match=paused.pending_approvals[0].call_id):
            await loom.approve(paused.run_id, by="cli:dupont", call="autre")


async def test_cancelling_stops_a_tool_in_flight_and_tells_its_outcome_unknown(
    tmp_path: Path,
) -> None:
    loom, post = await ready(
        ScriptedModel(asks("envoyer", a="martin"), "Fait."), tmp_path, approval="never"
    )
    post.gate = asyncio.Event()
    async with loom:
        running = asyncio.create_task(loom.run("a", "Relance", run_id="r1"))
        await post.left.wait()
        state = await loom.cancel("r1", by="cli:dupont", reason="erreur")
        again = await loom.cancel("r1", by="cli:dupont")
        result = await running
        events = await loom.events("r1")
    assert (state.status, again.status, result.status) == ("cancelled",) * 3
    assert any(isinstance(e.payload, ToolUnknown) for e in events)
    assert types(events)[-1] == "run.cancelled"
    assert post.sent == []


async def test_a_caller_that_gives_up_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    loom, post = await ready(
        ScriptedModel(asks("envoyer", a="martin"), "Fait."), tmp_path, approval="never"
    )
    post.gate = asyncio.Event()
    async with loom:
        running = asyncio.create_task(loom.run("a", "Relance", run_id="r1"))
        await post.left.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        done = await loom.resume("r1", by="cli:dupont")
        events = await loom.events("r1")
    assert done.status == "completed"
    assert types(events).count("tool.called") == 1
    assert "tool.abandoned" in types(events)


async def test_a_run_cut_before_its_results_does_not_spoil_its_session(tmp_path: Path) -> None:
    """S37."""
    model = ScriptedModel(asks("envoyer", a="martin"), "Fait.")
    loom, _ = await ready(model, tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance", session="martin")
        assert paused.status == "paused"
        done = await loom.run("a", "Autre chose", session="martin")
    told = model.requests[-1].messages
    results = [b.call_id for m in told for b in m.blocks if b.type == "tool_result"]
    calls = [c.id for m in told for c in m.calls]
    assert done.status == "paused"
    assert results == calls == ["1_0_0"]


async def test_a_failed_model_can_be_tried_again_later(tmp_path: Path) -> None:
    answers: list[object] = [RuntimeError("panne"), "Me voilà."]
    model = ScriptedModel(lambda _: answers.pop(0))
    loom, _ = await ready(model, tmp_path)
    async with loom:
        failed = await loom.run("a", "Bonjour")
        assert (failed.status, failed.resumable) == ("failed", True)
        assert "panne" in (failed.error or "")
        done = await loom.resume(failed.run_id, by="cli:dupont")
    assert (done.status, done.text) == ("completed", "Me voilà.")


async def test_a_cancelled_run_is_not_resumed(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel(asks("envoyer", a="m"), "Fait."), tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance")
        await loom.cancel(paused.run_id, by="cli:dupont")
        with pytest.raises(NotResumableError):
            await loom.resume(paused.run_id, by="cli:dupont")


async def test_a_resumed_run_says_which_part_of_its_configuration_moved(tmp_path: Path) -> None:
    loom, post = await ready(ScriptedModel(asks("envoyer", a="m"), "Fait."), tmp_path)
    async with loom:
        paused = await loom.run("a", "Relance")
    agents = [
        {
            "name": "a",
            "main": {"model": "M", "system": "Autre consigne."},
            "tools": [{"python": "lire"}, {"python": "envoyer"}],
        }
    ]
    other = await asyncio.to_thread(Loom, config(tmp_path, agents=agents))
    post.tools(other)
    other.register("M", ScriptedModel(asks("envoyer", a="m"), "Fait."))
    async with other:
        await other.approve(paused.run_id, by="cli:dupont")
        events = await other.events(paused.run_id)
    moved = [e.payload.parts for e in events if isinstance(e.payload, ConfigChanged)]
    assert moved == [("system",)]


async def test_a_busy_session_refuses_a_second_run(tmp_path: Path) -> None:
    loom, post = await ready(
        ScriptedModel(asks("envoyer", a="m"), "Fait."), tmp_path, approval="never"
    )
    post.gate = asyncio.Event()
    async with loom:
        running = asyncio.create_task(loom.run("a", "Relance", session="s"))
        await post.left.wait()
        with pytest.raises(SessionBusyError):
            await loom.run("a", "Encore", session="s")
        post.gate.set()
        assert (await running).status == "completed"


async def test_a_run_id_is_taken_once(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path)
    async with loom:
        await loom.run("a", "Bonjour", run_id="r1")
        with pytest.raises(RunExistsError):
            await loom.run("a", "Bonjour", run_id="r1")


@pytest.mark.parametrize(
    "session", ["../x", "a/b", "a b", "é" * 60, "e\u0301te", "\u00e9te", "CON", "."]
)
async def test_a_session_named_like_a_path_stays_inside_its_folder(
    tmp_path: Path, session: str
) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path / "data")
    async with loom:
        result = await loom.run("a", "Bonjour", session=session)
        assert (await loom.result(result.run_id)).session_id == session
    assert set(os.listdir(tmp_path)) == {"data"}  # noqa: PTH208  the loop is running


@pytest.mark.parametrize("session", ["", "  ", "a\x00b", "x" * 300, "\ud83d"])
async def test_a_session_id_that_cannot_be_kept_is_refused(tmp_path: Path, session: str) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path)
    async with loom:
        with pytest.raises(InvalidIdError, match="session"):
            await loom.run("a", "Bonjour", session=session)


async def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path)
    with pytest.raises(NotEnteredError):
        await loom.run("a", "Bonjour")
    async with loom:
        with pytest.raises(UnknownAgentError, match="inconnu"):
            await loom.run("inconnu", "Bonjour")
        with pytest.raises(RunNotFoundError, match="nulle-part"):
            await loom.result("nulle-part")
        with pytest.raises(UnknownTenantError, match="martin"):
            await loom.run("a", "Bonjour", tenant="martin")


async def test_altered_text_is_marked_and_the_next_turn_works(tmp_path: Path) -> None:
    """S41."""
    loom, _ = await ready(ScriptedModel("Réponse \ud83d\x00 🙂"), tmp_path)
    async with loom:
        first = await loom.run("a", "W\x00s \ud83d\ude42 \ud83d", session="s")
        second = await loom.run("a", "Encore", session="s")
        events = await loom.events(first.run_id)
    started = events[0].payload
    assert isinstance(started, RunStarted)
    assert started.message.text == "W\ufffds 🙂 \ufffd"
    assert started.message.blocks[0].altered
    assert first.text == second.text == "Réponse \ufffd\ufffd 🙂"


async def test_an_attachment_is_kept_outside_the_journal(tmp_path: Path) -> None:
    model = ScriptedModel("Vu.")
    loom, _ = await ready(model, tmp_path)
    async with loom:
        result = await loom.run("a", "Regarde", attachments=[PNG])
        with pytest.raises(Exception, match=r"JPEG|PNG|image"):
            await loom.run("a", "Regarde", attachments=[b"MZ..."])
    block = model.requests[0].messages[0].blocks[1]
    assert block.uri.startswith(f"artifact://default/{result.session_id}/")
    journal = (tmp_path / "default" / f"{result.session_id}.jsonl").read_bytes()
    assert PNG not in journal


async def test_a_pausing_agent_needs_a_durable_journal() -> None:
    loom = await asyncio.to_thread(Loom, config(None, profile=None))
    Post().tools(loom)
    with pytest.raises(ConfigError, match="envoyer"):
        async with loom:
            pass


async def test_judges_are_not_skipped_in_production(tmp_path: Path) -> None:
    loom, post = await asyncio.to_thread(Loom, config(tmp_path, profile="prod")), Post()
    post.tools(loom)
    loom.register("M", ScriptedModel("Bonjour."))
    async with loom:
        with pytest.raises(JudgesRefusedError):
            await loom.run("a", "Bonjour", judges="skip")


async def test_the_whole_configuration_may_be_python() -> None:
    @tool(side_effects="none")
    def double(n: int) -> str:
        """Double un nombre."""
        return str(2 * n)

    built = LoomConfig(
        version=1,
        models=(ModelSpec(id="M", sdk="fake", model="fake-1"),),
        agents=(
            AgentSpec(name="a", main=MainRole(model="M"), tools=(PythonTool(python="double"),)),
        ),
    )
    loom = await asyncio.to_thread(Loom, built)
    loom.register("double", double)
    loom.register("M", ScriptedModel(asks("double", n=21), "42"))
    async with loom:
        assert (await loom.run("a", "21 × 2 ?")).text == "42"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"session": 3}, "session: a text is expected, not 3"),
        ({"context": {"a": object()}}, "context: a mapping of JSON values"),
        ({"judges": "zz"}, "judges: auto, force or skip"),
        ({"approver": 3}, "approver: a function"),
        ({"sesion": "s"}, "sesion: one of session, tenant"),
    ],
)
async def test_what_a_caller_gives_wrong_is_said_before_anything_is_written(
    tmp_path: Path, options: dict[str, object], told: str
) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path)
    async with loom:
        with pytest.raises(InvalidRequestError, match=told):
            await loom.run("a", "Bonjour", run_id="r1", **options)
        with pytest.raises(InvalidRequestError, match="message: a text"):
            await loom.run("a", None)
        with pytest.raises(RunNotFoundError):
            await loom.result("r1")


async def test_repairing_a_session_that_does_not_exist_says_so(tmp_path: Path) -> None:
    loom, _ = await ready(ScriptedModel("Bonjour."), tmp_path)
    async with loom:
        with pytest.raises(SessionNotFoundError, match="absente"):
            await loom.repair("absente")


async def test_the_consumption_of_a_tenant_holds_every_run_of_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "PAGE", 2)
    loom, _ = await ready(ScriptedModel("Bonjour."))
    async with loom:
        for n in range(5):
            await loom.run("a", "Bonjour", session=f"s{n % 3}")
        day, month = await loom.consumption(), await loom.report(period="month")
        assert (day.runs, day.total.calls, month.total) == (5, 5, day.total)
        assert (await loom.report(session="s0")).runs == 2
        past = await loom.consumption(day=day.since.date() - timedelta(days=1))
        assert (past.runs, past.total.calls) == (0, 0)
        with pytest.raises(UnknownTenantError):
            await loom.consumption("x")
        for asked in ({}, {"run_id": "r", "session": "s0"}, {"session": "s0", "period": "day"}):
            with pytest.raises(InvalidRequestError):
                await loom.report(**asked)
