"""The schema of a function and the arguments it accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from loom_ia.core.ports import InvalidArgumentsError, ToolContext
from loom_ia.tools.decorator import ToolDeclarationError
from loom_ia.tools.python import PythonFunctionTool
from loom_ia.tools.signature import read_signature

if TYPE_CHECKING:
    from collections import Counter


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    label: str
    amount: float = Field(ge=0)


@dataclass
class Point:
    x: int
    y: int = 0


def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
    """Calcule la TVA."""


def test_the_schema_comes_from_the_signature():
    spec = PythonFunctionTool(prix_ttc).spec
    assert spec.name == "prix_ttc"
    assert spec.description == "Calcule la TVA."
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "montant_ht": {"type": "number"},
            "taux_tva": {"type": "number", "default": 20.0},
        },
        "required": ["montant_ht"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_object_for_schema():
    schema = read_signature(lambda: None).schema
    assert schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    "annotation",
    [ToolContext, Optional[ToolContext], ToolContext | None],  # noqa: UP045
    ids=["plain", "optional", "union"],
)
def test_a_context_stays_out_of_the_schema(annotation):
    def f(x: int, ctx): ...

    f.__annotations__["ctx"] = annotation
    found = read_signature(f)
    assert list(found.schema["properties"]) == ["x"]
    assert found.contexts == ("ctx",)


def test_a_context_is_known_by_its_annotation_as_text_too():
    def f(x: int, whatever: Optional[ToolContext] = None, other: Annotated[ToolContext, 1] = None):  # noqa: UP045
        ...

    assert isinstance(f.__annotations__["whatever"], str)
    assert read_signature(f).contexts == ("whatever", "other")


def test_types_of_the_enclosing_function_that_it_uses_are_found():
    class Local(BaseModel):
        n: int

    def f(x: Local) -> int:
        return Local(n=x.n).n

    assert read_signature(f).read({"x": {"n": 1}}) == {"x": Local(n=1)}


def test_names_that_a_pydantic_model_could_not_hold_are_parameters_like_others():
    def f(schema: int, model_config: int, json: int, _private: int, copy: int, p0: int): ...

    given = {"schema": 1, "model_config": 2, "json": 3, "_private": 4, "copy": 5, "p0": 6}
    assert read_signature(f).read(given) == given


def test_what_is_not_given_is_left_to_the_default_of_the_function():
    marker = object()

    def f(x: int = 3, y: object = marker): ...

    found = read_signature(f)
    assert found.read({}) == {}
    assert found.read({"x": 4}) == {"x": 4}
    assert found.schema["properties"] == {"x": {"type": "integer", "default": 3}, "y": {}}


def test_constraints_and_descriptions_of_annotated_go_to_the_schema():
    def f(rate: Annotated[float, Field(ge=0, le=100, description="En pourcentage.")] = 20.0): ...

    assert read_signature(f).schema["properties"]["rate"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 100,
        "description": "En pourcentage.",
        "default": 20.0,
    }


def test_json_forms_become_python_values():
    def f(day: date, colour: Colour, line: Line, point: Point, ids: tuple[UUID, ...]): ...

    uuid = "01900000-0001-7000-8000-000000000001"
    given = {
        "day": "2026-01-31",
        "colour": "red",
        "line": {"label": "a", "amount": 2},
        "point": {"x": 1},
        "ids": [uuid],
    }
    assert read_signature(f).read(given) == {
        "day": date(2026, 1, 31),
        "colour": Colour.RED,
        "line": Line(label="a", amount=2.0),
        "point": Point(1, 0),
        "ids": (UUID(uuid),),
    }


def test_an_iterable_is_checked_before_the_call_and_read_as_often_as_wanted():
    def f(names: Iterable[str]): ...

    assert read_signature(f).read({"names": ["a"]}) == {"names": ["a"]}
    with pytest.raises(InvalidArgumentsError, match=r"names\[0\] : texte attendu"):
        PythonFunctionTool(f).bind({"names": [1]})


def test_methods_partials_and_callable_objects_can_be_read():
    class Service:
        def call(self, x: Line) -> None: ...

        def __call__(self, y: int) -> None: ...

    assert list(read_signature(Service().call).schema["properties"]) == ["x"]
    assert list(read_signature(Service()).schema["properties"]) == ["y"]
    bound = functools.partial(prix_ttc, 100.0)
    assert list(read_signature(bound).schema["properties"]) == ["taux_tva"]
    assert list(read_signature(functools.cache(prix_ttc)).schema["required"]) == ["montant_ht"]


def yields():
    yield 1


async def yields_later():
    yield 1


def unresolved(x: Counter): ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda *args: None, "parameter *args takes any argument"),
        (lambda **options: None, "parameter **options takes any argument"),
        (lambda x, /: None, "parameter x is positional-only"),
        (yields, "it yields"),
        (yields_later, "it yields"),
        (unresolved, "name 'Counter' is not defined in an annotation; import it"),
    ],
)
def test_a_function_that_a_model_could_not_call_is_refused(function, words):
    with pytest.raises(ToolDeclarationError) as caught:
        read_signature(function)
    assert words in str(caught.value)
    assert function.__name__ in str(caught.value)


def test_a_type_without_a_schema_is_refused_with_its_parameter():
    class Opaque: ...

    def f(fine: int, wrong): ...

    f.__annotations__["wrong"] = Opaque
    with pytest.raises(ToolDeclarationError, match=r"parameter wrong: .*Opaque"):
        read_signature(f)


def test_a_callable_parameter_is_refused():
    def f(fine: int, wrong): ...

    f.__annotations__["wrong"] = Callable[[], int]
    with pytest.raises(ToolDeclarationError, match="JSON Schema"):
        read_signature(f)


def test_a_built_in_without_a_signature_is_refused():
    with pytest.raises(ToolDeclarationError, match=r"ContextVar\.get: .*signature"):
        read_signature(ContextVar("v").get)


def test_a_field_as_default_is_refused():
    def f(x: int = Field(3, ge=0)): ...

    with pytest.raises(ToolDeclarationError, match="write Annotated"):
        read_signature(f)


def rich(
    n: int,
    f: float = 0.0,
    *,
    s: Annotated[str, Field(max_length=3)] = "",
    b: bool = False,
    c: Literal["a", 1] | None = None,
    many: list[int | str] | None = None,
    some: Iterable[int] = (),
    unique: set[int | str] = frozenset(),
    line: Line | None = None,
    price: Decimal | None = None,
    free: object = None,
): ...


RICH = PythonFunctionTool(rich)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["a", "1", "2.5", "true", "", "abcd", "é"])
    | st.text(max_size=4)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["label", "amount", "z"]), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = [*RICH.spec.input_schema["properties"], "unknown"]


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_the_schema_accepts_what_bind_accepts(arguments):
    try:
        RICH.bind(arguments)
    except InvalidArgumentsError:
        return
    Draft202012Validator(RICH.spec.input_schema).validate(arguments)


@given(st.fixed_dictionaries({"n": st.integers() | LEAVES}, optional={"s": LEAVES, "b": LEAVES}))
def test_bind_accepts_what_the_schema_accepts_for_plain_types(arguments):
    schema = Draft202012Validator(RICH.spec.input_schema)
    whole = isinstance(arguments["n"], float) and arguments["n"].is_integer()  # 5.0 in a schema
    if whole or not schema.is_valid(arguments):
        return
    RICH.bind(arguments)


def test_the_schema_is_a_valid_one():
    Draft202012Validator.check_schema(RICH.spec.input_schema)
