"""One action under one key: two processes at once, a process killed (S25, S38)."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import ConfigError

TOOLS = """\
import os
import signal
import time

from loom_ia.tools import ToolContext, idempotent, tool


@idempotent(key=lambda args: f"relance:{args['numero']}")
@tool(side_effects="irreversible")
def relancer(numero: str, corps: str, ctx: ToolContext) -> str:
    \"\"\"Relance.\"\"\"
    with open("parti.txt", "a", encoding="utf-8") as sent:
        sent.write(ctx.idempotency_key + "\\n")
    if os.path.exists("tuer"):
        os.remove("tuer")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    return "parti"
"""
CONFIG = """\
version: 1
imports: [outils]
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: relancer, arguments: {numero: D-42, corps: Bonjour}}]
        - text: Fini.
agents:
  - name: a
    main: {model: M}
    tools: [{python: relancer}]
storage:
  events: {backend: sqlite, path: journal.db}
  idempotency: {backend: sqlite, path: cles.db}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outils.py").write_text(TOOLS)
    (tmp_path / "loom.yaml").write_text(CONFIG)
    return tmp_path


RUN = """\
import asyncio, sys
from loom_ia.access import Loom

async def main(run):
    async with await asyncio.to_thread(Loom.from_config) as loom:
        print((await loom.run("a", "Relance", run_id=run)).model_dump_json())

asyncio.run(main(sys.argv[1]))
"""


def started(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)


def ran(name: str) -> subprocess.Popen:
    return started(["-c", RUN, name])


def loom(*arguments: str) -> subprocess.Popen:
    return started([str(Path(sys.executable).with_name("loom")), *arguments])


def said(process: subprocess.Popen) -> dict:
    return json.loads(process.communicate()[0])


def sent(project: Path) -> list[str]:
    return (project / "parti.txt").read_text().split()


async def told(project: Path, run: str) -> tuple[str, str]:
    """What became of the only call of a run."""
    async with await asyncio.to_thread(Loom.from_config, project / "loom.yaml") as opened:
        tree = await opened.trace(run)
    [call] = [n for step in tree.steps for n in step.nodes if n.kind == "tool"]
    return call.code or call.status, call.result


async def test_two_processes_that_act_under_one_key_act_once(project: Path):
    names = [f"r{n}" for n in range(3)]
    processes = [ran(name) for name in names]
    assert [said(p)["status"] for p in processes] == ["completed"] * 3
    assert sent(project) == ["default:relance:D-42"]
    known = {(await told(project, name))[0] for name in names}
    assert "ok" in known
    assert known <= {"ok", "key_in_progress"}


async def test_a_killed_call_is_unknown_to_every_run_until_a_person_settles_it(project: Path):
    config = (project / "loom.yaml").read_text().replace("{python: relancer}", ONE)
    (project / "loom.yaml").write_text(config)
    (project / "tuer").touch()
    first = ran("r1")
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert said(ran("r2"))["status"] == "completed"
    assert (await told(project, "r2"))[0] in {"key_in_progress", "key_unknown"}  # its lease holds
    assert said(loom("resume", "r1", "--json"))["status"] == "paused"
    assert said(ran("r3"))["status"] == "completed"
    assert (await told(project, "r3"))[0] == "key_unknown"
    decided = loom("approve", "r1", "--happened", "yes", "--reason", "vu", "--json")
    assert said(decided)["status"] == "completed"
    assert said(ran("r4"))["status"] == "completed"
    code, result = await told(project, "r4")
    assert (code, "a bien agi. vu" in result) == ("ok", True)
    assert sent(project) == ["default:relance:D-42"]


ONE = "{python: relancer, on_unknown: pause}"


async def test_the_keys_of_an_erased_session_are_erased(project: Path):
    assert said(loom("run", "a", "Relance", "--session", "s", "--json"))["status"] == "completed"
    async with await asyncio.to_thread(Loom.from_config, project / "loom.yaml") as opened:
        await opened.run("a", "Relance")
        assert len(sent(project)) == 1
        await opened.delete_session("s")
        await opened.run("a", "Relance")
    assert len(sent(project)) == 2


@pytest.mark.parametrize("keys", ["", "  idempotency: {backend: memory}\n"])
async def test_a_business_key_wants_a_shared_durable_store(project: Path, keys: str):
    config = CONFIG.replace("  idempotency: {backend: sqlite, path: cles.db}\n", keys)
    (project / "loom.yaml").write_text(config)
    backend = "memory" if keys else "journal"
    expected = (
        rf"loom.yaml:14:13: agents\[0\].tools\[0\]: tool 'relancer' has a business key, which "
        rf"several runs share, and the key store '{backend}' is not shared and durable; write "
        r"storage: \{idempotency: \{backend: sqlite\}\}"
    )
    with pytest.raises(ConfigError, match=expected):
        async with await asyncio.to_thread(Loom.from_config, project / "loom.yaml"):
            pass


async def test_an_unknown_store_of_keys_is_told_with_those_that_are_known(project: Path):
    (project / "loom.yaml").write_text(
        CONFIG.replace("idempotency: {backend: sqlite", "idempotency: {backend: sqlit")
    )
    with pytest.raises(ConfigError, match="unknown key store 'sqlit'; did you mean 'sqlite'"):
        async with await asyncio.to_thread(Loom.from_config, project / "loom.yaml"):
            pass
