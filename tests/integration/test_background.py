"""Runs in the background: written before they are acknowledged, taken up by whoever is alive."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import RunHeldError, SessionBusyError
from loom_ia.core.events import ApprovalExpired, RunClaimed, ToolCalled
from loom_ia.runtime.errors import InvalidRequestError, UnknownAgentError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import ToolContext, tool

SENDS = ({"tool_calls": [{"name": "envoyer", "arguments": {"a": "martin"}}]}, "Fait.")


class Post:
    """A tool that counts what it does, and waits for leave when it is told to."""

    def __init__(self, *, approval: str = "never", gated: bool = False) -> None:
        self.sent: list[str] = []
        self.inside = self.most = 0
        self.left: asyncio.Queue[str] = asyncio.Queue()
        self.gate = asyncio.Event()
        if not gated:
            self.gate.set()

        @tool(side_effects="irreversible", approval=approval)
        async def envoyer(a: str, ctx: ToolContext) -> str:
            """Envoie un e-mail."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.left.put_nowait(ctx.run_id)
            await self.gate.wait()
            self.inside -= 1
            self.sent.append(f"{ctx.run_id} {a}")
            return "envoyé"

        self.tool = envoyer


async def ready(post: Post, path: Path, *turns: object, **fields: object) -> Loom:
    agent = {"name": "a", "main": {"model": "M"}, "tools": [{"python": "envoyer"}]}
    values: dict[str, object] = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}}],
        "agents": [agent],
        "storage": {"events": {"backend": "jsonl", "path": str(path / "data")}},
    }
    loom = await asyncio.to_thread(Loom, LoomConfig.model_validate(values | fields))
    loom.register("envoyer", post.tool)
    loom.register("M", ScriptedModel(*(turns or SENDS)))
    return loom


async def ended(loom: Loom, run_id: str) -> list[object]:
    return [event.payload async for event in loom.follow(run_id)]


async def test_a_submitted_run_is_in_the_journal_at_once_and_ends_by_itself(tmp_path: Path) -> None:
    post = Post()
    async with await ready(post, tmp_path) as loom:
        view = await loom.submit("a", "Relance", session="s", run_id="r1")
        written = await asyncio.to_thread((tmp_path / "data/default/s.jsonl").read_text)
        await ended(loom, "r1")
        result = await loom.result("r1")
    assert (view.run_id, view.status, view.position) == ("r1", "ready_for_model", 1)
    assert "run.started" in written
    assert (result.status, result.text, post.sent) == ("completed", "Fait.", ["r1 martin"])


async def test_no_more_runs_are_driven_at_once_than_allowed(tmp_path: Path) -> None:
    post = Post(gated=True)
    async with await ready(post, tmp_path, execution={"parallel_runs": 2}) as loom:
        for n in range(5):
            await loom.submit("a", "Relance", run_id=f"r{n}")
        await post.left.get()
        await post.left.get()
        assert not await loom.drain(within=0.05)
        assert post.most == 2
        post.gate.set()
        assert await loom.drain(within=60)
        assert post.most == 2
        assert [(await loom.result(f"r{n}")).status for n in range(5)] == ["completed"] * 5
    assert sorted(post.sent) == [f"r{n} martin" for n in range(5)]


async def test_a_queued_run_is_cancelled_before_it_is_driven(tmp_path: Path) -> None:
    post = Post(gated=True)
    async with await ready(post, tmp_path, execution={"parallel_runs": 1}) as loom:
        await loom.submit("a", "Relance", run_id="r0")
        await post.left.get()
        await loom.submit("a", "Relance", run_id="r1")
        assert (await loom.cancel("r1", by="key:a")).status == "cancelled"
        post.gate.set()
        assert await loom.drain(within=60)
        assert (await loom.result("r1")).status == "cancelled"
    assert post.sent == ["r0 martin"]


async def test_nothing_is_submitted_that_would_need_its_caller(tmp_path: Path) -> None:
    async with await ready(Post(), tmp_path) as loom:
        options: dict[str, object] = {"approver": lambda _: True}
        with pytest.raises(InvalidRequestError, match="approver"):
            await loom.submit("a", "Relance", **options)


