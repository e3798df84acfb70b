"""One rule for text that no store or provider accepts, applied where it enters a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, TypeGuard

from pydantic import BeforeValidator

_UNSAFE = re.compile("[\x00\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\ufffd"


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
    if value is None or isinstance(value, int):
        return value
    if _is_mapping(value):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    if _is_sequence(value):
        return [clean_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    # most are plain dictionaries, which the check of an abstract class is slow to tell
    return type(value) is dict or isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _clean_if_text(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


CleanText = Annotated[str, BeforeValidator(_clean_if_text)]
"""A string field that is cleaned on entry."""

CleanJson = Annotated[dict[str, object], BeforeValidator(clean_json)]
"""A JSON object whose strings are cleaned on entry."""
