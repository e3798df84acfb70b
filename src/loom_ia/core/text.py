"""Texts for people, kept as an English message id with parameters until somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
