"""The reference says everything that the program registers."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from loom_ia.access.cli.main import COMMANDS
from loom_ia.config import LoomConfig
from loom_ia.core.events.envelope import TYPES

ROOT = Path(__file__).resolve().parents[2]
PROMISED = (
    ("GET", "/v1/agents"),
    ("POST", "/v1/agents/{name}/runs"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{run_id}"),
    ("POST", "/v1/runs/{run_id}/approve"),
    ("POST", "/v1/runs/{run_id}/reject"),
    ("POST", "/v1/runs/{run_id}/cancel"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/sessions/{session_id}"),
    ("GET", "/v1/sessions/{session_id}/events"),
    ("GET", "/v1/sessions/{session_id}/report"),
    ("DELETE", "/v1/sessions/{session_id}"),
    ("GET", "/v1/events"),
    ("GET", "/v1/traces/{run_id}"),
)
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


def test_every_route_is_said_with_its_scope(reference: ModuleType) -> None:
    from loom_ia.access.http.app import ROUTERS

    page = reference.pages("en")["routes"]
    routes = [route for router in ROUTERS for route in router.routes]
    assert len(routes) >= len(PROMISED)
    assert [r.path_format for r in routes if f"| `{r.path_format}` |" not in page] == []
    bare = re.findall(r"^\| \w+ \| `(/v1/[^`]*)` \|.*\| – \| [^|]*\|$", page, re.MULTILINE)
    assert bare == []


def test_every_route_of_the_product_is_served(reference: ModuleType) -> None:
    page = reference.pages("en")["routes"]
    assert [row for row in PROMISED if f"| {row[0]} | `{row[1]}` |" not in page] == []


def test_a_setting_without_a_meaning_is_caught() -> None:
    assert EMPTY.findall("| `key` | string | – |  |\n") == ["| `key` | string | – |  |"]


def test_french_pages_speak_french(reference: ModuleType) -> None:
    assert "Lancer un agent" in reference.pages("fr")["commands"]
    assert "Run an agent" in reference.pages("en")["commands"]
