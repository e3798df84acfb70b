"""What a contract finds in a text, and what its author is told."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from loom_ia.policies.contract import Contract, Terms
from loom_ia.policies.schemas import flaw, pattern_flaw

MAIL = {
    "type": "object",
    "properties": {
        "objet": {"type": "string", "minLength": 5},
        "corps": {"type": "string", "minLength": 20},
    },
    "required": ["objet", "corps"],
    "additionalProperties": False,
}
GOOD = '{"objet": "Votre devis", "corps": "Bonjour, voici le devis demandé."}'


async def at_once(call: Callable[[], object]) -> object:
    return call()


def judged(terms: Terms, text: str, language: str = "fr"):
    return Contract(terms, language, at_once).judge(text)


@pytest.mark.parametrize(
    "text", [GOOD, f"```json\n{GOOD}\n```", f'Exemple : {{"a": 1}}. Donc {GOOD}']
)
def test_the_json_that_fits_is_what_the_text_becomes(text: str) -> None:
    found = judged(Terms(schema=MAIL), text)
    assert found.accepted
    assert found.parsed
    assert (found.text or text) == GOOD


def test_of_two_values_that_fit_the_last_one_is_taken() -> None:
    other = GOOD.replace("Votre devis", "Le bon devis")
    assert judged(Terms(schema=MAIL), f"{GOOD}\n{other}").text == other


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bonjour", "aucun JSON dans la réponse ; donne une valeur JSON conforme à ce schéma"),
        ('{"objet": "Non"}', "clé(s) absente(s) : corps"),
        ('{"objet": "Non"}', "objet : au moins 5 caractères ; reçu 3"),
        (GOOD.replace("}", ', "x": 1}'), "la réponse : clé(s) en trop : x"),
        ('{"objet": 12, "corps": null}', "objet : type attendu : string ; reçu 12"),
    ],
)
def test_the_author_is_told_where_and_what(text: str, expected: str) -> None:
    found = judged(Terms(schema=MAIL), text)
    assert not found.accepted
    assert expected in found.diagnosis


def test_each_keyword_has_its_sentence_in_both_languages() -> None:
    schema = {
        "properties": {
            "a": {"enum": [1, 2]},
            "b": {"const": "x"},
            "c": {"minimum": 3, "maximum": 4},
            "d": {"pattern": "^D-"},
            "e": {"minItems": 1},
            "f": {"multipleOf": 5},
            "g": {"not": {}},
        }
    }
    text = '{"a": 3, "b": "y", "c": 1, "d": "x", "e": [], "f": 3, "g": 1}'
    french, english = (judged(Terms(schema=schema), text, lang).diagnosis for lang in ("fr", "en"))
    assert french.count("\n") == english.count("\n") == 5
    assert french.endswith("- et 2 autre(s) problème(s)")
    assert "- a: accepted values: [1, 2]; got 3" in english


@pytest.mark.parametrize(
    ("terms", "text", "accepted"),
    [
        (Terms(must_match=r"D-\d+"), "Devis D-42", True),
        (Terms(must_match=r"D-\d+"), "Devis", False),
        (Terms(must_not_match="(?i)à compléter|xxx"), "Tout est là", True),
        (Terms(must_not_match="(?i)à compléter|xxx"), "À COMPLÉTER", False),
        (Terms(must_not_match="à compléter"), "a\u0300 comple\u0301ter", False),
        (Terms(max_chars=3), "abc", True),
        (Terms(max_chars=3), "abcd", False),
        (
            Terms(schema={"type": "object"}, must_not_match="à compl"),
            '{"c": "\\u00e0 compl"}',
            False,
        ),
    ],
)
def test_patterns_and_length_are_checked_on_what_is_meant(
    terms: Terms, text: str, *, accepted: bool
) -> None:
    assert judged(terms, text).accepted is accepted


@pytest.mark.parametrize(
    "terms",
    [
        Terms(must_not_match="(a|aa)+$"),
        Terms(schema={"type": "object", "properties": {"t": {"pattern": "^(a|aa)+$"}}}),
    ],
)
def test_a_pattern_that_never_ends_refuses_within_its_time(
    terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loom_ia.policies.schemas.PATTERN_TIME", 0.05)
    found = judged(terms, '{"t": "' + "a" * 60 + 'b"}' if terms.schema else "a" * 60 + "b")
    assert "vérifiée" in found.diagnosis


async def test_it_reads_in_a_thread() -> None:
    seen: list[int] = []

    async def in_thread(call: Callable[[], object]) -> object:
        seen.append(threading.get_ident())
        return await asyncio.to_thread(call)

    assert (await Contract(Terms(max_chars=2), "fr", in_thread).check("ok")).accepted
    assert len(seen) == 1


async def test_what_breaks_while_reading_refuses() -> None:
    async def broken(_call: Callable[[], object]) -> object:
        raise OSError

    assert not (await Contract(Terms(max_chars=2), "fr", broken).check("ok")).accepted


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "objet"}, ("type",)),
        ({"properties": {"a": {"$ref": "#/$defs/absent"}}}, ("properties", "a", "$ref")),
        ({"$ref": "https://example.org/s.json"}, ("$ref",)),
        ({"properties": {"a": {"pattern": "("}}}, ("properties", "a", "pattern")),
    ],
)
def test_a_schema_that_cannot_be_used_says_where(schema: dict[str, object], place: object) -> None:
    found = flaw(schema)
    assert found is not None
    assert found[1] == place


def test_a_right_schema_has_no_flaw() -> None:
    assert flaw({"$defs": {"x": {"type": "string"}}, "items": {"$ref": "#/$defs/x"}}) is None
    assert flaw({"default": {"$ref": "n'importe"}, "$ref": "#"}) is None
    assert pattern_flaw("(?i)à|b") is None
    assert pattern_flaw("(") is not None
