"""What tests of the command line share: `loom` as a process, and projects to run it in."""

import codecs
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

MAILER = """
import os
import time

from loom_ia.tools import tool


@tool(side_effects="irreversible", approval="always")
def envoyer_email(destinataire: str) -> str:
    \"\"\"Envoie un e-mail au client.\"\"\"
    with open("envois.txt", "a", encoding="utf-8") as sent:
        sent.write(destinataire + "\\n")
    return "envoyé"


@tool(side_effects="none")
def attendre() -> str:
    \"\"\"Attend longtemps.\"\"\"
    open("parti", "w").close()
    while not os.path.exists("assez"):
        time.sleep(0.01)
    return "fini"
"""

LOOM = """
version: 1
imports: [outils]
models:
  - id: MAIL
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: envoyer_email, arguments: {destinataire: martin}}]
        - text: C'est réglé.
  - id: LENT
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: attendre, arguments: {}}]
        - text: Enfin.
  - id: PANNE
    sdk: fake
    model: fake-1
    params: {script: [{error: en panne}]}
storage:
  events: {backend: jsonl, path: data}
"""


Turn = tuple[str, str | Callable[[], object]]
"""What the screen shows, then what is typed or done."""


class Typed(subprocess.CompletedProcess[str]):
    """What a command gave."""

    @property
    def run_id(self) -> str:
        line = next(line for line in self.stderr.splitlines() if line.startswith("Run"))
        return line.split()[-1]


def typed(folder: Path, *words: str, lang: str = "fr", **variables: str) -> Typed:
    environ = {**os.environ, "LOOM_LANG": lang, **variables}
    done = subprocess.run(
        [sys.executable, "-m", "loom_ia.access.cli.main", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        check=False,
    )
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return Typed(done.args, done.returncode, out, err)


def on_terminal(
    folder: Path, *words: str, answers: Sequence[Turn] = (), **variables: str
) -> tuple[int, str]:
    """Type a command at a terminal, answer each question once it is asked; code and screen."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "LOOM_LANG": "fr", "TERM": "xterm", **variables}
    command = ["setsid", "--ctty", sys.executable, "-m", "loom_ia.access.cli.main", *words]
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        screen = _conversation(ours, answers)
        return process.wait(timeout=60), screen
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def _conversation(ours: int, answers: Sequence[Turn]) -> str:
    """All that the terminal shows until the command ends."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    screen, seen = "", 0
    waiting = list(answers)
    while True:
        if waiting and (at := screen.find(waiting[0][0], seen)) >= 0:
            seen = at + len(waiting[0][0])
            answer = waiting.pop(0)[1]
            os.write(ours, answer.encode()) if isinstance(answer, str) else answer()
        assert select.select([ours], [], [], 60)[0], screen
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            chunk = b""
        if not chunk:
            assert not waiting, screen
            return screen.replace("\r\n", "\n")
        screen += decoder.decode(chunk)


def wait_until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def loom() -> Callable[..., Typed]:
    """Run `loom` in a folder."""
    return typed


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Run `loom` at a terminal."""
    return on_terminal


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for another process."""
    return wait_until


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """The project of the tutorial, without data."""
    shutil.copytree(
        ROOT / "examples/j1/mon-agent",
        tmp_path / "mon-agent",
        ignore=shutil.ignore_patterns("data", "__pycache__"),
    )
    return tmp_path / "mon-agent"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Agents that send, wait and fail."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "outils.py").write_text(MAILER, encoding="utf-8")
    (tmp_path / "loom.yaml").write_text(LOOM, encoding="utf-8")
    for name, model, tool in (
        ("relance", "MAIL", "envoyer_email"),
        ("lent", "LENT", "attendre"),
        ("panne", "PANNE", None),
    ):
        tools = f"tools: [{{python: {tool}}}]\n" if tool else ""
        text = f"name: {name}\nmain: {{model: {model}}}\n{tools}"
        (tmp_path / "agents" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path
