"""When two calls are the same: one tool, and arguments that say the same thing.

The rule for texts: Unicode NFC; every kind of space is a space, runs of them are one, none at
either end; every kind of hyphen and minus is `-`. Keys of objects have no order. `1` and `1.0`
are one number. Nothing else is equated: neither case, nor accents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeGuard
from unicodedata import normalize

_SPACES = re.compile(r"[\s\u200b\u2060\ufeff]+")
_HYPHENS = re.compile("[\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d]")


def same_text(text: str) -> str:
    """The one spelling of texts that say the same thing."""
    if text.isascii():
        return " ".join(text.split())
    return _SPACES.sub(" ", _HYPHENS.sub("-", normalize("NFC", text))).strip()


def same_call(tool: str, arguments: Mapping[str, object]) -> str:
    """Digest that equal calls of a tool share."""
    text = json.dumps([tool, same_value(arguments)], sort_keys=True, ensure_ascii=False)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def same_value(value: object) -> object:
    """The one spelling of a JSON value, its texts included."""
    if isinstance(value, str):
        return same_text(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if _is_mapping(value):
        return {same_text(str(key)): same_value(item) for key, item in value.items()}
    if _is_sequence(value):
        return [same_value(item) for item in value]
    return value


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)
