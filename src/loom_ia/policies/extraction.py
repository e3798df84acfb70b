"""The JSON in a text, chosen without a model.

The candidates are, in order: the whole text; the contents of its fenced blocks, or, when none of
them is JSON, the objects and lists that stand in it, the outer ones only. Of several candidates
the last one that fits is taken: models show an example first, and answer last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE
)
_OPENING = re.compile(r"[{\[]")
_ATTEMPTS = 500
"""Openings of an object or a list that are tried: a text of braces alone costs no more."""


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON value and the part of the text that holds it, as it was written."""

    text: str
    value: object


def candidates(text: str) -> list[Found]:
    """JSON values that may be what a text says, in order; a lone value is the first to be read."""
    whole = _read(text.strip().removeprefix("\ufeff").strip())
    if whole is not None:
        return [whole]
    blocks = [_read(match.group(2).strip()) for match in _FENCE.finditer(text)]
    fenced = [found for found in blocks if found is not None]
    return fenced or list(_embedded(text))


def _embedded(text: str) -> Iterator[Found]:
    position, tried = 0, 0
    while (opening := _OPENING.search(text, position)) is not None and tried < _ATTEMPTS:
        start = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            position, tried = start + 1, tried + 1
            continue
        yield Found(text[start:end], value)
        position = end


def _read(text: str) -> Found | None:
    try:
        return Found(text, _DECODER.decode(text))
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> object:
    """NaN and the infinities, which Python reads and JSON does not have.

    Raises:
        ValueError: always.

    """
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refused)
