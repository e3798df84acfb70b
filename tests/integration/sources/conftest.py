"""What tests of servers of tools share: a configuration, a ledger outside, processes counted."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig

SERVERS = Path(__file__).with_name("servers")


class Ledger:
    """What a server really did, written by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []

    @property
    def acts(self) -> list[str]:
        return [line for line in self.lines if not line.startswith("pid ")]

    @property
    def pids(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith("pid ")]

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.pids if living(pid)]


def living(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children(pid: int | None = None) -> list[int]:
    """Living processes below one, this one by default."""
    found = []
    for listed in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        for child in map(int, listed.read_text(encoding="utf-8").split()):
            found += [child] if living(child) else []
            found += children(child)
    return found


class Kit:
    """Functions that tests call."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.living = living
        self.children = children
        self.call = call

    def loom(self, script: list[dict[str, object]], *servers: dict[str, object], **more) -> Loom:
        return configured(script, *servers, **{"root": self.root} | more)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def notebook(ledger: Ledger) -> Callable[..., dict[str, object]]:
    """Describe the notebook server, started by this Python."""

    def describe(*options: str, **keys: object) -> dict[str, object]:
        args = [str(SERVERS / "notebook.py"), str(ledger.path), *options]
        stdio = {"name": "n", "transport": "stdio", "command": sys.executable, "args": args}
        return stdio | keys

    return describe


def configured(
    script: list[dict[str, object]],
    *servers: dict[str, object],
    root: Path | None = None,
    tools: list[dict[str, object]] | None = None,
    **fields: object,
) -> Loom:
    """Loom of one agent `a` that plays a script and uses every server."""
    entries = tools if tools is not None else [{"mcp": str(server["name"])} for server in servers]
    values: dict[str, object] = {
        "version": 1,
        "profile": "dev",
        "language": "en",
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1", "params": {"script": script}}],
        "mcp_servers": list(servers),
        "agents": [{"name": "a", "main": {"model": "M", "system": "-"}, "tools": entries}],
    }
    return Loom(LoomConfig.model_validate_json(json.dumps(values | fields)), root=root)


def call(name: str, /, **arguments: object) -> dict[str, object]:
    """A turn of the script that asks for one tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}
