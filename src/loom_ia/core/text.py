"""Texts for people, kept as an English message id with parameters until somebody reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, TypeGuard

from pydantic import BeforeValidator

_UNSAFE = re.compile("[\x00\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\ufffd"

Translator = Callable[[str], str]


def _same(msgid: str) -> str:
    return msgid


_translator: list[Translator] = [_same]


def install(translator: Translator) -> None:
    """Choose how message ids become the reader's language, for the whole process."""
    _translator[0] = translator


def translate(msgid: str) -> str:
    """Text of a message id in the language of this process's reader."""
    return _translator[0](msgid)


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence that is translated when it is shown, never before."""

    msgid: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])

    def __str__(self) -> str:
        return fill(translate(self.msgid), self.params)


def fill(template: str, params: Mapping[str, object]) -> str:
    """Template with its `{name}` fields replaced; a field without a value stays as written."""
    return template.format_map(_Lenient(params))


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def clean(text: str) -> str:
    """Text that every store and every provider accepts.

    NUL, lone surrogates and the two non-characters U+FFFE and U+FFFF become U+FFFD, which also
    tells the reader that the text was altered. Surrogate pairs left by a careless decoder become
    the character they meant.
    """
    if text.isascii():
        return text.replace("\x00", REPLACEMENT) if "\x00" in text else text
    if _UNSAFE.search(text) is None:
        return text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _UNSAFE.sub(REPLACEMENT, joined)


def clean_json(value: object) -> object:
    """JSON value with every string cleaned, keys included; what JSON cannot count becomes null."""
    if isinstance(value, str):
        return clean(value)
    if _is_mapping(value):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    if _is_sequence(value):
        return [clean_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _clean_if_text(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


CleanText = Annotated[str, BeforeValidator(_clean_if_text)]
"""A string field that is cleaned on entry."""

CleanJson = Annotated[dict[str, object], BeforeValidator(clean_json)]
"""A JSON object whose strings are cleaned on entry."""