async def test_closing_lets_the_step_in_flight_end_and_another_goes_on(tmp_path: Path) -> None:
    post = Post(gated=True)
    loom = await ready(post, tmp_path, execution={"parallel_runs": 1})
    async with loom:
        await loom.submit("a", "Relance", run_id="r1")
        await loom.submit("a", "Relance", run_id="r2")
        await post.left.get()
        asyncio.get_running_loop().call_later(0.05, post.gate.set)
    assert post.sent == ["r1 martin"]
    async with await ready(post, tmp_path) as other:
        assert (await other.state("r1")).status == "ready_for_model"
        assert list(await other.recover()) == ["r1", "r2"]
        assert await other.recover() == ()
        assert await other.drain(within=60)
        events = await other.events("r1")
        assert (await other.result("r2")).status == "completed"
    claims = [e.payload for e in events if isinstance(e.payload, RunClaimed)]
    assert [claim.crashed for claim in claims] == [False, False]
    assert post.sent == ["r1 martin", "r2 martin"]


async def test_a_run_that_waits_for_a_human_is_not_woken(tmp_path: Path) -> None:
    post = Post(approval="always")
    async with await ready(post, tmp_path) as loom:
        await loom.run("a", "Relance", run_id="r1")
        before = await loom.events("r1")
        async with loom.serving():
            assert await loom.recover() == ()
            await loom.drain()
        assert await loom.events("r1") == before


async def test_a_question_that_expires_is_closed_without_anybody(tmp_path: Path) -> None:
    agent = {
        "name": "a",
        "main": {"model": "M"},
        "tools": [{"python": "envoyer"}],
        "approval": {"expires_in": 1},
    }
    post = Post(approval="always")
    async with await ready(post, tmp_path, agents=[agent]) as loom, loom.serving():
        await loom.submit("a", "Relance", run_id="r1")
        facts = await ended(loom, "r1")
        assert (await loom.result("r1")).status == "completed"
    assert any(isinstance(fact, ApprovalExpired) for fact in facts)
    assert post.sent == []


async def test_a_run_that_cannot_be_driven_here_is_parked_and_said(tmp_path: Path) -> None:
    post = Post(gated=True)
    async with await ready(post, tmp_path, execution={"parallel_runs": 1}) as loom:
        await loom.submit("a", "Relance", run_id="r1")
        await loom.submit("a", "Relance", run_id="r2")
        await post.left.get()
        post.gate.set()
    agent = {"name": "b", "main": {"model": "M"}, "tools": [{"python": "envoyer"}]}
    async with await ready(post, tmp_path, agents=[agent]) as other, other.serving():
        await other.drain()
        assert {run: type(error) for run, error in other.parked.items()} == {
            "r1": UnknownAgentError,
            "r2": UnknownAgentError,
        }
        assert list(await other.recover()) == ["r1", "r2"]  # asked by name: tried again
        await other.drain()
    async with await ready(post, tmp_path) as loom:
        await loom.recover()
        await loom.drain()
        assert loom.parked == {}
        assert (await loom.result("r1")).status == "completed"


DYING = '''\
import os
import signal
from pathlib import Path

from loom_ia.tools import tool

HERE = Path(__file__).parent


@tool(side_effects="none")
def mesurer() -> str:
    """Mesure."""
    with (HERE / "marks").open("a") as marks:
        marks.write("x")
    if (HERE / "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "12 m²"
'''
CONFIG = """\
version: 1
imports: [outils]
models:
  - id: M
    sdk: fake
    model: f
    params:
      script:
        - tool_calls: [{{name: mesurer}}]
        - text: Fini.
agents:
  - {{name: a, main: {{model: M}}, tools: [{{python: mesurer}}]}}
storage:
  events: {{backend: {backend}, path: {path}}}
"""


def project(folder: Path, backend: str) -> Path:
    path = "loom.db" if backend == "sqlite" else "data"
    (folder / "outils.py").write_text(DYING)
    (folder / "loom.yaml").write_text(CONFIG.format(backend=backend, path=path))
    (folder / "deadly").touch()
    return folder / "loom.yaml"


