"""Which JSON of a text is taken: the same one each time, without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.policies.extraction import candidates

FENCED = 'Voici :\n```json\n{"a": 1}\n```\nBonne journée.'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', ['{"a": 1}']),
        ('\ufeff  {"a": 1}\n', ['{"a": 1}']),
        ("42", ["42"]),
        (FENCED, ['{"a": 1}']),
        ('```\n{"a": 1}\n```\npuis\n~~~json\n{"a": 2}\n~~~', ['{"a": 1}', '{"a": 2}']),
        ('Donc {"a": {"b": 1}} et [2, 3].', ['{"a": {"b": 1}}', "[2, 3]"]),
        ('```python\nprint({})\n```\n{"a": 1}', ["{}", '{"a": 1}']),
        ("rien", []),
        ('{"a": NaN}', []),
        ('{"a": 1', []),
        ("{" * 3000, []),
        ("[" * 100_000, []),
    ],
)
def test_the_candidates_of_a_text_are_known(text: str, expected: list[str]) -> None:
    assert [found.text for found in candidates(text)] == expected


@given(st.text(max_size=200))
def test_any_text_has_candidates_that_stand_in_it(text: str) -> None:
    assert all(found.text in text for found in candidates(text))
