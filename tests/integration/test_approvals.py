"""Decisions of people: one each, whoever gives it, from wherever."""

import asyncio
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import LoomError
from loom_ia.policies import CONTINUE, BeforeTool, Decision, Deny, PolicyContext, policy
from loom_ia.runtime.errors import AlreadyDecidedError, ScopeMissingError, WrongArgumentsError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool


@policy(points=["before_tool"], decisions=["deny"])
def interdit(subject: BeforeTool, _context: PolicyContext) -> Decision:
    return Deny("adresse interdite") if subject.arguments["a"] == "x@y" else CONTINUE


def opened(path: Path, sent: list[str], backend: str = "jsonl", **agent: object) -> Loom:
    """A Loom whose model asks to send two letters at once."""
    where = str(path if backend == "jsonl" else path / "j.db")
    values = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}}],
        "agents": [
            {
                "name": "a",
                "main": {"model": "M"},
                "tools": [{"python": "envoyer"}],
                "policies": [{"hook": "interdit"}],
                **agent,
            }
        ],
        "storage": {"events": {"backend": backend, "path": where}},
    }

    @tool(side_effects="irreversible", approval="always")
    async def envoyer(a: str) -> str:
        """Envoie."""
        sent.append(a)
        return "parti"

    loom = Loom(LoomConfig.model_validate_json(__import__("json").dumps(values)))
    loom.register("envoyer", envoyer)
    loom.register("interdit", interdit)
    calls = [{"name": "envoyer", "arguments": {"a": to}} for to in ("martin", "durand")]
    loom.register("M", ScriptedModel({"tool_calls": calls}, "fini", "fini"))
    return loom


async def test_the_same_decision_again_is_the_same_answer_and_another_a_conflict(
    tmp_path: Path,
) -> None:
    """S31."""
    sent: list[str] = []
    loom = await asyncio.to_thread(opened, tmp_path, sent)
    async with loom:
        run = (await loom.run("a", "Relance")).run_id
        edit = {"call": "fake_0_0", "arguments": {"a": "autre"}}
        for by in ("cli:dupont", "cli:martin"):
            result = await loom.approve(run, by=by, **edit)  # pyright: ignore[reportArgumentType] reason: two keys of it
        assert [p.call_id for p in result.pending_approvals] == ["fake_0_1"]
        for arguments in (None, {"a": "encore"}):
            with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
                await loom.approve(run, by="cli:x", call="fake_0_0", arguments=arguments)
        with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
            await loom.reject(run, by="cli:x", call="fake_0_0")
        done = await loom.reject(run, by="cli:x")
        assert (done.status, sent) == ("completed", ["autre"])
        assert (await loom.approve(run, by="cli:x")).status == "completed"
    granted = [e for e in await events_of(tmp_path, run) if e.type == "approval.granted"]
    assert len(granted) == 1


async def events_of(path: Path, run: str):
    async with await asyncio.to_thread(opened, path, []) as loom:
        return await loom.events(run)


async def test_the_model_is_told_what_was_corrected_and_by_whom(tmp_path: Path) -> None:
    sent: list[str] = []
    loom = await asyncio.to_thread(opened, tmp_path, sent)
    async with loom:
        run = (await loom.run("a", "Relance")).run_id
        with pytest.raises(WrongArgumentsError, match="adresse interdite"):
            await loom.approve(run, by="k", call="fake_0_0", arguments={"a": "x@y"})
        with pytest.raises(WrongArgumentsError, match="several calls wait"):
            await loom.approve(run, by="k", arguments={"a": "z"})
        await loom.approve(run, by="cli:dupont", call="fake_0_0", arguments={"a": "z"})
        await loom.approve(run, by="cli:dupont")
        request = await loom.request(run, 2)
    told = [block.content[0].text for block in request.messages[-1].blocks]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] reason: results
    assert told[0] == '[Arguments corrigés par cli:dupont avant l\'appel : a = "z"]'
    assert told[1] == "parti"
    assert sorted(sent) == ["durand", "z"]


async def test_a_key_without_the_scope_of_the_agent_decides_nothing(tmp_path: Path) -> None:
    loom = await asyncio.to_thread(opened, tmp_path, [], approval={"scope": "gérant"})
    async with loom:
        paused = await loom.run("a", "Relance")
        assert {p.scope for p in paused.pending_approvals} == {"gérant"}
        with pytest.raises(ScopeMissingError, match="gérant"):
            await loom.approve(paused.run_id, by="key:a", scopes=["approve"])
        done = await loom.approve(paused.run_id, by="key:b", scopes=["approve", "gérant"])
        assert done.status == "completed"


async def contest(path: Path, backend: str, second: str, rounds: int) -> None:
    """Two Looms that decide at the same time: one decision a call, at most one effect."""
    sent: list[str] = []
    one = await asyncio.to_thread(opened, path, sent, backend)
    other = await asyncio.to_thread(opened, path, sent, backend)
    async with one, other:
        for number in range(rounds):
            sent.clear()
            run = (await one.run("a", "Relance", run_id=f"r{number}")).run_id
            act = {"approve": other.approve, "reject": other.reject, "cancel": other.cancel}[second]
            got = await asyncio.gather(
                one.approve(run, by="cli:un"), act(run, by="cli:deux"), return_exceptions=True
            )
            assert all(not isinstance(g, BaseException) or isinstance(g, LoomError) for g in got)
            events = await one.events(run)
            decided = [e for e in events if e.type in {"approval.granted", "approval.rejected"}]
            calls = [e.span_id for e in decided]
            assert len(calls) == len(set(calls))
            assert len(sent) == len(set(sent))
            granted = {e.span_id for e in decided if e.type == "approval.granted"}
            assert len(sent) <= len(granted)
            if second != "cancel":
                assert len(calls) == 2
            final = await one.resume(run) if second != "cancel" else await one.cancel(run)
            assert final.status in {"completed", "cancelled"}


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
@pytest.mark.parametrize("second", ["approve", "reject", "cancel"])
async def test_two_deciders_at_once_leave_one_decision(
    tmp_path: Path, backend: str, second: str
) -> None:
    """S31."""
    await contest(tmp_path, backend, second, 5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
@pytest.mark.parametrize("second", ["approve", "reject", "cancel"])
async def test_two_deciders_at_once_leave_one_decision_hundreds_of_times(
    tmp_path: Path, backend: str, second: str
) -> None:
    """S31."""
    await contest(tmp_path, backend, second, 200)
