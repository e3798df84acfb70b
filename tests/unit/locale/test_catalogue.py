import gettext
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
ADVICE = "run python tools/catalogue.py, then translate what it lists"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalogue", ROOT / "tools" / "catalogue.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_message_of_the_source_is_in_the_catalogue_and_nothing_else(tool: ModuleType):
    written = {message.id for message in tool.catalogue() if message.id}
    expected = set(tool.message_ids())
    assert (expected - written, written - expected) == (set(), set()), ADVICE
    assert list(tool.catalogue().obsolete) == []


def test_every_message_has_a_french_translation_that_someone_checked(tool: ModuleType):
    messages = [message for message in tool.catalogue() if message.id]
    assert [message.id for message in messages if not message.string or message.fuzzy] == [], ADVICE


def test_a_translation_has_the_fields_of_its_message(tool: ModuleType):
    different = [
        message.id
        for message in tool.catalogue()
        if message.id and tool.fields(message.id) != tool.fields(message.string)
    ]
    assert different == []


def test_french_puts_a_space_before_its_double_signs(tool: ModuleType):
    wrong = [
        message.string
        for message in tool.catalogue()
        if message.id and any(f"{letter}; " in message.string for letter in "abcdefghijklmné)'}")
    ]
    assert wrong == []


def test_what_is_compiled_is_what_is_written(tool: ModuleType):
    with tool.MO.open("rb") as stream:
        compiled = gettext.GNUTranslations(stream)
    messages = [message for message in tool.catalogue() if message.id]
    different = [m.id for m in messages if compiled.gettext(m.id) != m.string]
    assert different == [], ADVICE
    assert len(compiled._catalog) == len(messages) + 1, ADVICE


def test_an_error_class_outside_the_tree_is_not_one_of_ours(tool: ModuleType):
    assert "internal error" in dict(tool.error_templates())
