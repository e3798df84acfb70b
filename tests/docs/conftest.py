"""The scripts that write and follow the pages."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pages() -> ModuleType:
    """Follow a page as a reader does."""
    return loaded("pages")


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """Write the reference pages."""
    return loaded("reference")
