"""A project whose tool declares a check: it settles a killed call, in another process (S88)."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.access import Loom

TOOLS = """\
import os
import signal
from pathlib import Path

from loom_ia.tools import NotSent, Sent, ToolContext, tool


def outbox(arguments: dict[str, object], ctx: ToolContext) -> Sent | NotSent:
    sent = Path("parti.txt").read_text() if os.path.exists("parti.txt") else ""
    key = ctx.idempotency_key
    return Sent(key, "dans la boîte d'envoi") if key in sent else NotSent("boîte d'envoi vide")


@tool(side_effects="irreversible", settle=outbox)
def envoyer(a: str, ctx: ToolContext) -> str:
    \"\"\"Envoie.\"\"\"
    def cut(moment: str) -> None:
        if os.path.exists(moment):
            os.remove(moment)
            os.kill(os.getpid(), signal.SIGKILL)

    cut("avant")
    with open("parti.txt", "a", encoding="utf-8") as sent:
        sent.write(ctx.idempotency_key + "\\n")
    cut("apres")
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
        - tool_calls: [{name: envoyer, arguments: {a: martin}}]
        - text: Fini.
agents:
  - name: a
    main: {model: M}
    tools: [{python: envoyer}]
storage:
  events: {backend: jsonl, path: data}
"""


@pytest.mark.parametrize("moment", ["avant", "apres"])
async def test_a_killed_call_is_settled_by_the_check_of_its_project(
    tmp_path: Path, monkeypatch, moment: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outils.py").write_text(TOOLS)
    (tmp_path / "loom.yaml").write_text(CONFIG)
    (tmp_path / moment).touch()
    command = [Path(sys.executable).with_name("loom"), "run", "a", "Va", "--session", "s"]
    killed = await asyncio.to_thread(subprocess.run, command, check=False)
    assert killed.returncode == -signal.SIGKILL
    async with await asyncio.to_thread(Loom.from_config, tmp_path / "loom.yaml") as loom:
        [line] = (await loom.session("s")).lines
        done = await loom.resume(line.run_id)
        events = await loom.events(line.run_id)
    assert done.status == "completed"
    [fact] = [e.payload for e in events if e.type == "tool.settled"]
    assert fact.sent == (moment == "apres")
    assert sum(e.type == "tool.called" for e in events) == (1 if fact.sent else 2)
    assert (tmp_path / "parti.txt").read_text().count("\n") == 1
