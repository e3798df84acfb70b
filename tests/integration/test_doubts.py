"""A call of unknown outcome casts a doubt on every equal one of its session, until it is settled.

Rule E2: only code or a human settles it, while it waits or afterwards.
"""

from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import RunEndedError
from loom_ia.core.events import ToolReported
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Append, Draft, Fence
from loom_ia.runtime.errors import AlreadyDecidedError, ScopeMissingError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

CALL = {"tool_calls": [{"name": "envoyer", "arguments": {"a": "martin"}}]}
OTHER = {"tool_calls": [{"name": "envoyer", "arguments": {"a": "durand"}}]}
SPELLED = {"tool_calls": [{"name": "envoyer", "arguments": {"a": " martin\u00a0"}}]}


class Office:
    """A Loom whose tool acts and then breaks, unless it is told to hold."""

    def __init__(self, path: Path):
        self.path, self.sent, self.breaks = path, [], True

    def open(self, *turns, entry=None, scope="", on_unknown="error", **declared) -> Loom:
        @tool(side_effects="irreversible", on_unknown=on_unknown, **declared)
        async def envoyer(a: str) -> str:
            """Envoie."""
            self.sent.append(a)
            if self.breaks:
                raise OSError
            return "parti"

        values = {
            "version": 1,
            "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
            "agents": [
                {
                    "name": "a",
                    "main": {"model": "M"},
                    "tools": [{"python": "envoyer"} | (entry or {})],
                    "approval": {"scope": scope},
                }
            ],
            "storage": {"events": {"backend": "sqlite", "path": str(self.path / "loom.db")}},
        }
        loom = Loom(LoomConfig.model_validate(values))
        loom.register("envoyer", envoyer)
        loom.register("M", ScriptedModel(*turns))
        return loom


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def told(loom: Loom, run: str) -> list[tuple[str, str]]:
    """Each call of a run: its status or why it was refused, and what the model was told."""
    tree = await loom.trace(run)
    calls = [n for step in tree.steps for n in step.nodes if n.kind == "tool"]
    return [(call.code or call.status, call.result) for call in calls]


@pytest.mark.parametrize("again", [CALL, SPELLED], ids=["same", "other spaces"])
async def test_an_equal_call_of_the_same_run_is_not_launched(office: Office, again):
    async with office.open(CALL, again, OTHER, "fini") as loom:
        run = (await loom.run("a", "Va")).run_id
        codes = [code for code, _ in await told(loom, run)]
    assert codes == ["unknown", "doubtful", "unknown"]
    assert office.sent == ["martin", "durand"]


async def test_an_equal_call_of_a_later_run_of_the_session_is_not_launched(office: Office):
    async with office.open(CALL, "fini") as loom:
        await loom.run("a", "Va", session="s")
    async with office.open(CALL, "fini") as loom:
        run = (await loom.run("a", "Va", session="s")).run_id
        [(code, text)] = await told(loom, run)
        assert (code, text.startswith("Issue inconnue : le même appel")) == ("doubtful", True)
        await loom.run("a", "Va", session="autre")
    assert office.sent == ["martin", "martin"]


async def test_what_may_be_repeated_is_repeated(office: Office):
    async with office.open(CALL, CALL, "fini", idempotent=True) as loom:
        await loom.run("a", "Va")
    assert office.sent == ["martin", "martin"]


async def test_under_pause_a_person_decides_of_the_equal_call(office: Office):
    async with office.open(CALL, "fini") as loom:
        await loom.run("a", "Va", session="s")
    async with office.open(CALL, "fini", on_unknown="pause") as loom:
        paused = await loom.run("a", "Va", session="s")
        [question] = paused.pending_approvals
        assert (question.why, office.sent) == ("unknown", ["martin"])
        office.breaks = False
        done = await loom.approve(paused.run_id, by="cli:dupont")
        assert (done.status, office.sent) == ("completed", ["martin", "martin"])


