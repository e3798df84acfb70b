"""Texts for people, kept as an English message id with parameters until somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

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


_NOTHING: Mapping[str, object] = {}


class Text:
    """A sentence that is translated when it is shown, never before.

    No data class: their module takes longer to import than all that `--help` needs beside it.
    """

    __slots__ = ("msgid", "params")

    def __init__(self, msgid: str, params: Mapping[str, object] = _NOTHING) -> None:
        self.msgid: Final = msgid
        self.params: Final = params

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and (self.msgid, self.params) == (other.msgid, other.params)

    def __hash__(self) -> int:
        return hash(self.msgid)

    def __repr__(self) -> str:
        return f"Text({self.msgid!r}, {self.params!r})"

    def __str__(self) -> str:
        return fill(translate(self.msgid), self.params)


def fill(template: str, params: Mapping[str, object]) -> str:
    """Template with its `{name}` fields replaced; a field without a value stays as written."""
    return template.format_map(_Lenient(params))


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
