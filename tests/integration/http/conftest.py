"""Real servers: `loom serve` as a process, asked over the network."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

ROOT = Path(__file__).resolve().parents[3]

TOOLS = """
import os
import time

from loom_ia.tools import tool


@tool(side_effects="irreversible", approval="always")
def send(to: str) -> str:
    \"\"\"Send an e-mail.\"\"\"
    with open("sent.txt", "a", encoding="utf-8") as sent:
        sent.write(to + "\\n")
    return "sent"


@tool(side_effects="none")
def wait() -> str:
    \"\"\"Wait until told.\"\"\"
    open("begun", "w").close()
    while not os.path.exists("enough"):
        time.sleep(0.01)
    return "done"
"""

CONFIG = """
version: 1
language: en
imports: [tools]
models:
  - {id: TALK, sdk: fake, model: fake-1, params: {script: [{text: Hello there.}]}}
  - id: MAIL
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: send, arguments: {to: martin}}]
        - text: Settled.
  - id: SLOW
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: wait, arguments: {}}]
        - text: At last.
  - {id: DOWN, sdk: fake, model: fake-1, params: {script: [{error: out of order}]}}
agents:
  - {name: talk, description: Answers., main: {model: TALK}}
  - {name: mail, main: {model: MAIL}, tools: [{python: send}]}
  - {name: slow, main: {model: SLOW}, tools: [{python: wait}]}
  - {name: down, main: {model: DOWN}}
  - {name: hidden, main: {model: TALK}, expose: {rest: false}}
storage:
  events: {backend: jsonl, path: data}
execution:
  attachments: {max_bytes: 100000, max_files: 2}
"""


class Server:
    """One `loom serve`, and what it said on standard error."""

    def __init__(self, folder: Path, *words: str, **variables: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loom_ia.access.cli.main", "serve", "--port", "0", *words],
            cwd=folder,
            env={**os.environ, "LOOM_LANG": "en", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._heard = threading.Condition()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        line = self.hear("Listening")
        self.url = line.split()[2]
        self.client = httpx2.Client(base_url=self.url, timeout=60)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._heard:
                self.said.append(line.rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def hear(self, words: str, *, times: int = 1) -> str:
        """Line of standard error that holds words, waited for."""

        def found() -> list[str]:
            return [line for line in self.said if words in line]

        with self._heard:
            self._heard.wait_for(
                lambda: len(found()) >= times or self.process.poll() is not None, timeout=60
            )
            assert len(found()) >= times, self.said
            return found()[times - 1]

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Stop the process; its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self._listening.join(timeout=10)
        return code

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            self._listening.join(timeout=10)
            stream.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project to copy."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "loom.yaml").write_text(CONFIG, encoding="utf-8")
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A project of this test alone."""
    return Path(shutil.copytree(made, tmp_path / "project"))


@pytest.fixture
def served(project: Path) -> Iterator[Callable[..., Server]]:
    """Serve the project of this test."""
    servers: list[Server] = []

    def start(*words: str, folder: Path = project, **variables: str) -> Server:
        server = Server(folder, *words, **variables)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def server(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all the tests of a module that change nothing of each other's."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("served") / "project"))
    shared = Server(folder)
    yield shared
    shared.close()


@pytest.fixture
def http(server: Server) -> httpx2.Client:
    """What asks that server."""
    return server.client
