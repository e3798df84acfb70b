"""Which calls are the same."""

import pytest

from loom_ia.core.sameness import same_call, same_text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x", "b": 1}, {"b": 1, "a": "x"}),
        ({"a": "D-2026-042"}, {"a": " D\u20112026\u2010042\u00a0"}),
        ({"a": "\u00e9t\u00e9"}, {"a": "e\u0301te\u0301"}),
        ({"a": "un  mot"}, {"a": "un\u202fmot\n"}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": ("x", {"k": "v "})}, {"a": ["x", {"k": "v"}]}),
    ],
)
def test_what_says_the_same_is_the_same_call(one, other):
    assert same_call("t", one) == same_call("t", other)


@pytest.mark.parametrize(
    "other", [{"a": "X"}, {"a": 1}, {"a": "1 "}, {"a": None}, {"b": "x"}, {"a": ["x"]}, {}]
)
def test_what_says_something_else_is_another_call(other):
    assert same_call("t", {"a": "x"}) != same_call("t", other)
    assert same_call("t", {"a": True}) != same_call("t", {"a": 1})
    assert same_call("t", {"a": "x"}) != same_call("u", {"a": "x"})


def test_a_half_character_does_not_stop_the_comparison():
    assert same_text("\ud83d") == "\ud83d"
    assert same_call("t", {"a": "\ud83d"}) == same_call("t", {"a": "\ud83d "})