def killed(folder: Path, code: str) -> None:
    """Run code that dies of the tool in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, timeout=60)
    assert done.returncode == -9


SUBMIT = """
import asyncio
from loom_ia.access import Loom

async def main():
    async with Loom.from_config() as loom:
        await loom.submit("a", "Mesure", run_id="r1", session="s")
        await loom.drain()

asyncio.run(main())
"""
RECOVER = SUBMIT.replace('submit("a", "Mesure", run_id="r1", session="s")', "recover()")


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_a_run_that_kills_each_of_its_drivers_fails_at_the_fifth(
    tmp_path: Path, backend: str
) -> None:
    path = await asyncio.to_thread(project, tmp_path, backend)
    await asyncio.to_thread(killed, tmp_path, SUBMIT)
    for _ in range(4):
        await asyncio.to_thread(killed, tmp_path, RECOVER)
    async with await asyncio.to_thread(Loom.from_config, path) as loom:
        async with loom.serving():
            await loom.drain(within=60)
        failed = await loom.result("r1")
        launches = [e for e in await loom.events("r1") if isinstance(e.payload, ToolCalled)]
        assert (failed.status, failed.error_code) == ("failed", "step_crashed")
        assert failed.error == ("run r1: step 2 crashed its process 5 times; look at its tools")
        assert len(launches) == 5
        assert await loom.recover() == ()
        await asyncio.to_thread((tmp_path / "deadly").unlink)
        done = await loom.resume("r1", by="cli:dupont")
        types = [event.type for event in await loom.events("r1")]
    assert (done.status, done.text) == ("completed", "Fini.")
    assert types.count("run.resumed") == 1
    assert (await asyncio.to_thread((tmp_path / "marks").read_text)) == "x" * 6


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_what_a_killed_process_drove_is_taken_up_at_once_by_one_that_serves(
    tmp_path: Path, backend: str
) -> None:
    path = await asyncio.to_thread(project, tmp_path, backend)
    async with await asyncio.to_thread(Loom.from_config, path) as loom, loom.serving():
        await asyncio.to_thread(killed, tmp_path, SUBMIT)
        await asyncio.to_thread((tmp_path / "deadly").unlink)
        facts = await ended(loom, "r1")
        assert (await loom.result("r1")).text == "Fini."
    assert [f.crashed for f in facts if isinstance(f, RunClaimed)] == [False, True]


async def test_two_runs_of_one_session_are_not_submitted_together(tmp_path: Path) -> None:
    post = Post(gated=True)
    async with await ready(post, tmp_path) as loom:
        await loom.submit("a", "Relance", session="s", run_id="r1")
        with pytest.raises(SessionBusyError, match="r1"):
            await loom.submit("a", "Encore", session="s")
        post.gate.set()
        await loom.drain()


async def test_a_run_driven_elsewhere_says_so_to_who_resumes_it(tmp_path: Path) -> None:
    post = Post(gated=True)
    async with await ready(post, tmp_path) as loom, await ready(post, tmp_path) as other:
        await loom.submit("a", "Relance", run_id="r1")
        await post.left.get()
        with pytest.raises(RunHeldError, match="until"):
            await other.resume("r1", by="cli:dupont")
        assert await other.recover() == ()
        post.gate.set()
        await loom.drain()


async def test_a_run_whose_driving_time_is_spent_is_resumed_with_as_much_again(
    tmp_path: Path,
) -> None:
    agent = {"name": "a", "main": {"model": "M"}, "tools": [{"python": "envoyer"}], "timeout": 0.2}
    post = Post(gated=True)
    async with await ready(post, tmp_path, agents=[agent]) as loom:
        await loom.submit("a", "Relance", run_id="r1")
        await ended(loom, "r1")
        failed = await loom.result("r1")
        followed = asyncio.create_task(ended(loom, "r1"))
        await asyncio.wait({followed})
        done = await loom.resume("r1", by="key:a")
        again = await ended(loom, "r1")
    assert (failed.status, failed.error_code, failed.resumable) == ("failed", "agent_timeout", True)
    assert (done.status, done.text) == ("completed", "Fait.")
    assert again[: len(followed.result())] == followed.result()
    assert sum(isinstance(fact, ToolCalled) for fact in again) == 1
