"""The reference says everything that the program registers."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from loom_ia.access.cli.main import COMMANDS
from loom_ia.config import LoomConfig
from loom_ia.core.events.envelope import TYPES

ROOT = Path(__file__).resolve().parents[2]
EMPTY = re.compile(r"^\| `.*\|\s*\|$|^: –\.$", re.MULTILINE)


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_command_and_option_is_said(reference: ModuleType, language: str) -> None:
    page = reference.pages(language)["commands"]
    assert [name for name in COMMANDS if f"## loom {name}\n" not in page] == []
    assert "`--session ID`" in page
    assert "### loom sessions export" in page
    assert EMPTY.findall(page) == []


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_error_is_said(reference: ModuleType, language: str) -> None:
    page = reference.pages(language)["errors"]
    assert [code for code in reference.errors() if f"| `{code}` |" not in page] == []


def test_every_setting_is_said_with_its_meaning(reference: ModuleType) -> None:
    page = reference.pages("en")["settings"]
    assert [key for key in LoomConfig.model_fields if f"| `{key}` |" not in page] == []
    assert "## storage: `sqlite`" in page
    assert EMPTY.findall(page) == []


def test_every_event_is_said_with_the_meaning_of_its_fields(reference: ModuleType) -> None:
    page = reference.pages("en")["events"]
    assert [name for name in TYPES if f"## `{name}`\n" not in page] == []
    assert EMPTY.findall(page) == []


def test_a_setting_without_a_meaning_is_caught() -> None:
    assert EMPTY.findall("| `key` | string | – |  |\n") == ["| `key` | string | – |  |"]


def test_french_pages_speak_french(reference: ModuleType) -> None:
    assert "Lancer un agent" in reference.pages("fr")["commands"]
    assert "Run an agent" in reference.pages("en")["commands"]
