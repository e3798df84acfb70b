"""The tutorial as a reader types it in a shell: its own copy of the commands, files and answers."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "tutorial"
PYTHON = """
import asyncio

from loom_ia.access import Loom


async def main() -> None:
    async with Loom.from_config("loom.yaml") as loom:
        result = await loom.run("AGENT", "QUESTION")
        print(result.status, result.text)


asyncio.run(main())
"""
LIVE = """
import asyncio

from loom_ia.access import Loom
from loom_ia.core.events import Event
from loom_ia.core.model import TextDelta


async def main() -> None:
    async with Loom.from_config("loom.yaml") as loom:
        async for item in loom.stream("AGENT", "QUESTION"):
            if isinstance(item, TextDelta):
                print(item.text, end="", flush=True)
            elif isinstance(item, Event) and item.type == "tool.called":
                print("\\n[CALL]")


asyncio.run(main())
"""


@dataclass(frozen=True)
class Words:
    """What the tutorial says in one language."""

    lang: str
    agent: str
    question: str
    short: str
    again: str
    session: str
    call: str
    first: str
    answer: str
    status: str


FRENCH = Words(
    "fr",
    "devis",
    "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?",
    "Quel prix TTC pour 1 250 € HT à 10 % ?",
    "Et avec une TVA à 20 % ?",
    "chantier-durand",
    "appel d'outil",
    "Je calcule le prix TTC.",
    "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC.",
    "Statut     : completed · itérations : 2 · tokens : ",
)
ENGLISH = Words(
    "en",
    "quote",
    "What is the price with tax of a renovation quote of €1,250 before tax (VAT 10%)?",
    "What is the price with tax of €1,250 at 10%?",
    "And with VAT at 20%?",
    "site-durand",
    "tool call",
    "I am computing the price with tax.",
    "For €1,250 before tax with VAT at 10%, your customer will pay €1,375.",
    "Status     : completed · iterations: 2 · tokens: ",
)


@pytest.fixture(params=[FRENCH, ENGLISH], ids=["fr", "en"])
def words(request: pytest.FixtureRequest) -> Words:
    return request.param


@pytest.fixture
def shell(tmp_path: Path, words: Words):
    """Type a line in the folder of the project, `loom` and `python` being ours."""
    shutil.copytree(
        FILES / words.lang,
        tmp_path / "mon-agent",
        ignore=shutil.ignore_patterns("data", "__pycache__"),
    )
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, module in (("loom", " -m loom_ia.access.cli.main"), ("python", "")):
        script = f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n'
        (bin_dir / name).write_text(script, encoding="utf-8")
        (bin_dir / name).chmod(0o755)
    environ = {**os.environ, "LOOM_LANG": words.lang, "PYTHONIOENCODING": "utf-8"}
    environ["PATH"] = f"{bin_dir}:{environ['PATH']}"

    def typed(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"cd mon-agent && {{ {line}\n}} 2>&1"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    return typed


def test_what_is_typed_gives_what_the_tutorial_promises(shell, tmp_path, words: Words) -> None:
    assert shell("loom schema > loom.schema.json") == ""
    assert shell("loom validate").startswith("Config     : loom.yaml\n")
    summary, run, answer = shell(f'loom run {words.agent} "{words.question}"').splitlines()
    assert re.fullmatch(re.escape(words.status) + r"\d+/\d+ · \S+ ?: 0\.0000 \$", summary)
    assert answer == words.answer
    tree = shell(f"loom inspect {run.split()[-1]}")
    assert re.match(rf"run {words.agent} — completed, \d+ ms, 0\.000000 \$\n", tree)
    assert tree.endswith(f" : {words.answer}\n")
    assert "main  fake-1" in re.sub(" +", "  ", shell(f"loom report {run.split()[-1]}"))
    streamed = shell(f'loom run {words.agent} "{words.question}" --stream')
    assert streamed.startswith(f"{words.first}\n[")
    assert words.answer in streamed.splitlines()
    assert (tmp_path / "mon-agent/data/default" / f"{run.split()[-1]}.jsonl").exists()


@pytest.mark.parametrize("live", [False, True])
def test_the_agent_is_called_from_python(shell, tmp_path, words: Words, *, live: bool) -> None:
    text = LIVE if live else PYTHON
    for mark, value in (("AGENT", words.agent), ("QUESTION", words.short), ("CALL", words.call)):
        text = text.replace(mark, value)
    (tmp_path / "mon-agent" / "appel.py").write_text(text, encoding="utf-8")
    told = shell("python appel.py")
    if live:
        assert told == f"{words.first}\n[{words.call}]\n{words.answer}"
    else:
        assert told == f"completed {words.answer}\n"


def test_a_conversation_reads_what_was_said_before(shell, words: Words) -> None:
    told = [
        shell(f'loom run {words.agent} "{said}" --session {words.session}')
        for said in (words.short, words.again)
    ]
    first, second = (int(re.findall(r"(\d+)/\d+", text)[0]) for text in told)
    assert second > first
    rows = shell(f"loom sessions show {words.session}").splitlines()
    assert sum("completed" in row for row in rows) == 2
    assert "main  fake-1  4" in re.sub(" +", "  ", shell(f"loom report --session {words.session}"))
