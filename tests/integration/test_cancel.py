"""A run stopped from anywhere: nothing new starts, and what does not stop is said (S85)."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.core.errors import RunNotFoundError, SessionErasedError
from loom_ia.core.events import CancelRequested, ToolReported, ToolUnknown
from loom_ia.runtime.errors import NotResumableError

TOOLS = '''\
import asyncio
import time
from pathlib import Path

from loom_ia.tools import tool

HERE = Path(__file__).parent


def mark(word):
    with (HERE / "marks").open("a") as marks:
        marks.write(f"{word}\\n")


@tool(side_effects="irreversible")
async def attendre() -> str:
    """Attend, et s'arrête quand on le lui demande."""
    mark("parti")
    await asyncio.Event().wait()


@tool(side_effects="irreversible")
async def avaler() -> str:
    """Attend, et n'écoute personne."""
    mark("parti")
    while not (HERE / "assez").exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue
    return "fini"


@tool(side_effects="irreversible")
def bloquer() -> str:
    """Bloque un fil."""
    mark("parti")
    while not (HERE / "assez").exists():
        time.sleep(0.02)
    return "fini"


@tool(side_effects="irreversible", approval="always")
def signer() -> str:
    """Signe."""
    mark("signé")
    return "signé"
'''
CONFIG = """\
version: 1
imports: [outils]
models:
{models}
agents:
{agents}
storage:
  events: {{backend: {backend}, path: {path}}}
"""
MODEL = """\
  - id: {name}
    sdk: fake
    model: f
    params: {{script: [{{tool_calls: [{{name: {name}}}]}}, {{text: Fini.}}]}}
"""
AGENT = "  - {{name: {name}, main: {{model: {name}}}, tools: [{{python: {name}}}]}}\n"
NAMES = ("attendre", "avaler", "bloquer", "signer")
DRIVE = """
import asyncio, sys
from loom_ia.access import Loom
from loom_ia.core.errors import RunNotFoundError, SessionErasedError

async def main():
    async with Loom.from_config() as loom:
        result = await loom.run(sys.argv[1], "Va", run_id="r1", session="s")
        print(result.status, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@pytest.fixture(params=["jsonl", "sqlite"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    backend: str = request.param
    (tmp_path / "outils.py").write_text(TOOLS)
    text = CONFIG.format(
        models="".join(MODEL.format(name=name) for name in NAMES),
        agents="".join(AGENT.format(name=name) for name in NAMES),
        backend=backend,
        path="loom.db" if backend == "sqlite" else "data",
    )
    (tmp_path / "loom.yaml").write_text(text)
    return tmp_path


def there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def said(driver: asyncio.subprocess.Process) -> bytes:
    assert driver.stdout is not None
    return await driver.stdout.readline()


@asynccontextmanager
async def elsewhere(folder: Path, agent: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that drives a run of the agent, once its tool is at work."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        DRIVE,
        agent,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        await asyncio.to_thread(there, folder / "marks")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def opened(folder: Path) -> Loom:
    return await asyncio.to_thread(Loom.from_config, folder / "loom.yaml")


async def test_a_run_that_another_process_drives_is_stopped(project: Path) -> None:
    async with elsewhere(project, "attendre") as driver, await opened(project) as loom:
        first, second = await asyncio.gather(
            loom.cancel("r1", by="key:a", reason="erreur"), loom.cancel("r1", by="key:b")
        )
        assert await said(driver) == b"cancelled\n"
        events = await loom.events("r1")
        with pytest.raises(NotResumableError):
            await loom.resume("r1", by="key:a")
        assert await loom.recover() == ()
    assert (first.status, first.stopping, first.still_running) == ("cancelled", False, ())
    assert second == first
    payloads = [event.payload for event in events]
    asked = [p for p in payloads if isinstance(p, CancelRequested)]
    assert len(asked) == 1
    assert [p.reason for p in payloads if isinstance(p, ToolUnknown)] == ["cancelled"]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["avaler", "bloquer"])
async def test_a_call_that_does_not_stop_is_said_and_its_late_outcome_recorded(
    project: Path, agent: str
) -> None:
    async with elsewhere(project, agent) as driver, await opened(project) as loom:
        begun = asyncio.get_running_loop().time()
        stopped = await loom.cancel("r1", by="key:a")
        assert asyncio.get_running_loop().time() - begun < 15
        assert (stopped.status, stopped.still_running) == ("cancelled", ("fake_0_0",))
        await asyncio.to_thread((project / "assez").touch)
        assert await said(driver) == b"cancelled\n"
        async with aclosing(loom.follow(session="s")) as events:
            payloads = (event.payload async for event in events)
            late = await anext(p async for p in payloads if isinstance(p, ToolReported))
        assert (await loom.state("r1")).status == "cancelled"
    assert [getattr(block, "text", "") for block in late.blocks] == ["fini"]
    assert await asyncio.to_thread((project / "marks").read_text) == "parti\n"


@pytest.mark.slow
async def test_a_driver_that_answers_nothing_does_not_hold_who_cancels(project: Path) -> None:
    async with elsewhere(project, "attendre") as driver, await opened(project) as loom:
        os.kill(driver.pid, signal.SIGSTOP)
        state = await loom.cancel("r1", by="key:a")
        assert (state.status, state.stopping) == ("awaiting_tools", True)
        os.kill(driver.pid, signal.SIGCONT)
        facts = [event.payload.type async for event in loom.follow("r1")]
        assert facts[-1] == "run.cancelled"
        assert (await loom.cancel("r1", by="key:a")).status == "cancelled"


async def test_a_run_that_waits_is_stopped_beside_one_that_works(project: Path) -> None:
    async with await opened(project) as loom:
        await loom.run("signer", "Va", run_id="r0", session="s")
        async with elsewhere(project, "attendre"):
            assert (await loom.cancel("r0", by="key:a")).status == "cancelled"
            assert (await loom.state("r1")).status == "awaiting_tools"


async def test_what_is_decided_beside_a_run_that_works_is_done_after_it(project: Path) -> None:
    async with await opened(project) as loom:
        await loom.run("signer", "Va", run_id="r0", session="s")
        async with elsewhere(project, "attendre"):
            decided = await loom.approve("r0", by="key:a")
            assert decided.status == "awaiting_tools"
            assert not await loom.drain(within=0)
            await loom.cancel("r1", by="key:a")
            await loom.drain()
        assert (await loom.result("r0")).text == "Fini."


async def test_a_run_whose_agent_is_gone_can_still_be_stopped(project: Path) -> None:
    async with await opened(project) as loom:
        await loom.run("signer", "Va", run_id="r0", session="s")
    path = project / "loom.yaml"
    text = (await asyncio.to_thread(path.read_text)).replace("{name: signer,", "{name: autre,")
    await asyncio.to_thread(path.write_text, text)
    async with await opened(project) as loom:
        assert (await loom.cancel("r0", by="key:a")).status == "cancelled"


async def test_a_session_whose_run_is_driven_elsewhere_is_erased_once_it_is_stopped(
    project: Path,
) -> None:
    async with elsewhere(project, "attendre") as driver, await opened(project) as loom:
        erased = await loom.delete_session("s", by="key:a")
        assert (erased.session_id, erased.by) == ("s", "key:a")
        assert await said(driver) in {b"cancelled\n", b""}
        with pytest.raises(RunNotFoundError):
            await loom.state("r1")
        with pytest.raises(SessionErasedError, match="key:a"):
            await loom.run("signer", "Encore", session="s")


@pytest.mark.slow
async def test_a_session_is_erased_whatever_its_driver_does(project: Path) -> None:
    async with elsewhere(project, "attendre") as driver, await opened(project) as loom:
        os.kill(driver.pid, signal.SIGSTOP)
        await loom.delete_session("s", by="key:a")
        os.kill(driver.pid, signal.SIGCONT)
        assert await said(driver) == b""
        assert await driver.wait() != 0
        page = await loom.sessions()
        assert page.sessions == ()
