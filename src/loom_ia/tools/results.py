"""Turns what a function returns into what a model reads: texts, JSON and images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pydantic_core import to_jsonable_python

from loom_ia.core.wording import Language
from loom_ia.tools.media import IMAGES, media_type_of
from loom_ia.tools.wording import unreadable


@dataclass(frozen=True, slots=True)
class Image:
    """An image to show to the model; its type is read from its first bytes."""

    data: bytes
    media_type: str = ""
    """Only a hint: what the bytes say wins."""


class ToolResultUnreadableError(Exception):
    """A tool acted, but what it gave cannot be shown; so this is no `ToolError`."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image whose type is known."""

    data: bytes
    media_type: str


Part = str | Picture


def parts_of(result: object, language: Language = "fr") -> tuple[Part, ...]:
    """Texts and images of a result, in order; what is neither text nor image becomes JSON.

    Raises:
        ToolResultUnreadableError: something in it is not JSON, or no image of a known type.

    """
    if isinstance(result, str):
        return (result,)
    if isinstance(result, Image):
        return (_picture(result, language),)
    if _is_sequence(result) and any(isinstance(item, Image) for item in result):
        return tuple(part for item in result for part in parts_of(item, language))
    return (_json(result, language),)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _picture(image: Image, language: Language) -> Picture:
    found = media_type_of(image.data)
    if found not in IMAGES:
        raise ToolResultUnreadableError(unreadable(language, "not_image"))
    return Picture(image.data, found)


def _json(result: object, language: Language) -> str:
    try:
        return _dumped(result)
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        text = unreadable(language, "not_json", reason=reason)
        raise ToolResultUnreadableError(text) from error


def _dumped(result: object) -> str:
    try:
        return json.dumps(result, ensure_ascii=False, allow_nan=False, default=_jsonable)
    except TypeError:  # keys that json refuses but that have a text: dates, enumerations
        return json.dumps(_jsonable(result), ensure_ascii=False, allow_nan=False)


def _jsonable(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        msg = "bytes; return Image(data) for an image"
        raise TypeError(msg)
    made: object = to_jsonable_python(value)
    return made
