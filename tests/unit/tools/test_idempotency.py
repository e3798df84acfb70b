"""What `@idempotent` says of a function, and the key that it gives."""

import functools

import pytest

from loom_ia.core.ports import KeyFaultError
from loom_ia.tools import idempotent, tool
from loom_ia.tools.decorator import ToolDeclarationError, declaration_of
from loom_ia.tools.idempotency import KeyDeclaration, business_key, key_of


def number(args):
    return f"relance:{args['numero']}"


@pytest.mark.parametrize("first", [True, False])
def test_both_decorators_are_kept_in_any_order(first: bool):
    both = (idempotent(key=number), tool(side_effects="irreversible"))
    outer, inner = both if first else reversed(both)

    @outer
    @inner
    def send(numero: str) -> str:
        return numero

    assert key_of(send) == KeyDeclaration(number)
    assert declaration_of(send).side_effects == "irreversible"
    assert send("x") == "x"


def test_without_a_function_the_key_is_technical():
    assert key_of(idempotent(lambda: None)) == KeyDeclaration(None)
    assert key_of(idempotent()(lambda: None)) == KeyDeclaration(None)
    assert key_of(lambda: None) is None


def test_a_wrapper_keeps_the_key_of_what_it_wraps():
    @idempotent(key=number)
    def inner(numero: str) -> None: ...

    @functools.wraps(inner)
    def outer(**arguments) -> None: ...

    assert key_of(outer) == KeyDeclaration(number)


async def later(args):
    return ""


@pytest.mark.parametrize("key", ["relance", later])
def test_what_is_not_a_synchronous_function_is_refused(key):
    with pytest.raises(ToolDeclarationError, match="give a function, not an asynchronous one"):
        idempotent(key=key)(lambda: None)
    with pytest.raises(ToolDeclarationError, match="not a function"):
        idempotent("relance")  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize(
    ("numero", "key"),
    [
        ("D-2026-042", "relance:D-2026-042"),
        ("D\u20112026\u2011042", "relance:D-2026-042"),
        ("D-2026-042\u00a0", "relance:D-2026-042"),
        ("E\u0301te\u0301", "relance:\u00c9t\u00e9"),
        ("d-2026-042", "relance:d-2026-042"),
    ],
)
def test_a_key_has_one_spelling(numero: str, key: str):
    assert business_key(number, {})({"numero": numero}) == key


def test_a_default_of_the_tool_is_given_to_its_key():
    key = business_key(lambda args: args["ton"], {"properties": {"ton": {"default": "poli"}}})
    assert key({}) == "poli"
    assert key({"ton": "ferme"}) == "ferme"


WRONG = {
    "raises": lambda args: args["absent"],
    "no text": lambda args: 42,
    "blank": lambda args: "  ",
    "too long": lambda args: "k" * 1001,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_no_key_is_a_fault(wrong):
    with pytest.raises(KeyFaultError):
        business_key(wrong, {})({})