@pytest.mark.parametrize("happened", [True, False])
async def test_a_person_settles_what_the_model_was_told_is_unknown(office: Office, happened: bool):
    """After `on_unknown: error`, when the run has ended."""
    async with office.open(CALL, "fini") as loom:
        run = (await loom.run("a", "Va", session="s")).run_id
        for _ in range(2):
            done = await loom.approve(run, by="cli:dupont", happened=happened, reason="vu")
            assert done.status == "completed"
        with pytest.raises(AlreadyDecidedError, match="cli:dupont"):
            await loom.approve(run, by="cli:x", call="fake_0_0", happened=not happened)
        with pytest.raises(RunEndedError):
            await loom.approve(run, by="cli:x", call="autre", happened=True)
        events = [e for e in await loom.events(run) if e.type == "approval.settled"]
        assert [(e.payload.by.id, e.payload.happened) for e in events] == [("cli:dupont", happened)]
    office.breaks = False
    async with office.open(CALL, "fini") as loom:
        later = (await loom.run("a", "Encore", session="s")).run_id
        history = (await loom.request(later, 1)).history
        assert [code for code, _ in await told(loom, later)] == ["ok"]
    [result] = [b for m in history if m.role == "tool" for b in m.blocks]
    said = "a bien agi" if happened else "n'a pas agi"
    assert result.content[0].text == f"Vérifié par un humain : l'appel {said}. vu"
    assert office.sent == ["martin", "martin"]


async def test_a_person_settles_a_call_while_its_run_goes_on(office: Office):
    async with office.open(
        CALL, OTHER, CALL, "fini", on_unknown="error", entry={"on_unknown": "error"}
    ) as loom:
        run = (await loom.run("a", "Va")).run_id
        assert [code for code, _ in await told(loom, run)] == ["unknown", "unknown", "doubtful"]


async def test_a_late_result_settles_a_call_for_the_runs_behind(office: Office):
    async with office.open(CALL, "fini") as loom:
        run = (await loom.run("a", "Va", session="s")).run_id
        host = loom._open
        ref = await host.runs.locate("default", run)
        fact = ToolReported(call_id="fake_0_0", blocks=(TextBlock(text="parti"),))
        draft = Draft(host.ports.ids.new(), fact, "fake_0_0")
        await host.ports.journal.append(Append(ref, [draft], Fence("report"), sync=True))
    office.breaks = False
    async with office.open(CALL, "fini") as loom:
        later = (await loom.run("a", "Encore", session="s")).run_id
        assert [code for code, _ in await told(loom, later)] == ["ok"]


async def test_the_scope_of_the_agent_is_needed_to_settle(office: Office):
    async with office.open(CALL, "fini", scope="gérant") as loom:
        run = (await loom.run("a", "Va")).run_id
        with pytest.raises(ScopeMissingError, match="gérant"):
            await loom.approve(run, by="key:a", happened=True, scopes=["approve"])
        await loom.approve(run, by="key:b", happened=True, scopes=["gérant"])


@pytest.mark.parametrize(
    ("declared", "entry", "status"),
    [
        ("error", {"on_unknown": "pause"}, "paused"),
        ("pause", {"on_unknown": "error"}, "completed"),
        ("pause", {}, "paused"),
        ("error", {}, "completed"),
    ],
    ids=str,
)
async def test_the_configuration_wins_over_what_the_decorator_says_of_doubt(
    office: Office, declared: str, entry: dict[str, str], status: str
):
    async with office.open(CALL, "fini", on_unknown=declared, entry=entry) as loom:
        assert (await loom.run("a", "Va")).status == status


async def test_a_conversation_of_many_turns_remembers_its_doubt(office: Office):
    """Past a snapshot, in another process."""
    async with office.open(CALL, *["oui"] * 30) as loom:
        for _ in range(20):
            await loom.run("a", "Va", session="s")
    async with office.open(CALL, "fini") as loom:
        run = (await loom.run("a", "Va", session="s")).run_id
        assert [code for code, _ in await told(loom, run)] == ["doubtful"]
    assert office.sent == ["martin"]
