"""Language of what people read: English message ids, and their French catalogue."""

from __future__ import annotations

import gettext
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from loom_ia.core.text import install as install_translator
from loom_ia.core.text import translate

__all__ = ("Language", "install", "language", "translate")

Language = Literal["fr", "en"]
_NONE = ("", "C", "POSIX")
_DOMAIN = "loom_ia.mo"


def language(environ: Mapping[str, str]) -> Language:
    """Language of the reader: LOOM_LANG, else the locale; without a locale, French."""
    for variable in ("LOOM_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(variable, ""):
            return _spoken(value)
    return "fr"


def install(environ: Mapping[str, str]) -> Language:
    """Choose the language of this process from its environment; returns it."""
    chosen = language(environ)
    install_translator(_catalogue(chosen).gettext)
    return chosen


def _spoken(value: str) -> Language:
    name = value.partition(".")[0].partition("@")[0]
    if name in _NONE:
        return "fr"
    return "fr" if name.replace("-", "_").partition("_")[0].lower() == "fr" else "en"


def _catalogue(chosen: Language) -> gettext.NullTranslations:
    if chosen == "en":
        return gettext.NullTranslations()
    catalogue = Path(__file__).parent / "fr" / "LC_MESSAGES" / _DOMAIN
    with catalogue.open("rb") as stream:
        return gettext.GNUTranslations(stream)
