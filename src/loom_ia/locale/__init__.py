"""Language of what people read: English message ids, and their French catalogue."""

from __future__ import annotations

import gettext
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Literal

from loom_ia.core.text import install as install_translator
from loom_ia.core.text import translate

__all__ = ("Language", "install", "language", "speaking", "translate")

Language = Literal["fr", "en"]
_NONE = ("", "C", "POSIX")
_DOMAIN = "loom_ia.mo"
_ASKED: ContextVar[Callable[[str], str] | None] = ContextVar("asked", default=None)


def language(environ: Mapping[str, str]) -> Language:
    """Language of the reader: LOOM_LANG, else the locale; without a locale, French."""
    for variable in ("LOOM_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(variable, ""):
            return _spoken(value)
    return "fr"


def install(environ: Mapping[str, str]) -> Language:
    """Choose the language of this process from its environment; returns it."""
    chosen = language(environ)
    usual = _catalogue(chosen).gettext

    def translator(msgid: str) -> str:
        return (_ASKED.get() or usual)(msgid)

    install_translator(translator)
    return chosen


@contextmanager
def speaking(chosen: Language) -> Generator[None]:
    """Speak a language to one reader among those that a process serves."""
    before = _ASKED.set(_catalogue(chosen).gettext)
    try:
        yield
    finally:
        _ASKED.reset(before)


def _spoken(value: str) -> Language:
    name = value.partition(".")[0].partition("@")[0]
    if name in _NONE:
        return "fr"
    return "fr" if name.replace("-", "_").partition("_")[0].lower() == "fr" else "en"


@cache
def _catalogue(chosen: Language) -> gettext.NullTranslations:
    if chosen == "en":
        return gettext.NullTranslations()
    # No pathlib: it takes longer to import than all that `--help` needs beside it.
    catalogue = os.path.join(os.path.dirname(__file__), "fr", "LC_MESSAGES", _DOMAIN)  # noqa: PTH118, PTH120
    with open(catalogue, "rb") as stream:  # noqa: PTH123
        return gettext.GNUTranslations(stream)
