"""What a model is told of arguments that do not fit and of results that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loom_ia.core.cleaning import clean
from loom_ia.core.wording import Language

SHOWN = 80
"""Characters shown of a value that does not fit."""

Sentence = tuple[str, str]

_HEAD: Sentence = (
    "Arguments invalides pour {name}. Corrige et refais l'appel :",
    "Invalid arguments for {name}. Correct them and make the call again:",
)
_LINE: Sentence = ("{expected} ; reçu {given}", "{expected}; got {given}")
_ROOT: Sentence = ("arguments", "arguments")
_NOT_JSON: Sentence = (
    "un objet JSON attendu, sans NaN ni infini",
    "a JSON object is expected, without NaN or infinity",
)
_UNKNOWN: Sentence = (
    "argument inconnu ; arguments acceptés : {names}",
    "unknown argument; accepted arguments: {names}",
)
_MISSING: Sentence = ("argument obligatoire absent", "required argument is missing")
_NO_NAMES: Sentence = ("aucun", "none")

_EXPECTED: Mapping[str, Sentence] = {
    "int_type": ("entier attendu", "an integer is expected"),
    "int_from_float": ("entier attendu", "an integer is expected"),
    "int_parsing": ("entier attendu", "an integer is expected"),
    "float_type": ("nombre attendu", "a number is expected"),
    "float_parsing": ("nombre attendu", "a number is expected"),
    "decimal_type": ("nombre attendu", "a number is expected"),
    "decimal_parsing": ("nombre attendu", "a number is expected"),
    "finite_number": ("nombre fini attendu", "a finite number is expected"),
    "string_type": ("texte attendu", "a text is expected"),
    "bool_type": ("true ou false attendu", "true or false is expected"),
    "bool_parsing": ("true ou false attendu", "true or false is expected"),
    "none_required": ("null attendu", "null is expected"),
    "list_type": ("liste attendue", "a list is expected"),
    "tuple_type": ("liste attendue", "a list is expected"),
    "set_type": ("liste attendue", "a list is expected"),
    "frozen_set_type": ("liste attendue", "a list is expected"),
    "dict_type": ("objet attendu", "an object is expected"),
    "model_type": ("objet attendu", "an object is expected"),
    "model_attributes_type": ("objet attendu", "an object is expected"),
    "dataclass_type": ("objet attendu", "an object is expected"),
    "literal_error": ("valeurs acceptées : {expected}", "accepted values: {expected}"),
    "enum": ("valeurs acceptées : {expected}", "accepted values: {expected}"),
    "greater_than": ("doit être > {gt}", "must be > {gt}"),
    "greater_than_equal": ("doit être ≥ {ge}", "must be ≥ {ge}"),
    "less_than": ("doit être < {lt}", "must be < {lt}"),
    "less_than_equal": ("doit être ≤ {le}", "must be ≤ {le}"),
    "multiple_of": (
        "doit être un multiple de {multiple_of}",
        "must be a multiple of {multiple_of}",
    ),
    "string_too_short": ("au moins {min_length} caractères", "at least {min_length} characters"),
    "string_too_long": ("au plus {max_length} caractères", "at most {max_length} characters"),
    "string_pattern_mismatch": ("doit suivre le motif {pattern}", "must match {pattern}"),
    "too_short": ("au moins {min_length} éléments", "at least {min_length} items"),
    "too_long": ("au plus {max_length} éléments", "at most {max_length} items"),
    "date_type": ("date AAAA-MM-JJ attendue", "a date YYYY-MM-DD is expected"),
    "date_parsing": ("date AAAA-MM-JJ attendue", "a date YYYY-MM-DD is expected"),
    "date_from_datetime_parsing": ("date AAAA-MM-JJ attendue", "a date YYYY-MM-DD is expected"),
    "datetime_type": ("date et heure ISO 8601 attendues", "an ISO 8601 instant is expected"),
    "datetime_parsing": ("date et heure ISO 8601 attendues", "an ISO 8601 instant is expected"),
    "datetime_from_date_parsing": (
        "date et heure ISO 8601 attendues",
        "an ISO 8601 instant is expected",
    ),
    "time_parsing": ("heure HH:MM:SS attendue", "a time HH:MM:SS is expected"),
    "uuid_parsing": ("UUID attendu", "a UUID is expected"),
    "url_parsing": ("adresse (URL) attendue", "a URL is expected"),
}

_RESULT: Mapping[str, Sentence] = {
    "not_json": (
        "l'appel a eu lieu, mais son résultat ne peut pas s'écrire en JSON ({reason})",
        "the call took place, but its result cannot be written as JSON ({reason})",
    ),
    "not_image": (
        "l'appel a eu lieu, mais son image n'est ni JPEG, ni PNG, ni GIF, ni WebP",
        "the call took place, but its image is not JPEG, PNG, GIF or WebP",
    ),
    "no_storage": (
        "l'appel a eu lieu, mais rien ne peut ranger l'image qu'il a rendue",
        "the call took place, but nothing can keep the image it gave",
    ),
}


def unreadable(language: Language, key: str, **params: object) -> str:
    """Why the result of a call cannot be shown."""
    return _in(language, _RESULT[key]).format(**params)


def not_json(language: Language, name: str) -> str:
    """Refusal of arguments that are not JSON at all."""
    return f"{_in(language, _HEAD).format(name=name)}\n- {_in(language, _NOT_JSON)}"


def refusal(language: Language, name: str, names: Sequence[str], error: ValidationError) -> str:
    """Each argument that does not fit: where, what is expected, what was given."""
    head = _in(language, _HEAD).format(name=name)
    details = error.errors(include_url=False)
    lines = (f"- {_path(language, one)} : " + _why(language, one, names) for one in details)
    if language == "en":
        lines = (line.replace(" : ", ": ", 1) for line in lines)
    return clean("\n".join((head, *dict.fromkeys(lines))))


def misfit(language: Language, name: str, problems: Sequence[tuple[str, str]]) -> str:
    """Refusal of arguments that break rules of a JSON Schema, each told where and as written."""
    if not problems:
        return not_json(language, name)
    colon = " :" if language == "fr" else ":"
    lines = [f"- {where or _in(language, _ROOT)}{colon} {rule}" for where, rule in problems]
    return clean("\n".join((_in(language, _HEAD).format(name=name), *dict.fromkeys(lines))))


def _in(language: Language, sentence: Sentence) -> str:
    return sentence[0] if language == "fr" else sentence[1]


def _path(language: Language, detail: ErrorDetails) -> str:
    path = ""
    for part in detail["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or _in(language, _ROOT)


def _why(language: Language, detail: ErrorDetails, names: Sequence[str]) -> str:
    code = detail["type"]
    if code == "missing":
        return _in(language, _MISSING)
    if code == "extra_forbidden" and len(detail["loc"]) == 1:
        return _in(language, _UNKNOWN).format(names=", ".join(names) or _in(language, _NO_NAMES))
    known = _EXPECTED.get(code)
    context: Mapping[str, object] = detail.get("ctx", {})
    expected = _in(language, known).format_map(context) if known else detail["msg"]
    return _in(language, _LINE).format(expected=expected, given=_short(detail["input"]))


def _short(value: object) -> str:
    written: Callable[[object], str] = repr
    shown = json.dumps(value, ensure_ascii=False, default=written)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
