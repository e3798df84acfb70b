from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = """\
version: 1
models:
  - id: SIMULE
    sdk: fake
    model: fake-1
"""
AGENT = """\
name: devis
main:
  model: SIMULE
  system_file: devis.md
tools:
  - python: prix_ttc
"""

Write = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a project that loads, with some files changed; the current folder becomes its own."""
    monkeypatch.chdir(tmp_path)

    def write(changes: dict[str, str | None] | None = None) -> Path:
        texts: dict[str, str | None] = {
            "loom.yaml": ROOT,
            "agents/devis.yaml": AGENT,
            "prompts/devis.md": "Tu es {{ agent.name }}.\n",
            **(changes or {}),
        }
        for name, text in texts.items():
            if text is not None:
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        return Path("loom.yaml")

    return write


@pytest.fixture
def root() -> str:
    return ROOT


@pytest.fixture
def agent() -> str:
    return AGENT
