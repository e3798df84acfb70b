"""What a function declares of itself."""

import functools

import pytest

from loom_ia.core.errors import Kind
from loom_ia.tools import tool
from loom_ia.tools.decorator import SILENT, Declaration, ToolDeclarationError, declaration_of


def test_a_decorated_function_can_still_be_called_as_it_was():
    @tool
    def double(x: int) -> int:
        return 2 * x

    @tool(side_effects="none")
    def triple(x: int) -> int:
        return 3 * x

    assert (double(2), triple(2)) == (4, 6)
    assert double.__name__ == "double"


def test_a_function_carries_what_it_declares():
    @tool(
        name="envoyer",
        description="Envoie.",
        side_effects="irreversible",
        approval="always",
        idempotent=False,
        on_unknown="pause",
        timeout=20,
    )
    def send() -> None: ...

    assert declaration_of(send) == Declaration(
        name="envoyer",
        description="Envoie.",
        side_effects="irreversible",
        approval="always",
        idempotent=False,
        on_unknown="pause",
        timeout=20,
    )


def test_a_function_without_the_decorator_declares_nothing():
    assert declaration_of(lambda: None) is SILENT


def test_the_bare_decorator_declares_nothing():
    assert declaration_of(tool(lambda: None)) == SILENT


def test_a_wrapper_keeps_the_declaration_of_what_it_wraps():
    @tool(side_effects="none")
    def inner() -> None: ...

    @functools.wraps(inner)
    def outer() -> None: ...

    assert declaration_of(outer).side_effects == "none"


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("side_effects", "no", "'none', 'reversible', 'irreversible'"),
        ("side_effects", False, "'none', 'reversible', 'irreversible'"),
        ("approval", "sometimes", "'never', 'always', 'policy'"),
        ("on_unknown", "retry", "'error', 'pause'"),
        ("idempotent", "yes", "True, False"),
        ("timeout", 0, "a positive number of seconds"),
        ("timeout", True, "a positive number of seconds"),
        ("timeout", float("inf"), "a positive number of seconds"),
        ("timeout", "20", "a positive number of seconds"),
        ("name", "", "a text that is not empty"),
        ("description", 3, "a text that is not empty"),
    ],
)
def test_a_wrong_value_is_refused_with_the_function_and_the_accepted_ones(option, value, accepted):
    def send() -> None: ...

    with pytest.raises(ToolDeclarationError) as caught:
        tool(**{option: value})(send)
    text = str(caught.value)
    assert caught.value.kind is Kind.CONFIG
    assert "send" in text
    assert f"{option} is {value!r}" in text
    assert accepted in text


def test_an_unknown_option_is_refused_with_the_known_ones():
    with pytest.raises(ToolDeclarationError, match="'retries' is unknown; options: name, desc"):
        tool(retries=3)(lambda: None)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(ToolDeclarationError, match="3: this is not a function"):
        tool(3)
